"""Evidence fades with event time, is capped per session, and opens and closes the gate at two thresholds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.event_time import HOUR_US, decay
from hobus.actors.ho3_memory.evidence import (
    NOTHING,
    Level,
    count_present_us,
    fade,
    open_hours,
    open_since_us,
    reach_us,
    trace,
)
from hobus.actors.ho3_memory.limits import ABSENCE_MAX_HOURS
from tests.actors.ho3_memory.builders import config, us

RULES = config(gate_high=5.0, gate_low=3.0, evidence_half_life_hours=48.0, evidence_cap_per_session=2.0)


def event(hours, of_session):
    """An event of a numbered session."""
    return us(hours), f"s{of_session}"


ALWAYS = range(us(0) // HOUR_US, us(6000) // HOUR_US)
"""Of a principal who is there each hour."""


def level(events, hours, rules=RULES, present=ALWAYS):
    counted = sorted(one for one in events if one[0] <= us(hours))
    levels = [level for level, _ in trace(counted, present, rules)]
    return fade(levels[-1], count_present_us(present, counted[-1][0], us(hours)), rules) if levels else NOTHING


def test_before_the_first_event_there_is_nothing():
    assert level([], 0) == level([event(1, 0)], 0.999) == NOTHING


def test_an_event_counts_one_at_its_own_time_and_half_after_a_half_life():
    assert [level([event(0, 0)], hours).evidence for hours in (0, 48, 96)] == [1.0, 0.5, 0.25]


def test_one_session_never_has_more_than_its_cap():
    assert level([event(0, 0)] * 1000, 0) == Level(2.0, is_open=False)


def test_a_capped_session_may_add_again_what_has_faded():
    assert level([event(0, 0), event(0, 0), event(48, 0), event(48, 0)], 48).evidence == 2.0


@pytest.mark.parametrize(("sessions", "is_open"), [(4, False), (5, True)])
def test_the_gate_opens_at_exactly_its_upper_threshold(sessions, is_open):
    assert level([event(0, n) for n in range(sessions)], 0) == Level(float(sessions), is_open)


HIGHER = RULES.model_copy(update={"gate_high": 6.0})


def test_between_the_thresholds_the_gate_stays_as_it_was():
    """Falling from above it is still open at exactly 3.0, closed below; rising again it opens at 6.0 only."""
    six = [event(0, n) for n in range(6)]
    assert level(six, 0, HIGHER) == Level(6.0, is_open=True)
    assert level(six, 48, HIGHER) == Level(3.0, is_open=True)
    assert not level(six, 48.01, HIGHER).is_open
    risen = [*six, *(event(49, n) for n in range(6, 9))]
    assert 5.9 < level(risen, 49, HIGHER).evidence < 6.0 and not level(risen, 49, HIGHER).is_open


@pytest.mark.parametrize("sessions", [6, 60])
def test_however_strong_a_habit_was_its_gate_closes_in_the_same_time(sessions):
    """Nothing stands above the upper threshold: half-life x log2(6 / 3) after the last event, not after ten times as many."""
    events = [event(0, n) for n in range(sessions)]
    assert level(events, 0, HIGHER) == Level(6.0, is_open=True)
    assert level(events, 48, HIGHER).is_open and not level(events, 48.01, HIGHER).is_open


def test_a_gate_that_closed_between_two_events_is_not_open_at_the_second():
    """The level before an event is the faded one, not that of the event before."""
    assert level([*(event(0, n) for n in range(5)), event(96, 9)], 96) == Level(2.25, is_open=False)


EVENTS = st.lists(st.builds(event, st.integers(0, 500), st.integers(0, 4)), max_size=40)


@given(EVENTS, st.integers(0, 600))
def test_evidence_is_bounded_by_sessions_and_by_events(events, hours):
    """Never above one per event, the cap per session or the upper threshold, nor negative; open only above the lower one."""
    found = level(events, hours)
    counted = [session for at_us, session in events if at_us <= us(hours)]
    assert 0.0 <= found.evidence <= min(len(counted), 2.0 * len(set(counted)), RULES.gate_high) + 1e-6
    assert not found.is_open or found.evidence >= RULES.gate_low


def test_a_long_life_ends_in_the_same_nine_decimals():
    draw = random.Random(1)
    found = level([event(draw.random() * 5000, draw.randrange(300)) for _ in range(2000)], 5000)
    assert found.evidence == round(found.evidence, 9)


@pytest.mark.parametrize("floor", [0.05, 0.5, 0.25, 1.0, 1e-9, 3e-10])
def test_beyond_its_reach_no_signal_weighs_its_floor(floor):
    rules = config(bias_decay_floor=floor)
    reach, half_life = reach_us(rules), rules.decay_half_life_hours
    assert decay(us(0), us(0) + int(reach) + 1, half_life) < floor
    assert reach_us(rules.model_copy(update={"bias_decay_floor": 0.0})) == float("inf")
    if floor == 0.25:
        assert abs(reach - (us(2 * half_life) - us(0))) < us(1) - us(0)


def hours_at(*hours):
    """The hours of events at these."""
    return [us(hour) // HOUR_US for hour in hours]


def test_an_absence_counts_for_a_day():
    """A day is a day, two are one as well, and whoever was there in between makes it two again; not so a part of it."""
    day, two_days = us(ABSENCE_MAX_HOURS) - us(0), us(2 * ABSENCE_MAX_HOURS)
    assert count_present_us(hours_at(0, 24), us(0), us(24)) == day
    assert count_present_us(hours_at(0, 48), us(0), two_days) == day
    assert count_present_us(hours_at(0), us(0), two_days) == day  # still away
    assert count_present_us(hours_at(0, 24, 48), us(0), two_days) == 2 * day
    assert count_present_us(hours_at(0, 30, 48), us(0), two_days) == day + us(18) - us(0)
    assert count_present_us((), us(0), us(0.9)) == us(0.9) - us(0)


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(0, 300), st.integers(0, 300))
def test_no_more_time_counts_than_passes_and_more_presence_counts_more(there, since, until):
    since, until = sorted((since, until))
    found = count_present_us(sorted({*hours_at(*there)}), us(since), us(until))
    assert min(us(until) - us(since), us(24) - us(0)) <= found <= us(until) - us(since)
    assert found <= count_present_us(sorted({*hours_at(*there, (since + until) // 2)}), us(since), us(until))


def test_who_comes_once_a_day_learns_what_who_is_always_there_forgets():
    """Two events on each other day open the gate of one who has no other, not of one who is there each hour."""
    events = [event(48 * day, day) for day in range(9) for _ in range(2)]
    rules = config(gate_mode="bistable", gate_high=4.25, gate_low=0.75, evidence_half_life_hours=30.0)
    rules = rules.model_copy(update={"evidence_cap_per_session": 2.0})
    own = hours_at(*(48 * day for day in range(9)))
    assert level(events, 384, rules, own).is_open and not level(events, 384, rules).is_open


def test_beyond_its_reach_no_gate_stands_open():
    """However much evidence there was: at its end it is open, a microsecond later closed; counting gates never close."""
    rules = config(gate_mode="bistable", gate_high=3.0, gate_low=1.5, evidence_half_life_hours=48.0)
    levels = [level for level, _ in trace([event(0, n) for n in range(20)], ALWAYS, rules)]
    reach = int(open_hours(rules) * HOUR_US)
    assert [fade(levels[-1], reach + late, rules).is_open for late in (-300, 1)] == [True, False]
    assert open_hours(config()) == float("inf")


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.integers(0, 1100))
def test_whatever_had_its_last_event_before_that_time_is_closed(there, hours):
    """At the time that is told to look back to, no gate was left that could be open; it is not told too early either."""
    rules = config(gate_mode="bistable", gate_high=3.0, gate_low=1.5, evidence_half_life_hours=48.0)
    there = sorted(one for one in there if one <= hours)
    found = open_since_us(hours_at(*sorted(set(there), reverse=True)), us(hours), rules)
    full = Level(rules.gate_high, is_open=True)
    for last in there:
        left = fade(full, count_present_us(sorted({*hours_at(*there)}), us(last), us(hours)), rules)
        assert not left.is_open or us(last) >= found
