"""Payloads: what is written is read back, and anything else is refused by the name of its field."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import pytest

from hobus.bus.messages.base import pack
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.record.payload import pack_payload, read_payload, unpack_payload


class Part(NamedTuple):
    """A tuple in a tuple."""

    name: str
    weight: float = 1.0


class Sample(NamedTuple):
    """One field of each kind."""

    text: Annotated[str, "described"]
    number: int
    is_so: bool
    digest: bytes
    maybe: int | None
    word: Literal["a", "b"]
    parts: tuple[int | Part, ...]
    by_name: dict[str, Part]
    free: dict[str, Any]
    more: tuple[str, ...] = ()
    last: str = ""


class Later(NamedTuple):
    """The first field of a sample, and one that came later."""

    text: str
    added: int = 7


WHOLE = Sample("t", 1, True, b"d", None, "a", (3, Part("p", 0.5)), {"x": Part("q")}, {"any": [1, {"b": None}]}, ("m",))  # noqa: FBT003 - its fields
WRONG = {
    "text": (0, b"t", "Sample.text: Expected `str`, got `bytes`"),
    "a truth for a number": (1, True, "Sample.number: Expected `int`, got `bool`"),
    "a number for a truth": (2, 1, "Sample.is_so: Expected `bool`, got `int`"),
    "text for bytes": (3, "d", "Sample.digest: Expected `bytes`, got `str`"),
    "a float for none": (4, 1.0, "Sample.maybe: Expected `int | null`, got `float`"),
    "no such word": (5, "c", "Sample.word: Invalid enum value 'c'"),
    "no list": (6, {}, "Sample.parts: Expected `array`, got `object`"),
    "a part too short": (6, [3, []], "Sample.parts[1]: Expected `array` of length 1 to 2, got 0"),
    "deep down": (6, [3, ["p", "heavy"]], "Sample.parts[1][1]: Expected `float`, got `str`"),
    "no map": (7, [], "Sample.by_name: Expected `object`, got `array`"),
    "in a map": (7, {"x": [None]}, "Sample.by_name[...][0]: Expected `str`, got `None`"),
    "a key that is no text": (7, {3: ["q"]}, "Sample.by_name: Expected `str`, got `int`"),
}


def as_lists(value: Any) -> list[Any]:
    """The fields as they stand in the bytes."""
    return [*value[:6], [3, ["p", 0.5]], {"x": ["q", 1.0]}, *value[8:9], list(value[9]), value[10]]


def test_a_payload_reads_back_as_it_was_written_and_its_defaults_are_left_out():
    """Values and kinds; only fields behind the last one that says something are missing in the bytes."""
    assert unpack_payload(Sample, pack_payload(WHOLE)) == WHOLE
    assert pack_payload(WHOLE) == pack(as_lists(WHOLE)[:-1])
    assert pack_payload(WHOLE._replace(last="z")) == pack([*as_lists(WHOLE)[:-1], "z"])
    assert pack_payload(WHOLE._replace(more=())) == pack(as_lists(WHOLE)[:-2])


def test_a_field_that_came_later_is_at_its_default_in_what_was_written_before():
    """What a version that knows more wrote is refused by one that knows less: it would lose a word."""
    assert unpack_payload(Later, pack(["t"])) == Later("t", 7)
    with pytest.raises(ValueError, match="Later: Expected `array` of length 1 to 2, got 3"):
        unpack_payload(Later, pack(["t", 1, 2]))


@pytest.mark.parametrize(("at", "value", "said"), WRONG.values(), ids=WRONG)
def test_what_a_field_is_not_is_refused_by_its_name(at, value, said):
    """Nothing is coerced, at no depth."""
    fields = as_lists(WHOLE)
    fields[at] = value
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the words are compared
        unpack_payload(Sample, pack(fields))
    assert str(refused.value) == said


def test_what_is_no_array_is_refused():
    for body in (pack({"text": "t"}), b"\xc1", b"", pack(as_lists(WHOLE))[:-1], pack(as_lists(WHOLE)) + b"\x00"):
        with pytest.raises(ValueError, match=r"^Sample"):
            unpack_payload(Sample, body)


def test_an_erased_payload_is_none():
    entry = WriteEntry(submission_id="a", stream="prompts", event_type="X", at_us=0)
    assert read_payload(Later, entry) is None
    assert read_payload(Later, entry._replace(bodies=[None])) is None
    assert read_payload(Later, entry._replace(bodies=[pack(["t"])])) == Later("t")
