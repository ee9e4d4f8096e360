"""A function's annotations as a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest
from jsonschema_rs import Draft202012Validator

from hobus.actors.ho1_executor.tools.entry_points import NoSchema, invocation_parameter, schema_of
from hobus.bus.tool import Invocation
from hobus.config.json_schema import check_schema


def everything(  # noqa: PLR0917 - one parameter per kind of annotation
    text: str,
    whole: int,
    share: float = 0.5,
    yes: bool = False,
    kind: Literal["a", "b"] = "a",
    many: list[int] | None = None,
    named: dict[str, float] | None = None,
    some: Sequence[str] = (),
    rows: Mapping[str, Any] | None = None,
    *,
    call: Invocation,
) -> str:
    """Whatever."""
    return text


def test_every_plain_annotation_has_its_schema():
    """A parameter without default is required, the call's own facts are no argument, nothing else is allowed."""
    schema = schema_of(everything)
    check_schema(schema)
    assert schema["required"] == ["text", "whole"]
    assert schema["additionalProperties"] is False
    assert "call" not in schema["properties"]
    assert schema["properties"]["kind"] == {"enum": ["a", "b"], "default": "a"}
    assert schema["properties"]["many"] == {
        "anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]
    }
    validator = Draft202012Validator(schema)
    assert validator.is_valid({"text": "x", "whole": 1, "named": {"a": 1.5}, "some": ["x"], "rows": {"z": []}})
    assert not validator.is_valid({"text": "x", "whole": "1"})
    assert not validator.is_valid({"text": "x", "whole": 1, "call": {}})
    assert invocation_parameter(everything) == "call"


def unannotated(a):
    """No."""


def starred(*a: int):
    """No."""


def positional(a: int, /):
    """No."""


def strange(a: set[int]):
    """No."""


def unreadable(a: NoSuchName):  # noqa: F821 - that is the point
    """No."""


@pytest.mark.parametrize("function", [unannotated, starred, positional, strange, unreadable])
def test_what_has_no_schema_says_which_parameter_and_what_fixes_it(function):
    """And never guesses."""
    with pytest.raises(NoSchema, match="parameters="):
        schema_of(function)
