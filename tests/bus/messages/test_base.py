"""Records are checked where they come from outside; values are made of what others have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import ValidationError, field
from pydantic import BaseModel

from hobus.bus.messages.base import Record, canonical_bytes, describe_fault, make_from
from hobus.bus.messages.ids import InputId
from hobus.bus.text import cut


class Told(Record):
    text: str
    count: int = 3
    note: str | None = None


class TurnBegun(Record):
    input_id: InputId


class Counted(NamedTuple):
    count: int


@dataclass(slots=True)
class Noted:
    note: str

    @property
    def text(self) -> str:
        return f"of {self.note}"


class Holding(Record, tag_field="kind", tag="one"):
    told: Told
    counts: list[int] = field(default_factory=list[int])


def test_a_record_is_a_frozen_value_of_its_fields_by_name():
    made = Told(note="n", count=4, text="t")
    assert made == Told(text="t", count=4, note="n") and hash(made) == hash(Told(text="t", count=4, note="n"))
    assert list(made.model_dump()) == ["text", "count", "note"]
    assert Told.model_validate_json(made.model_dump_json(indent=1)) == made
    assert made.model_copy(update={"count": 5}) == Told(text="t", count=5, note="n")
    assert Told(text="t").model_dump(exclude_defaults=True) == {"text": "t"}
    held = Holding(told=Told(text="t"))
    assert held.model_dump(exclude_defaults=True) == {"kind": "one", "told": {"text": "t"}}
    assert Holding.model_validate(held.model_dump()) == held
    with pytest.raises(AttributeError, match="immutable"):
        made.count = 6
    with pytest.raises(TypeError):
        Told("t")


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        ({"text": 1}, "text: Expected `str`, got `int`"),
        ({"text": "t", "count": True}, "count: Expected `int`, got `bool`"),
        ({"text": "t", "count": "3"}, "count: Expected `int`, got `str`"),
        ({"count": 3}, "text: is missing"),
        ({"text": "t", "x" * 500: 3}, cut("x" * 500, 200) + ": unknown"),
        ([], "body: Expected `object`, got `array`"),
    ],
)
def test_what_comes_from_outside_is_checked_and_the_fault_names_the_place_and_no_value(told: Any, fault: str):
    with pytest.raises(ValidationError) as raised:
        Told.model_validate(told)
    assert describe_fault(raised.value) == fault


def test_what_an_id_may_be_is_said_in_words():
    with pytest.raises(ValidationError) as raised:
        TurnBegun.model_validate({"input_id": "a b"})
    assert describe_fault(raised.value) == "input_id: Expected letters, digits and ._:@-"


def test_what_people_wrote_is_checked_on_demand_at_every_depth():
    assert Holding(told=Told(text="t")).checked() == Holding(told=Told(text="t"))
    with pytest.raises(ValidationError, match=r"told\.count"):
        Holding(told=Told(text="t", count="four")).checked()
    with pytest.raises(ValidationError, match="64 bits"):
        Told(text="t", count=1 << 70).checked()
    with pytest.raises(ValidationError, match="half a character"):
        Told(text="\ud800").checked()


def test_a_record_stands_in_a_model_of_pydantic_as_it_is():
    class Outer(BaseModel):
        told: Told

    outer = Outer.model_validate({"told": {"text": "t"}})
    assert outer.told == Told(text="t")
    assert outer.model_dump() == {"told": {"text": "t", "count": 3, "note": None}}
    with pytest.raises(ValueError, match="count"):
        Outer.model_validate({"told": {"text": "t", "count": "3"}})


def test_a_value_takes_of_each_source_what_it_has_under_the_same_name():
    assert make_from(Told, Noted("a"), Counted(7)) == Told(text="of a", count=7, note="a")
    assert make_from(Told, Told(text="first"), Noted("second")) == Told(text="first", count=3, note=None)
    assert make_from(Told, Noted("a"), text="own", note=None) == Told(text="own", note=None)
    assert make_from(Counted, Told(text="t", count=9)) == Counted(9)


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


@pytest.mark.slow
@given(value=JSON_VALUES)
def test_canonical_bytes_are_messagepack_with_sorted_keys(value: Any):
    """At every depth, by code points, each value in its shortest form: hashes of years ago depend on it."""
    assert canonical_bytes(value) == msgpack.packb(in_order(value))
