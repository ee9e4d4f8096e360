"""What ZeroMQ asks about a key is answered for CURVE in our domain alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.zeromq import curve
from hobus.bus.zeromq.remote_router import read_question

GOOD = [b"1.0", b"7", b"hobus", b"10.0.0.9", b"", b"CURVE", bytes(range(32))]


def test_a_question_about_a_key_is_read() -> None:
    question = read_question(GOOD)
    assert question is not None
    assert (question.request_id, question.address, question.public) == (
        b"7",
        "10.0.0.9",
        curve.encode_key(bytes(range(32))),
    )


def test_anything_else_is_no_question() -> None:
    for position, wrong in [(0, b"2.0"), (2, b""), (2, b"global"), (5, b"NULL"), (5, b"PLAIN"), (6, b"short")]:
        assert read_question([*GOOD[:position], wrong, *GOOD[position + 1 :]]) is None
    assert read_question(GOOD[:6]) is None
    assert read_question([*GOOD, b"password"]) is None


@given(st.lists(st.binary(max_size=40), max_size=9))
def test_no_parts_raise(parts: list[bytes]) -> None:
    assert read_question(parts) is None or parts[0] == b"1.0"
