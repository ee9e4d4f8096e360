"""How much a connection may misbehave: to the byte, to the frame, each for itself, in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hobus.bus import limits
from hobus.bus.conduct import FRAME_BYTES, Conduct, Doorway


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test can reach."""
    monkeypatch.setattr(limits, "MALFORMED_MAX", 4)
    monkeypatch.setattr(limits, "MAILBOX_MAX", 4)
    monkeypatch.setattr(limits, "STRANGERS_MAX", 2)
    monkeypatch.setattr(limits, "CONNECTIONS_PER_CALLER_MAX", 3)


def test_what_comes_without_a_hello_is_bounded_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNBOUND_MAX_BYTES", 1000)
    conduct = Conduct()
    assert conduct.unbound(b"a", 1000 - FRAME_BYTES) == ""
    assert "without a hello" in conduct.unbound(b"a", 0)
    assert conduct.unbound(b"b", 1000 - FRAME_BYTES) == ""


def test_what_was_on_its_way_when_a_known_peer_had_to_say_hello_again_is_no_strangers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hello proves it for the life of the connection; garbage ends that too, and another's connection is not it."""
    monkeypatch.setattr(limits, "UNBOUND_MAX_BYTES", 1000)
    conduct = Conduct()
    conduct.bound(b"a")
    assert [conduct.unbound(b"a", 8_000_000) for _ in range(9)] == [""] * 9
    assert "without a hello" in conduct.unbound(b"b", 8_000_000)
    assert [bool(conduct.malformed(b"a")) for _ in range(4)] == [False, False, False, True]


def test_empty_frames_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNBOUND_MAX_BYTES", 10 * FRAME_BYTES)
    conduct = Conduct()
    assert [bool(conduct.unbound(b"a", 0)) for _ in range(11)] == [False] * 10 + [True]


def test_the_last_malformed_frame_that_is_borne_ends_the_connection() -> None:
    conduct = Conduct()
    assert [bool(conduct.malformed(b"a")) for _ in range(4)] == [False, False, False, True]
    assert conduct.malformed(b"b") == ""


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=2), max_size=60))
def test_memory_is_bounded_whoever_comes(connections: list[bytes]) -> None:
    conduct = Conduct()
    for connection in connections:
        conduct.malformed(connection)
        conduct.bound(connection[:1])
    assert len(conduct._records) <= 4 and len(conduct._proven) <= 4


def test_of_the_silent_the_oldest_ends() -> None:
    doorway = Doorway(limits.STRANGERS_MAX)
    assert [doorway.add_accepted(inode) for inode in (1, 2)] == [None, None]
    assert doorway.heard(1, "a")
    assert [doorway.add_accepted(inode) for inode in (3, 4, 5)] == [None, 2, 3]
    doorway.ended(4)
    assert doorway.add_accepted(6) is None


def test_one_that_spoke_before_it_was_told_that_it_came_is_no_stranger() -> None:
    """The two are told by different threads."""
    doorway = Doorway(limits.STRANGERS_MAX)
    assert doorway.heard(9, "a")
    assert doorway.add_accepted(9) is None
    assert [doorway.add_accepted(inode) for inode in (1, 2, 3)] == [None, None, 1]


def test_a_key_has_its_share() -> None:
    """The fourth of one is too many; one that ended makes room; a repeated word is one; others are not concerned."""
    doorway = Doorway(limits.STRANGERS_MAX)
    assert [doorway.heard(inode, "a") for inode in (1, 2, 3, 3, 4)] == [True, True, True, True, False]
    assert [doorway.heard(inode, "b") for inode in (5, 6)] == [True, True]
    doorway.ended(1)
    doorway.ended(1)
    assert [doorway.heard(inode, "a") for inode in (7, 8)] == [True, False]


@given(
    words=st.lists(
        st.tuples(st.sampled_from(("accepted", "heard", "ended")), st.integers(1, 12), st.sampled_from("ab"))
    ),
)
def test_whatever_happens_the_numbers_hold(words: list[tuple[str, int, str]]) -> None:
    doorway, silent, heard = Doorway(limits.STRANGERS_MAX), [], {}
    for word, inode, who in words:
        if word == "accepted":
            if inode not in heard and inode not in silent:
                silent.append(inode)
            gone = doorway.add_accepted(inode)
            assert gone == (silent.pop(0) if len(silent) > limits.STRANGERS_MAX else None)
        elif word == "heard":
            silent = [one for one in silent if one != inode]
            own = [one for one, its in heard.items() if its == who]
            has_room = len(own) < limits.CONNECTIONS_PER_CALLER_MAX
            assert doorway.heard(inode, who) == (inode in heard or has_room)
            if has_room:
                heard.setdefault(inode, who)
        else:
            doorway.ended(inode)
            silent = [one for one in silent if one != inode]
            heard.pop(inode, None)
    for inode in range(1, 13):
        doorway.ended(inode)
    assert all(doorway.heard(inode, "a") for inode in range(1, 1 + limits.CONNECTIONS_PER_CALLER_MAX))
