"""The gate at its borders, in both modes."""

import pytest

from hobus.actors.ho3_memory.evidence import Level
from hobus.actors.ho3_memory.gate import GateFacts, judge
from hobus.actors.ho3_memory.signals import EventTally
from tests.actors.ho3_memory.builders import SIGNAL, at, config, us

COUNTING = config()
BISTABLE = config(gate_mode="bistable")


def judged(
    events=5,
    sessions=3,
    last=0.0,
    *,
    level=None,
    consolidated=None,
    failed=None,
    as_of=0.0,
    signal_id=SIGNAL,
    rules=COUNTING,
    principal="local",
    principals=1,
    switched_off="",
):
    """The result for these facts; times in hours."""
    facts = GateFacts(
        tally=EventTally(events, sessions, None if last is None else us(last), principals),
        level=level,
        consolidated_us=None if consolidated is None else us(consolidated),
        failed_us=None if failed is None else us(failed),
        principal=principal,
        switched_off=switched_off,
    )
    return judge(signal_id, facts, us(as_of), rules)


@pytest.mark.parametrize(
    ("events", "sessions", "is_crossed"),
    [(5, 3, True), (4, 3, False), (5, 2, False), (50, 2, False), (3, 3, False), (5, 5, True), (0, 0, False)],
)
def test_both_thresholds_are_needed_and_reached_exactly(events, sessions, is_crossed):
    result = judged(events, sessions)
    assert (result.crossed, result.count, result.session_count) == (is_crossed, events, sessions)
    words = f"{events} of 5 events" if events <= 5 else f"{events} events (5 needed)"
    words += f", {sessions} of 3 sessions" if sessions <= 3 else f", {sessions} sessions (3 needed)"
    assert result.reason == words
    assert result.evidence == 0.0


@pytest.mark.parametrize(
    ("as_of", "is_consolidated"),
    [(0.0, True), (168.0, True), (168.0 + 1e-6, False), (500.0, False)],
)
def test_a_signal_is_consolidated_within_the_window_both_ends_included(as_of, is_consolidated):
    """as_of - gate_window_hours <= window_end <= as_of, to the microsecond (3.6 of them here)."""
    result = judged(as_of=as_of, last=as_of, consolidated=0.0)
    assert (result.already_consolidated, result.crossed) == (is_consolidated, not is_consolidated)
    assert ("consolidated already" in result.reason) == is_consolidated


@pytest.mark.parametrize(("last", "is_crossed"), [(0.0, False), (-1.0, False), (1e-6, True)])
def test_after_the_window_an_event_newer_than_the_consolidation_is_needed(last, is_crossed):
    assert judged(as_of=200.0, last=last, consolidated=0.0).crossed is is_crossed


def test_without_that_requirement_the_old_events_cross_again():
    assert judged(as_of=200.0, last=0.0, consolidated=0.0, rules=config(require_fresh_evidence=False)).crossed


@pytest.mark.parametrize(("as_of", "is_crossed"), [(0.0, False), (24.0 - 1e-6, False), (24.0, True)])
def test_a_failure_closes_the_gate_until_its_cooldown_is_over(as_of, is_crossed):
    result = judged(as_of=as_of, failed=0.0)
    assert result.crossed is is_crossed
    assert (f"closed until {at(24)}" in result.reason) is not is_crossed


def test_an_excluded_signal_never_crosses():
    result = judged(events=1000, sessions=1000, signal_id="outcome:success")
    assert not result.crossed and result.count == 1000 and "ho3.gate_excluded_signals" in result.reason


@pytest.mark.parametrize(
    ("level", "sessions", "is_crossed"),
    [
        (Level(5.0, is_open=True), 3, True),
        (Level(3.0, is_open=True), 3, True),
        (Level(4.9, is_open=False), 3, False),
        (Level(9.0, is_open=True), 2, False),
    ],
)
def test_bistable_asks_the_level_and_the_sessions(level, sessions, is_crossed):
    result = judged(events=1, sessions=sessions, level=level, rules=BISTABLE)
    assert (result.crossed, result.evidence) == (is_crossed, level.evidence)
    assert f"{level.evidence:.3f}" in result.reason


def test_bistable_is_closed_by_the_same_reasons():
    level = Level(9.0, is_open=True)
    assert not judged(level=level, consolidated=0.0, rules=BISTABLE).crossed
    assert not judged(level=level, failed=0.0, rules=BISTABLE).crossed
    assert not judged(level=level, signal_id="intent:question", rules=BISTABLE).crossed


def test_a_signal_that_nobody_logged_has_a_closed_gate():
    result = judged(0, 0, last=None, consolidated=-500.0)
    assert (result.crossed, result.reason.startswith("0 of 5 events, 0 of 3 sessions")) == (False, True)


@pytest.mark.parametrize(("principals", "is_crossed"), [(3, True), (2, False)])
def test_on_everybodys_events_principals_are_counted_too(principals, is_crossed):
    """One person's zeal, in however many sessions, is not everybody's habit."""
    shared = config(shared_types=["task_pattern"], gate_principal_threshold=3)
    result = judged(50, 50, principal=None, principals=principals, rules=shared)
    assert (result.crossed, result.principal, result.principal_count) == (is_crossed, None, principals)
    assert f"{principals} of 3 principals" in result.reason


def test_where_nothing_is_shared_everybodys_gate_is_closed():
    result = judged(50, 50, principal=None, principals=50)
    assert not result.crossed and "ho3.shared_types" in result.reason


def test_a_person_closes_a_gate_and_a_statement_needs_none():
    off = judged(switched_off="ART-1")
    assert not off.crossed and off.count == 5 and "ART-1" in off.reason and "switched on again" in off.reason
    stated, never = judged(signal_id="explicit:abc"), judged(0, 0, signal_id="explicit:abc")
    assert not stated.crossed and "; stated by its principal" in stated.reason
    assert not never.crossed and "nobody asked about stated it" in never.reason
