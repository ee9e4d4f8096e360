"""Which schemas are taken; none of them makes this process fetch anything."""

from __future__ import annotations

from typing import Any

import pytest

from config.json_schema import SchemaFault, validator_of


def nested(levels: int) -> dict[str, Any]:
    """A schema that deep."""
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": 5}, "is no JSON Schema at $.type"),
        ({"pattern": "a{99999999999999999999}"}, "a pattern that is none"),
        ({"pattern": "("}, "is no JSON Schema at $.pattern"),
        ({"pattern": "(" * 5000}, "nested too deeply"),
        ("nonsense", "is no JSON Schema at $"),
        ({"$ref": "http://127.0.0.1:1/x"}, "outside itself"),
        ({"$ref": "file:///etc/hostname"}, "outside itself"),
        ({"properties": {"a": {"items": {"$dynamicRef": "other.json"}}}}, "outside itself"),
        ({"$ref": "#/nowhere"}, "that is not there"),
        ({"$ref": "#"}, "nested too deeply"),
        (nested(50_000), "nested too deeply"),
    ],
)
def test_a_schema_that_cannot_stand_on_its_own_is_refused(schema: Any, words: str) -> None:
    """With the reason, and twice in the same way."""
    for _ in range(2):
        with pytest.raises(SchemaFault, match=words.replace("$", r"\$")):
            validator_of(schema)


def test_a_schema_may_refer_to_itself() -> None:
    """As those of recursive documents do."""
    tree = {"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"}
    assert validator_of(tree).is_valid([[], [[]]])
    assert not validator_of(tree).is_valid([1])
