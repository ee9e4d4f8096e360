"""Evidence fades with event time, is capped per session, and opens and closes the gate at two thresholds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.event_rows import EventRows, SignalEvent
from hobus.actors.ho3_memory.evidence import NOTHING, EvidenceTrace, Level
from hobus.actors.ho3_memory.names import Names
from tests.actors.ho3_memory.builders import config, us
from tests.laws import law

RULES = config(gate_high=5.0, gate_low=3.0, evidence_half_life_hours=48.0, evidence_cap_per_session=2.0)


def event(number, hours, of_session):
    """An event of a numbered session."""
    return SignalEvent(us(hours), f"e{number:04d}", f"s{of_session}", number)


def traced(*events, rules=RULES):
    """The trace after these events."""
    return EvidenceTrace(rows_of(*events), rules)


def rows_of(*events):
    """These events in columns."""
    rows = EventRows("tool:a", Names(), of_several=False)
    for one in events:
        rows.insert(one)
    return rows


def test_before_the_first_event_there_is_nothing():
    """And an open gate least of all."""
    assert traced().level(us(0)) == NOTHING
    assert traced(event(0, 1, 0)).level(us(1) - 1) == NOTHING


def test_an_event_counts_one_at_its_own_time_and_half_after_a_half_life():
    """Exact values, no event is needed in between."""
    trace = traced(event(0, 0, 0))
    assert [trace.level(us(hours)).evidence for hours in (0, 48, 96)] == [1.0, 0.5, 0.25]


def test_one_session_never_has_more_than_its_cap():
    """A burst of a thousand events in one session opens nothing."""
    trace = traced(*(event(n, 0, 0) for n in range(1000)))
    assert trace.level(us(0)) == Level(2.0, is_open=False)


def test_a_capped_session_may_add_again_what_has_faded():
    """After a half-life 1 of its 2 is left, and one more event brings it to the cap again."""
    trace = traced(event(0, 0, 0), event(1, 0, 0), event(2, 48, 0), event(3, 48, 0))
    assert trace.level(us(48)).evidence == 2.0


@pytest.mark.parametrize(("sessions", "is_open"), [(4, False), (5, True)])
def test_the_gate_opens_at_exactly_its_upper_threshold(sessions, is_open):
    """Evidence 5.0 at 5.0 opens."""
    assert traced(*(event(n, 0, n) for n in range(sessions))).level(us(0)) == Level(float(sessions), is_open)


def test_between_the_thresholds_the_gate_stays_as_it_was():
    """Falling from above it is still open at exactly 3.0, closed below; rising again it opens at 5.0 only."""
    rules = RULES.model_copy(update={"gate_high": 6.0})
    trace = traced(*(event(n, 0, n) for n in range(6)), rules=rules)
    assert trace.level(us(0)) == Level(6.0, is_open=True)
    assert trace.level(us(48)) == Level(3.0, is_open=True)
    assert trace.level(us(48.01)).is_open is False
    risen = traced(*(event(n, 0, n) for n in range(6)), *(event(n, 49, n) for n in range(6, 9)), rules=rules)
    assert 5.9 < risen.level(us(49)).evidence < 6.0 and not risen.level(us(49)).is_open
    assert risen.level(us(48)).is_open  # and what was, was


@pytest.mark.parametrize("sessions", [6, 60])
def test_however_strong_a_habit_was_its_gate_closes_in_the_same_time(sessions):
    """Nothing stands above the upper threshold: half-life x log2(6 / 3) after the last event, not after ten times as many."""
    rules = RULES.model_copy(update={"gate_high": 6.0})
    trace = traced(*(event(n, 0, n) for n in range(sessions)), rules=rules)
    assert trace.level(us(0)) == Level(6.0, is_open=True)
    assert trace.level(us(48)).is_open and not trace.level(us(48.01)).is_open


def test_a_gate_that_closed_between_two_events_is_not_open_at_the_second():
    """The level before an event is the faded one, not that of the event before."""
    trace = traced(*(event(n, 0, n) for n in range(5)), event(9, 96, 9))
    assert trace.level(us(96)) == Level(2.25, is_open=False)


EVENTS = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 4)), max_size=40).map(
    lambda pairs: [event(n, hours, of_session) for n, (hours, of_session) in enumerate(pairs)]
)


@given(EVENTS, st.integers(0, 600))
def test_a_trace_that_grew_is_the_trace_made_at_once(events, hours):
    """Extending event by event, in whatever order they come, gives the same level as one pass."""
    rows = rows_of()
    grown = EvidenceTrace(rows, RULES)
    for one in events:
        grown.forget_from(rows.insert(one))
        grown.level(us(600))
    assert grown.level(us(hours)) == traced(*events).level(us(hours))


@given(EVENTS, st.integers(0, 600))
def test_evidence_is_bounded_by_sessions_and_by_events(events, hours):
    """Never above one per event, the cap per session or the upper threshold, nor negative; open only above the lower one."""
    level = traced(*events).level(us(hours))
    sessions = {one.session_id for one in events if one.at_us <= us(hours)}
    count = sum(one.at_us <= us(hours) for one in events)
    assert 0.0 <= level.evidence <= min(count, 2.0 * len(sessions), RULES.gate_high) + 1e-6
    assert not level.is_open or level.evidence >= RULES.gate_low


@law(20, 200, events=EVENTS, more=EVENTS, hours=st.integers(0, 500))
def test_later_events_change_no_earlier_level(events, more, hours):
    """What is asked as of a time does not depend on what comes after it."""
    later = [one._replace(event_id=f"later{one.event_id}", seq=1000 + one.seq) for one in more if one.at_us > us(hours)]
    assert traced(*events, *later).level(us(hours)) == traced(*events).level(us(hours))


def test_a_long_life_ends_in_the_same_nine_decimals():
    """Two thousand events: the level is a plain number of nine decimals."""
    draw = random.Random(1)
    level = traced(*(event(n, draw.random() * 5000, draw.randrange(300)) for n in range(2000))).level(us(5000))
    assert level.evidence == round(level.evidence, 9)
