"""Which schemas may be the form of an answer, exactly at their bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hobus.config import limits
from hobus.config.json_schema import find_schema_fault


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OUTPUT_SCHEMA_MAX_BYTES", 200)
    monkeypatch.setattr(limits, "OUTPUT_SCHEMA_DEPTH_MAX", 5)


@pytest.mark.parametrize(
    "schema",
    [
        {}, {"type": "object"}, {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
        {"properties": {"$ref": {"type": "string"}}}, {"properties": {"a": {"$ref": "#b"}, "b": {"$anchor": "b"}}},
        {"properties": {"a": {"properties": {"b": {}}}}}, {"description": "x" * (200 - len(json.dumps({"description": ""})))},
    ],
)  # fmt: skip
def test_it_describes_an_object_and_stands_on_its_own(schema: dict[str, Any]) -> None:
    assert find_schema_fault(schema) == ""


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array"}, "an object"), ({"type": ["object", "null"]}, "an object"), ({"type": 7}, "an object"),
        ({"properties": 7}, "no JSON Schema at $.properties"), ({"properties": {"a": {"pattern": "("}}}, "no JSON Schema"),
        ({"properties": {"a": {"properties": {"b": {"type": ["null"]}}}}}, "more than 5 levels"),
        ({"description": "x" * (201 - len(json.dumps({"description": ""})))}, "at most 200 are taken"),
        ({"const": 2**64}, "64 bits"), ({"const": float("nan")}, "64 bits"),
        ({"$ref": "http://127.0.0.1/x"}, "outside itself"), ({"$ref": "#"}, "without end"), ({"$ref": "#/$defs/a"}, "a missing definition"), ({"$ref": "#b"}, "missing definition"),
        ({"enum": [1], "$ref": "#/enum/x"}, "a missing definition"), ({"const": {"a": "s"}, "$ref": "#/const/a/b"}, "missing definition"),
        ({"title": "x", "properties": {"a": {"$ref": "#/title"}}}, "a missing definition"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_form_is_told_why(schema: dict[str, Any], said: str) -> None:
    assert said in find_schema_fault(schema)
