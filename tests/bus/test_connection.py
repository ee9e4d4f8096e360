"""What is due on a connection at a tick."""

from __future__ import annotations

from hobus.bus.conversation import Connection


class NoLink:
    """A link that nobody uses here."""

    def attach(self, on_frames) -> None: ...
    def send(self, header: bytes, body: bytes) -> None: ...
    def discard(self) -> None: ...
    def close(self) -> None: ...


def connection() -> Connection:
    """A connection to the broker."""
    return Connection("", NoLink(), timeout_s=0.8)


def test_hello_is_said_at_once_and_again_after_the_time_out() -> None:
    """An unanswered hello is repeated, not hammered."""
    one = connection()
    assert one.duty(0.0) == "hello"
    one.note_hello(0.0)
    assert one.duty(0.79) == "wait"
    assert one.duty(0.8) == "hello"


def test_beats_while_bound_and_hello_after_silence() -> None:
    """Silence of exactly the time-out is borne; more unbinds."""
    one = connection()
    one.note_hello(0.0)
    one.welcomed("e1", 1.0)
    assert one.duty(1.8) == "beat"
    assert one.duty(1.81) == "hello"
    assert not one.is_bound


def test_a_rehello_for_frames_sent_before_the_last_hello_is_ignored() -> None:
    one = connection()
    one.welcomed("e1", 0.0)
    assert one.must_say_hello_again()
    one.note_hello(0.1)
    assert not one.must_say_hello_again()
