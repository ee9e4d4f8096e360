"""Who of those that wait begins next, and who is refused: values in, values out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.intake import AdmissionQueue
from hobus.actors.ho2_supervisor.limits import QUEUE_STANDING_S as STANDING_S
from hobus.actors.ho2_supervisor.limits import QUEUE_STANDING_WAIT_MAX_S as STANDING_WAIT_MAX_S
from hobus.bus.errors import BusError


@pytest.fixture(autouse=True)
def rate_known_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that has stood for a tenth of a second says how fast it is."""
    monkeypatch.setattr(limits, "RATE_KNOWN_AFTER_S", 0.1)


def intake(wait_max_s: float = 30.0) -> AdmissionQueue[int]:
    """Every principal weighs the same."""
    return AdmissionQueue(wait_max_s=wait_max_s, weight=lambda _: 1)


def test_they_begin_in_turns_between_people_and_one_that_leaves_is_not_missed():
    """Ten of one person do not stand before the only one of another."""
    made = intake()
    for key in range(10):
        made.add("ann", key, 0.0)
    made.add("bob", 30, 0.0)
    made.remove("ann", 1)
    assert [made.take(0.1) for _ in range(4)] == [0, 30, 2, 3]
    assert len(made) == 6
    with pytest.raises(KeyError):
        made.remove("ann", 0)
    assert len(made) == 6


def test_behind_an_empty_queue_nobody_is_refused():
    """A thousand of one person, each of whom begins at once."""
    made = intake(wait_max_s=0.001)
    for key in range(1000):
        made.require_room("ann", key / 100)
        made.add("ann", key, key / 100)
        assert made.take(key / 100) == key


def served(made: AdmissionQueue[int], count: int, start: float, each_s: float) -> float:
    """So many begin, one each `each_s`; when the last one did."""
    now = start
    for _ in range(count):
        now += each_s
        made.take(now)
    return now


def test_who_would_wait_too_long_is_refused_at_once_with_the_time_and_another_person_is_not():
    """Ten a second begin: behind forty of one's own a further one waits for four seconds."""
    made = intake(wait_max_s=3.0)
    for key in range(60):
        made.require_room("ann", 0.0)  # how fast they begin nobody knows yet
        made.add("ann", key, 0.0)
    now = served(made, 20, 0.0, 0.1)
    assert made.wait_s("ann", now) == pytest.approx(4.1, rel=0.1)
    with pytest.raises(BusError) as caught:
        made.require_room("ann", now)
    assert (caught.value.code, caught.value.retryable) == ("busy", True)
    assert 1000 <= (caught.value.retry_after_ms or 0) <= 1600
    made.require_room("bob", now)
    assert made.wait_s("bob", now) == pytest.approx(0.1, rel=0.1)


def test_behind_a_queue_that_has_stood_for_long_one_waits_for_seconds_alone():
    """A burst may wait for half a minute; what stands for more than ten seconds is no burst."""
    made = intake()
    for key in range(300):
        made.add("ann", key, 0.0)
    now = served(made, 50, 0.0, 0.1)
    made.require_room("ann", now)
    now = served(made, 70, now, 0.1)
    assert now > STANDING_S and made.wait_s("ann", now) > STANDING_WAIT_MAX_S
    with pytest.raises(BusError):
        made.require_room("ann", now)


@pytest.mark.parametrize(("pause_s", "is_burst"), [(STANDING_S - 1.0, False), (STANDING_S + 1.0, True)])
def test_a_queue_that_builds_soon_after_a_refusal_is_no_new_burst(pause_s: float, is_burst: bool):
    """An overload whose queue was empty for a moment is the same overload; later it is another one."""
    made = intake()
    for key in range(300):
        made.add("ann", key, 0.0)
    now = served(made, 120, 0.0, 0.1)
    with pytest.raises(BusError):
        made.require_room("ann", now)
    refused_at, now = now, served(made, 180, now, 0.01)
    now = refused_at + pause_s
    for key in range(1000, 1100):
        made.add("ann", key, now)
    now = served(made, 30, now, 0.1)
    assert STANDING_WAIT_MAX_S < made.wait_s("ann", now) < 30.0
    if is_burst:
        made.require_room("ann", now)
    else:
        with pytest.raises(BusError):
            made.require_room("ann", now)


@given(st.lists(st.tuples(st.sampled_from(["ann", "bob", "cid"]), st.booleans()), max_size=60))
def test_whatever_happens_each_begins_once_and_none_is_forgotten(events: list[tuple[str, bool]]):
    """In the order in which they came, within each person."""
    made, begun, known = intake(), list[int](), dict[int, str]()
    for key, (who, takes) in enumerate(events):
        known[key] = who
        made.add(who, key, float(key))
        if takes:
            begun.append(made.take(float(key)))
    begun += [made.take(99.0) for _ in range(len(made))]
    assert sorted(begun) == sorted(known)
    for who in set(known.values()):
        own = [key for key in begun if known[key] == who]
        assert own == sorted(own)
