"""Schemas of others: what they fill in."""

import copy
import json

import pytest

from hobus.bus.json_text import is_within
from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX
from hobus.config.schema_defaults import with_defaults

SCALE = {"type": "string", "enum": ["css", "device"], "default": "css"}


INNER = {"type": "object", "properties": {"scale": SCALE}, "required": ["scale"]}
"""With what is filled in."""


def within(schema, **root):
    """Of an object whose `a` has this schema."""
    return {"properties": {"a": schema}, "required": ["a"], **root}


@pytest.mark.parametrize(
    ("schema", "arguments", "filled"),
    [
        ({"properties": {"scale": SCALE}, "required": ["scale"]}, {}, {"scale": "css"}),
        ({"properties": {"scale": SCALE}, "required": ["scale"]}, {"scale": "device"}, {"scale": "device"}),
        ({"properties": {"scale": SCALE}}, {}, {}),
        ({"properties": {"a": {"default": None}}, "required": ["a", "b"]}, {}, {"a": None}),
        ({"properties": {"a": True}, "required": ["a"]}, {}, {}),
        ({"required": ["a"]}, {"b": 1}, {"b": 1}),
        ({}, {}, {}),
        (within(INNER), {"a": {}}, {"a": {"scale": "css"}}),
        (within(INNER), {}, {}),
        (within(INNER | {"default": {}}), {}, {"a": {"scale": "css"}}),
        (within(within(within(INNER))), {"a": {"a": {"a": {}}}}, {"a": {"a": {"a": {"scale": "css"}}}}),
        (within({"items": INNER}), {"a": [{}, {"scale": "device"}, 7]}, {"a": [{"scale": "css"}, {"scale": "device"}, 7]}),
        (within({"prefixItems": [{}, INNER]}), {"a": [{}, {}, {}]}, {"a": [{}, {"scale": "css"}, {}]}),
        (within({"additionalProperties": INNER}), {"a": {"b": {}}}, {"a": {"b": {"scale": "css"}}}),
        (within({"$ref": "#/$defs/i"}, **{"$defs": {"i": INNER}}), {"a": {}}, {"a": {"scale": "css"}}),
        (within({"$ref": "#/$defs/s"}, **{"$defs": {"s": SCALE}}), {}, {"a": "css"}),
        (within({"allOf": [{"$ref": "#/$defs/i"}]}, **{"$defs": {"i": INNER}}), {"a": {}}, {"a": {"scale": "css"}}),
        (within({"anyOf": [{"$ref": "#/$defs/i"}, {"type": "null"}]}, **{"$defs": {"i": INNER}}),
         {"a": {}}, {"a": {"scale": "css"}}),
        (within({"anyOf": [INNER, {"type": "array", "items": INNER}]}), {"a": [{}]}, {"a": [{"scale": "css"}]}),
        (within({"oneOf": [INNER, {"type": "object"}]}), {"a": {}}, {"a": {}}),
        (within({"$ref": "#/nowhere"}), {"a": {}}, {"a": {}}),
        ({"$ref": "#"}, {"a": {}}, {"a": {}}),
    ],
)  # fmt: skip
def test_a_required_argument_with_a_default_is_not_missed(schema, arguments, filled):
    before = copy.deepcopy(arguments)
    found = with_defaults(schema, arguments)
    assert found == filled and arguments == before and (found is arguments) is (filled == before)


def test_defaults_without_an_end_are_filled_to_a_bound():
    twice = {name: {"$ref": "#", "default": {}} for name in "ab"}
    found = with_defaults({"properties": twice, "required": ["a", "b"]}, {})
    assert is_within(found, PARAMETERS_DEPTH_MAX) and 500 < json.dumps(found).count('"') // 2 <= 1000
