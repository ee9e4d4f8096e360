"""Headers and bodies: round trips, limits, and refusals that never show a value."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.codec import HEADER_MAX_BYTES, decode, encode, pack_header, unpack_header
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, make_header
from hobus.bus.errors import BusError, MessageTooLarge
from hobus.bus.messages.base import pack
from hobus.bus.messages.control import Hello, Ready
from hobus.bus.messages.failure import FACTS_MAX_BYTES, Failure
from hobus.bus.messages.ledger import Query

BIG = 10**6
TEXT = st.text(max_size=40)
NUMBER = st.integers(-(2**63), 2**64 - 1)


@given(head=st.builds(
        Header, st.just(HEADER_VERSION), st.sampled_from([int(k) for k in Kind]), TEXT, TEXT, TEXT, TEXT, NUMBER, TEXT,
        TEXT, NUMBER, NUMBER, st.booleans(), TEXT, TEXT,
    ),
)  # fmt: skip
def test_a_header_comes_back_as_it_was(head):
    assert unpack_header(pack_header(head)) == head


@given(st.binary(max_size=200))
def test_no_bytes_make_unpacking_raise_anything_but_malformed(data):
    """A stranger's bytes are a typed refusal."""
    code = ""
    try:
        unpack_header(data)
    except BusError as error:
        code = error.code
    assert code in ("", "malformed")


@pytest.mark.parametrize(
    ("at", "value"), [(0, HEADER_VERSION + 1), (1, True), (1, "1"), (2, b"x"), (9, 1.0), (11, 1), (13, None)]
)
def test_a_field_of_another_type_is_refused(at, value):
    fields = list(make_header(Kind.REQUEST, "m"))
    fields[at] = value
    with pytest.raises(BusError) as caught:
        unpack_header(msgpack.packb(fields))
    assert caught.value.code == "malformed"


@pytest.mark.parametrize(
    "change", [lambda f: f[:-1], lambda f: [*f, ""], lambda _: [], lambda _: {"a": 1}, lambda _: 1]
)
def test_another_number_of_fields_or_no_array_is_refused(change):
    with pytest.raises(BusError):
        unpack_header(msgpack.packb(change(list(make_header(Kind.REQUEST, "m")))))


def test_a_header_at_the_limit_passes_and_one_byte_more_does_not():
    head = make_header(Kind.REQUEST, "m", causation_id="c" * 300)
    head = head._replace(causation_id="c" * (300 + HEADER_MAX_BYTES - len(pack_header(head))))
    assert len(pack_header(head)) == HEADER_MAX_BYTES
    assert unpack_header(pack_header(head)) == head
    with pytest.raises(BusError):
        unpack_header(pack_header(head._replace(causation_id=head.causation_id + "c")))


def test_a_body_at_the_limit_passes_and_one_byte_more_names_size_and_limit():
    """Both ends hold the limit; the error says size and limit."""
    message = Ready(state="ready", reason="r" * 100)
    size = len(encode(message, BIG))
    assert decode(Ready, encode(message, size), size) == message
    for attempt in (lambda: encode(message, size - 1), lambda: decode(Ready, encode(message, size), size - 1)):
        with pytest.raises(MessageTooLarge) as caught:
            attempt()
        assert str(size) in caught.value.detail


@pytest.mark.parametrize(
    "value",
    [
        {"state": "ready", "reason": 1},
        {"state": "secret-value"},
        {"state": "ready", "extra-secret-value": 1},
        {},
        [],
        "secret-value",
        None,
    ],
)
def test_a_body_that_is_not_the_message_is_malformed_and_shows_no_value(value):
    """Wrong type, unknown key, missing key, no map: the fields are named, what stood in them is not."""
    with pytest.raises(BusError) as caught:
        decode(Ready, msgpack.packb(value), BIG)
    assert caught.value.code == "malformed"
    assert "secret-value" not in caught.value.detail or value == {"state": "ready", "extra-secret-value": 1}


@given(st.binary(max_size=100))
def test_no_body_raises_anything_but_malformed(data):
    code = ""
    try:
        decode(Hello, data, BIG)
    except BusError as error:
        code = error.code
    assert code in ("", "malformed")


@pytest.mark.parametrize("inside", [{1: "one"}, [{"a": {2: []}}], {None: 0}])
def test_a_key_that_is_no_text_is_refused_also_where_anything_may_stand(inside):
    """A journal that held one could not be read again: `unpack` takes no such map."""
    with pytest.raises(BusError) as refused:
        decode(Query, pack({"where": {"a": inside}, "limit": 1}), 1000)
    assert refused.value.code == "malformed"


def test_deep_nesting_is_malformed_and_not_a_crash():
    """A body nested beyond every bound is refused like any other noise."""
    with pytest.raises(BusError):
        decode(Failure, b"\x91" * 100_000, BIG)


def test_a_failure_is_told_without_facts_that_are_too_many() -> None:
    """Where it is made and where it is read: instead of them stands how many bytes they were; the border stays whole."""
    few, many = {"file": "f" * (FACTS_MAX_BYTES - 9)}, {"file": "f" * (FACTS_MAX_BYTES - 8)}
    assert (len(pack(few)), len(pack(many))) == (FACTS_MAX_BYTES, FACTS_MAX_BYTES + 1)
    assert Failure(code="damaged", retryable=False, detail="", facts=few).facts == few
    dropped = {"facts_dropped_bytes": FACTS_MAX_BYTES + 1}
    assert Failure(code="damaged", retryable=False, detail="", facts=many).facts == dropped
    forged = pack({"code": "damaged", "retryable": False, "detail": "", "facts": many})
    assert decode(Failure, forged, 100_000).facts == dropped
