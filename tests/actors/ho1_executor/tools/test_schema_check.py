"""Schemas of others: what they fill in."""

import pytest

from hobus.config.json_schema import with_defaults

SCALE = {"type": "string", "enum": ["css", "device"], "default": "css"}


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
    ],
)
def test_a_required_argument_with_a_default_is_not_missed(schema, arguments, filled):
    """A model that leaves it out has said what the schema says; optional ones stay away."""
    assert with_defaults(schema, arguments) == filled
