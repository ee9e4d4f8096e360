"""How much a connection may misbehave: to the byte, to the frame, each for itself, in bounded memory."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hobus.bus.conduct import FRAME_BYTES, Conduct
from tests.bus.broker.rig import settings_with

FOUR = settings_with(mailbox_max=4)


def test_what_comes_without_a_hello_is_bounded_to_the_byte() -> None:
    """At the bound it is still heard, beyond it it is cut off."""
    conduct = Conduct(settings_with(unbound_max_bytes=1000))
    assert conduct.unbound(b"a", 1000 - FRAME_BYTES) == ""
    assert "bus.unbound_max_bytes" in conduct.unbound(b"a", 0)
    assert conduct.unbound(b"b", 1000 - FRAME_BYTES) == ""


def test_what_was_on_its_way_when_a_known_peer_had_to_say_hello_again_is_no_strangers() -> None:
    """A hello proves it for the life of the connection; garbage ends that too, and another's connection is not it."""
    conduct = Conduct(settings_with(unbound_max_bytes=1000, malformed_max=2))
    conduct.bound(b"a")
    assert [conduct.unbound(b"a", 8_000_000) for _ in range(9)] == [""] * 9
    assert "bus.unbound_max_bytes" in conduct.unbound(b"b", 8_000_000)
    assert [conduct.malformed(b"a")[0] for _ in range(2)][-1] == "cut off"


def test_empty_frames_count_too() -> None:
    """Each costs the memory of its record."""
    conduct = Conduct(settings_with(unbound_max_bytes=10 * FRAME_BYTES))
    assert [bool(conduct.unbound(b"a", 0)) for _ in range(11)] == [False] * 10 + [True]


def test_the_last_malformed_frame_that_is_borne_ends_the_connection() -> None:
    """Counted per connection; told half-way."""
    conduct = Conduct(settings_with(malformed_max=4))
    assert [conduct.malformed(b"a")[0] for _ in range(4)] == ["bear", "tell", "bear", "cut off"]
    assert conduct.malformed(b"b")[0] == "bear"


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=2), max_size=60))
def test_memory_is_bounded_whoever_comes(connections: list[bytes]) -> None:
    """The oldest records give way."""
    conduct = Conduct(FOUR)
    for connection in connections:
        conduct.malformed(connection)
        conduct.bound(connection[:1])
    assert len(conduct._records) <= 4 and len(conduct._proven) <= 4
