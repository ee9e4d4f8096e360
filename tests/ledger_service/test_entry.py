"""One entry as it is stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.messages.base import pack
from bus.messages.ledger import Entry, Provenance
from ledger_service.entry import (
    INTEGER_MAX,
    StoredEntry,
    decode_entry,
    encode_entry,
    provenance_fields,
    to_message,
)

_text = st.text(max_size=12)
_count = st.integers(min_value=0, max_value=INTEGER_MAX)
_provenance = st.builds(
    Provenance,
    agent_id=_text, agent_class=_text, framework_id=_text, package_id=_text, session_id=_text,
    run_seq=_count, round_seq=_count, work_order_id=_text, tier=_text,
)  # fmt: skip


@st.composite
def entries(draw):
    """Any entry."""
    bodies = draw(st.lists(st.binary(min_size=32, max_size=32), max_size=3))
    return StoredEntry(
        1, draw(_text), draw(_text), draw(_text), draw(_text), draw(_text), draw(_text),
        provenance_fields(draw(_provenance)), tuple(draw(st.lists(_text, max_size=3))), draw(_text),
        draw(_count), draw(_count), tuple(bodies), tuple(draw(_count) for _ in bodies),
        draw(st.none() | _text), draw(st.none() | _count), draw(st.none() | _text),
    )  # fmt: skip


SIMPLE = StoredEntry(
    1, "id", "ho2/1@1", "ho2m", "E", "", "", provenance_fields(Provenance()), ("p",), "", 5, 6,
    (bytes(32),), (3,), None, None, None,
)  # fmt: skip


@given(entries())
def test_an_entry_survives_the_way_through_bytes(entry):
    """Decoding is the inverse of encoding."""
    assert decode_entry(encode_entry(entry)) == entry


@given(entries())
def test_the_message_of_a_stored_entry_is_valid(entry):
    """What is built without validation would pass it."""
    message = to_message(4, entry, bytes(32), [None])
    assert Entry.model_validate(message.model_dump()) == message


@pytest.mark.parametrize(
    ("number", "value"),
    [(0, 2), (1, 7), (3, None), (7, ["a"]), (7, list("abcdefghi")), (8, "p"), (8, [1]), (10, -1), (11, INTEGER_MAX + 1),
     (10, True), (12, [b"short"]), (13, []), (14, 1), (15, "1"), (16, 1)],
)  # fmt: skip
def test_a_field_that_is_not_what_stands_there_is_refused(number, value):
    """A well-framed entry with a wrong field is damage, not data."""
    fields = [list(value) if isinstance(value, tuple) else value for value in SIMPLE]
    fields[number] = value
    with pytest.raises(ValueError, match="entry"):
        decode_entry(pack(fields))


@given(st.binary(max_size=200))
def test_garbage_is_refused_with_a_value_error(data):
    """No bytes make the decoder fail in any other way."""
    try:
        decode_entry(data)
    except ValueError:
        return
    raise AssertionError("garbage was taken for an entry")


def test_positions_are_a_promise():
    """The stored order is the format: a change of it needs a new schema version."""
    assert encode_entry(SIMPLE).hex() == (
        "dc001101a26964a7686f322f314031a4686f326da145a0a099a0a0a0a0a00000a0a091a170a0050691c420"
        + "00" * 32
        + "9103c0c0c0"
    )
