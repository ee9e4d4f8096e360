"""JSON text of strangers is an object that a message can carry, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.json_text import is_object, is_within, read_object
from hobus.bus.messages.base import pack, unpack

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None))
JSON = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(text=st.one_of(st.text(), JSON.map(json.dumps), st.integers(1, 5000).map(lambda deep: "[" * deep)))
def test_what_is_read_can_be_sent(text: str) -> None:
    read = read_object(text, depth_max=8)
    assert read is None or (unpack(pack(read)) == read and is_within(read, 8) and is_object(text))


@pytest.mark.parametrize(
    "text", ["", "{", "1", "[]", "{} x", "[" * 100_000, '{"a":' * 300 + "1" + "}" * 300, '"\\ud800"']
)
def test_what_is_no_object_is_none(text: str) -> None:
    assert not is_object(text)
    assert read_object(text, depth_max=128) is None


@pytest.mark.parametrize(
    ("value", "depth"), [(1, 0), ({}, 1), ({"a": 1}, 1), ({"a": []}, 2), ([[[1]]], 3), ({"a": [{}], "b": {}}, 3)]
)
def test_depth_is_counted_by_objects_and_lists(value: Any, depth: int) -> None:
    assert is_within(value, max(1, depth))
    assert depth < 2 or not is_within(value, depth - 1)
