"""Who is let in: silent ones up to a number, the oldest goes; callers up to theirs; nobody is counted twice or for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.doorway import Doorway
from tests.bus.broker.rig import settings_with

SMALL = settings_with(strangers_max=2, connections_max=4, connections_per_caller_max=3)


def test_of_the_silent_the_oldest_ends() -> None:
    """Whoever has spoken stays, however many come after it."""
    doorway = Doorway(SMALL)
    assert [doorway.accepted(inode) for inode in (1, 2)] == [None, None]
    assert doorway.heard(1, "a")
    assert [doorway.accepted(inode) for inode in (3, 4, 5)] == [None, 2, 3]
    doorway.ended(4)
    assert doorway.accepted(6) is None


def test_one_that_spoke_before_it_was_told_that_it_came_is_no_stranger() -> None:
    """The two are told by different threads."""
    doorway = Doorway(SMALL)
    assert doorway.heard(9, "a")
    assert doorway.accepted(9) is None
    assert [doorway.accepted(inode) for inode in (1, 2, 3)] == [None, None, 1]


def test_a_caller_has_its_share_and_all_together_theirs() -> None:
    """The fourth of one, the fifth of all; one that ended makes room; a repeated word is one."""
    doorway = Doorway(SMALL)
    assert [doorway.heard(inode, "a") for inode in (1, 2, 3, 3, 4)] == [True, True, True, True, False]
    assert [doorway.heard(inode, "b") for inode in (5, 6)] == [True, False]
    doorway.ended(1)
    doorway.ended(1)
    assert [doorway.heard(inode, "a") for inode in (7, 8)] == [True, False]


def test_where_nobody_tells_who_spoke_a_caller_comes_once_per_interval() -> None:
    """What comes too soon is not kept and does not count; others are not concerned; its number holds as well."""
    doorway = Doorway(settings_with(connections_per_caller_max=2, tap_connect_interval_ms=50))
    assert [doorway.came(inode, "a", at) for inode, at in ((1, 0.0), (2, 0.049), (3, 0.05))] == [True, False, True]
    assert doorway.came(4, "b", 0.05)
    assert not doorway.came(5, "a", 0.1)
    doorway.ended(1)
    assert [doorway.came(inode, "a", at) for inode, at in ((6, 0.149), (7, 0.151))] == [False, True]


@given(st.lists(st.tuples(st.sampled_from(("accepted", "heard", "ended")), st.integers(1, 12), st.sampled_from("ab"))))
def test_whatever_happens_the_numbers_hold(words: list[tuple[str, int, str]]) -> None:
    """At most so many silent, so many of one caller, so many in all; after all have ended there is nothing."""
    doorway, silent, heard = Doorway(SMALL), [], {}
    for word, inode, who in words:
        if word == "accepted":
            if inode not in heard and inode not in silent:
                silent.append(inode)
            gone = doorway.accepted(inode)
            assert gone == (silent.pop(0) if len(silent) > SMALL.strangers_max else None)
        elif word == "heard":
            silent = [one for one in silent if one != inode]
            own = [one for one, its in heard.items() if its == who]
            has_room = len(own) < SMALL.connections_per_caller_max and len(heard) < SMALL.connections_max
            assert doorway.heard(inode, who) == (inode in heard or has_room)
            if has_room:
                heard.setdefault(inode, who)
        else:
            doorway.ended(inode)
            silent = [one for one in silent if one != inode]
            heard.pop(inode, None)
    for inode in range(1, 13):
        doorway.ended(inode)
    assert all(doorway.heard(inode, "a") for inode in range(1, 1 + SMALL.connections_per_caller_max))
