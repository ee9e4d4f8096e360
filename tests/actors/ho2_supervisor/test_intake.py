"""When a new run begins, waits, or is refused: values in, keys out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.intake import RunIntake
from hobus.actors.ho2_supervisor.limits import ORDER_SLOW_S as SLOW_S
from hobus.actors.ho2_supervisor.limits import ORDER_STALE_S as STALE_S
from hobus.actors.ho2_supervisor.limits import QUEUE_STANDING_S as STANDING_S
from hobus.actors.ho2_supervisor.limits import QUEUE_STANDING_WAIT_MAX_S as STANDING_WAIT_MAX_S
from hobus.bus.errors import BusError


@pytest.fixture(autouse=True)
def one_always_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where orders are slow one run is at work, not dozens."""
    monkeypatch.setattr(limits, "BEGUN_MIN", 1)
    monkeypatch.setattr(limits, "RATE_KNOWN_AFTER_S", 0.1)


def intake(wait_max_s: float = 30.0) -> RunIntake[int]:
    """Every principal weighs the same."""
    return RunIntake(wait_max_s=wait_max_s, weight=lambda _: 1)


def slow(made: RunIntake[int], now: float, way_s: float = 10 * SLOW_S) -> None:
    """Orders were long on their way just now."""
    for _ in range(20):
        made.measure(way_s, now)


def test_while_the_cluster_keeps_up_every_run_begins_at_once():
    """A thousand of one person, and nobody is refused."""
    made = intake()
    for key in range(1000):
        made.require_room("ann", 0.0)
        assert made.enter("ann", key, 0.0)
        made.measure(0.004, 0.0)
    assert len(made) == 0


def test_on_a_machine_without_time_left_new_runs_wait_until_others_end_in_turns_between_people():
    """Ten of one person do not stand before the only one of another; one begins for one that ends."""
    made = intake()
    for key in range(4):
        assert made.enter("ann", key, 0.0)
    slow(made, 0.0, 1.5 * SLOW_S)
    assert not any(made.enter("ann", key, 0.0) for key in range(10, 20))
    assert not made.enter("bob", 30, 0.0)
    assert made.leave(0, 0.1) == [10]
    assert made.leave(1, 0.2) == [30]
    slow(made, 0.3, 1.5 * SLOW_S)
    assert made.leave(2, 0.3) == [11]


def test_where_orders_take_twice_as_long_as_they_may_one_begins_for_two_that_end():
    """What is at work shrinks until they do not."""
    made = intake()
    for key in range(4):
        made.enter("ann", key, 0.0)
    slow(made, 0.0)
    made.enter("ann", 10, 0.0)
    assert made.leave(0, 0.1) == []
    assert made.leave(1, 0.2) == [10]


def test_each_quick_receipt_lets_one_more_begin():
    """So what is at work grows again once there is time."""
    made = intake()
    made.enter("ann", 0, 0.0)
    slow(made, 0.0, 1.1 * SLOW_S)
    for key in (10, 11, 12):
        made.enter("ann", key, 0.0)
    begun = [made.measure(0.0, 0.1) for _ in range(4)]
    assert begun == [[10], [11], [12], []]


def test_nobody_waits_where_nothing_was_measured_for_a_second_or_nothing_is_at_work():
    """What waits for models alone leaves the machine idle: old measurements say nothing."""
    made = intake()
    made.enter("ann", 0, 0.0)
    slow(made, 0.0)
    made.enter("ann", 1, 0.5)
    assert made.look(4 * STALE_S) == []  # for orders take 2.5 s: the next receipt may be on its way
    assert made.look(5 * STALE_S) == [1]
    assert made.enter("ann", 2, 5 * STALE_S)
    assert made.leave(0, 6.0) == made.leave(1, 6.0) == []
    slow(made, 7.0)
    made.enter("bob", 3, 7.0)
    assert made.leave(2, 7.0) == [3]


def test_a_run_that_waits_may_leave_and_one_that_stood_still_goes_on_at_once():
    """It is counted nowhere afterwards; leaving twice does nothing."""
    made = intake()
    made.enter("ann", 0, 0.0)
    slow(made, 0.0, 1.5 * SLOW_S)
    made.enter("ann", 1, 0.0)
    made.enter("ann", 2, 0.0)
    assert made.leave(1, 0.1) == made.leave(1, 0.1) == []
    assert len(made) == 1
    assert made.leave(0, 0.1) == [2]
    made.goes_on(0)
    assert made.leave(0, 0.2) == []


def served(made: RunIntake[int], keys: range, start: float, each_s: float) -> float:
    """As many as `keys` end, one each `each_s`; when the last one did."""
    now = start
    for key in keys:
        now += each_s
        slow(made, now, 1.5 * SLOW_S)
        made.leave(key, now)
    return now


def test_who_would_wait_too_long_is_refused_at_once_with_the_time_and_another_person_is_not():
    """Ten a second begin: behind forty of one's own a further one waits for four seconds."""
    made = intake(wait_max_s=3.0)
    for key in range(40):
        made.enter("ann", key, 0.0)
    slow(made, 0.0, 1.5 * SLOW_S)
    for key in range(100, 160):
        made.require_room("ann", 0.0)  # how fast they begin nobody knows yet
        made.enter("ann", key, 0.0)
    now = served(made, range(20), 0.0, 0.1)
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
    for key in range(1000):
        made.enter("ann", key, 0.0)
    slow(made, 0.0, 1.5 * SLOW_S)
    for key in range(2000, 2300):
        made.enter("ann", key, 0.0)
    now = served(made, range(50), 0.0, 0.1)
    made.require_room("ann", now)
    now = served(made, range(50, 120), now, 0.1)
    assert now > STANDING_S and made.wait_s("ann", now) > STANDING_WAIT_MAX_S
    with pytest.raises(BusError):
        made.require_room("ann", now)


@given(
    st.lists(
        st.tuples(st.sampled_from(["ann", "bob", "cid"]), st.sampled_from(["enter", "leave", "slow", "quick", "look"])),
        max_size=60,
    )
)
def test_whatever_happens_every_run_begins_once_and_none_is_forgotten(events):
    """Each begins at most once; once all that began have ended again and again, nobody waits."""
    made, now, begun, known = intake(), 0.0, list[int](), list[int]()
    for key, (who, what) in enumerate(events):
        now += 0.1
        match what:
            case "enter":
                known.append(key)
                if made.enter(who, key, now):
                    begun.append(key)
            case "leave" if begun:
                begun += made.leave(begun[key % len(begun)], now)
            case "slow":
                begun += made.measure(9.0, now)
            case "quick":
                begun += made.measure(0.0, now)
            case _:
                begun += made.look(now)
    for key in known:
        begun += made.leave(key, now) if key in begun else []
    begun += made.look(now + 20 * STALE_S)
    assert sorted(begun) == sorted(known) and len(made) == 0
