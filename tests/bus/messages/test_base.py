"""Records made without checks are what checked ones would be; values are made of what others have."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgpack
import pytest
from hypothesis import strategies as st

from hobus.bus.messages.base import Record, canonical_value, made_of
from tests.laws import law


class Told(Record):
    text: str
    count: int = 3
    note: str | None = None


class Counted(NamedTuple):
    count: int


@dataclass(slots=True)
class Noted:
    note: str

    @property
    def text(self) -> str:
        return f"of {self.note}"


def test_a_record_with_all_its_fields_named_is_what_a_checked_one_is():
    """Equal, with the same fields set, in the same order, whatever the order of the call; frozen as ever."""
    made = Told.model_construct(note="n", count=4, text="t")
    checked = Told(text="t", count=4, note="n")
    assert made == checked
    assert hash(made) == hash(checked)
    assert made.model_fields_set == checked.model_fields_set
    assert list(made.model_dump()) == ["text", "count", "note"]
    assert made.model_dump_json() == checked.model_dump_json()
    assert made.model_copy(update={"count": 5}) == Told(text="t", count=5, note="n")
    with pytest.raises(ValueError, match="frozen"):
        made.count = 6


def test_a_record_with_some_fields_named_has_the_defaults_of_the_others():
    """As pydantic makes it; a given set of fields is kept."""
    made = Told.model_construct(text="t")
    assert made == Told(text="t")
    assert made.model_fields_set == {"text"}
    assert Told.model_construct({"text"}, text="t", count=3, note=None).model_fields_set == {"text"}


def test_a_value_takes_of_each_source_what_it_has_under_the_same_name():
    """Fields of models, named tuples and dataclasses, and properties; the first source counts, own values before all."""
    assert made_of(Told, Noted("a"), Counted(7)) == Told(text="of a", count=7, note="a")
    assert made_of(Told, Told(text="first"), Noted("second")) == Told(text="first", count=3, note=None)
    assert made_of(Told, Noted("a"), text="own", note=None) == Told(text="own", note=None)
    assert made_of(Counted, Told(text="t", count=9)) == Counted(9)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


def in_order(value: Any) -> Any:
    """With the keys of every mapping in it sorted."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def test_no_record_keeps_anything_but_its_fields():
    """What is packed is what an instance holds, in order: a cached property would be packed with it."""
    importlib.import_module("bench.pages.protocol")  # loads every message
    kinds, found = [Record], set[type]()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        found |= {kind} if any(isinstance(value, cached_property) for value in vars(kind).values()) else set()
    assert len(Record.__subclasses__()) > 10 and not found


@law(20, 100, value=JSON_VALUES)
def test_canonical_bytes_are_messagepack_with_sorted_keys(value: Any):
    """At every depth, by code points, each value in its shortest form: hashes of years ago depend on it."""
    assert canonical_value(value) == msgpack.packb(in_order(value))
