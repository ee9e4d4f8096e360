"""The events of one signal, whatever order they came in, as of any time and sequence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory import evidence, signals
from hobus.actors.ho3_memory.database import Databases
from hobus.actors.ho3_memory.signals import EventTally, SignalTable
from hobus.bus.messages.base import canonical_bytes
from hobus.bus.messages.ids import LOCAL
from tests.actors.ho3_memory.builders import BOB, LATEST, SIGNAL, at, config, moment, seen, session, steps_of, us

pytestmark = pytest.mark.slow

RULES = config(
    gate_mode="bistable", gate_high=3.0, gate_low=1.5, evidence_half_life_hours=48.0, evidence_cap_per_session=2.0,
    decay_half_life_hours=336,
)  # fmt: skip


class Log:
    """One signal's events, by the product's own tables."""

    def __init__(self, rules=RULES):
        self.signals = SignalTable(rules, Databases().open())

    def insert(self, one):
        is_new = self.signals.insert(LOCAL, one, one.submission_id)
        self.signals.settle()
        return is_new

    def tally(self, as_of):
        return self.signals.tally((LOCAL, SIGNAL), as_of)

    def level(self, as_of):
        return self.signals.judged((LOCAL, SIGNAL), as_of)[1]

    def accumulate(self, as_of):
        return self.signals.accumulator((LOCAL, SIGNAL), as_of, with_ids=True)


def event(seq, hours, of_session=0):
    return seen(seq, hours, of_session)._replace(submission_id=f"e{seq:03d}")


def log_of(*events):
    log = Log()
    for one in events:
        log.insert(one)
    return log


def test_an_accumulator_is_what_the_events_add_up_to():
    found = log_of(event(0, 5, 2), event(1, 3, 1), event(2, 4, 2)).accumulate(moment(5 + 336))
    assert found is not None
    assert (found.count, found.session_count, found.last_seen, found.decay) == (3, 2, at(5), 0.5)
    assert found.session_ids == [session(1), session(2)] and found.event_ids == ["e001", "e002", "e000"]


def test_a_late_event_is_older_and_moves_no_last_seen():
    log = log_of(event(0, 10, 0), event(1, 2, 1))
    assert log.tally(moment(10)) == EventTally(2, 2, us(10), 1)
    assert log.tally(moment(5)) == EventTally(1, 1, us(2), 1)


@pytest.mark.parametrize(("hours", "count"), [(0.999_999, 0), (1.0, 1), (1.999_999, 1), (2.0, 3)])
def test_an_event_at_the_very_time_of_the_question_counts(hours, count):
    assert log_of(event(0, 1), event(1, 2), event(2, 2)).tally(moment(hours)).event_count == count


def test_entries_of_a_later_sequence_do_not_count():
    """Although their event time is earlier: what was answered before they came stays answered."""
    log = log_of(event(10, 3, 0), event(11, 1, 1), event(12, 2, 0))
    assert [log.tally(moment(5, seq)) for seq in (9, 10, 11, 12)] == [
        EventTally(0, 0, None), EventTally(1, 1, us(3), 1), EventTally(2, 2, us(3), 1), EventTally(3, 2, us(3), 1),
    ]  # fmt: skip
    found = log.accumulate(moment(5, 11))
    assert found is not None and found.event_ids == ["e011", "e010"]
    assert log.accumulate(moment(5, 9)) is None


def test_a_session_counts_from_its_earliest_event_on():
    log = log_of(event(0, 5, 1), event(1, 6, 1), event(2, 1, 1), event(3, 4, 2))
    assert [log.tally(moment(hours)).session_count for hours in (0, 1, 4, 6)] == [0, 1, 2, 2]


EVENTS = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 3)), max_size=25).map(
    lambda pairs: [event(seq, hours, of_session) for seq, (hours, of_session) in enumerate(pairs)]
)
MOMENTS = st.tuples(st.integers(-1, 110), st.integers(-1, 30)).map(lambda pair: moment(*pair))


def answers(log, as_of):
    """Everything that can be asked of a log."""
    accumulator = log.accumulate(as_of)
    return log.tally(as_of), log.level(as_of), None if accumulator is None else canonical_bytes(accumulator)


@given(events=EVENTS)
def test_many_that_come_at_once_are_traced_once_behind_them(events):
    """In whatever order: every level is as if each had been settled alone, and each signal is worked out once."""
    one_by_one, together = log_of(*events), Log()
    traced = []
    trace_anew = together.signals._trace_anew
    together.signals._trace_anew = lambda *of: traced.append(of) or trace_anew(*of)
    for one in events:
        together.signals.insert(LOCAL, one, one.submission_id)
    assert traced == []
    together.signals.settle()
    assert len(traced) <= 1
    for hours in {one.at_us for one in events}:
        as_of = moment(0)._replace(at_us=hours)
        assert together.level(as_of) == one_by_one.level(as_of)
        assert together.tally(as_of) == one_by_one.tally(as_of)


@given(events=EVENTS, draw=st.randoms(use_true_random=False), as_of=MOMENTS)
def test_the_order_of_arrival_does_not_matter(events, draw, as_of):
    shuffled = list(events)
    draw.shuffle(shuffled)
    log = Log()
    for one in shuffled:
        log.insert(one)
        log.level(LATEST)
    assert answers(log, as_of) == answers(log_of(*events), as_of)


@pytest.mark.parametrize(("late", "looked_at"), [(199.5, 1), (195.5, 5), (0.5, 6)])
def test_a_late_event_behind_many_costs_what_comes_after_it_until_nothing_changes(monkeypatch, late, looked_at):
    """Sessions at once log in any order: a turn may not cost more with each turn before it."""
    log = log_of(*[event(seq, seq, of_session=seq) for seq in range(200)])
    found = []

    def trace(*given):
        for one in evidence.trace(*given):
            found.append(one)
            yield one

    monkeypatch.setattr(signals, "trace", trace)
    log.insert(event(999, late, of_session=999))
    assert len(found) <= looked_at
    assert log.tally(moment(late + 0.1)) == EventTally(int(late) + 2, int(late) + 2, us(late), 1)


@given(
    events=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 2)), max_size=25),
    draw=st.randoms(use_true_random=False),
)
def test_an_absence_that_turns_out_shorter_fades_every_signal_more(events, draw):
    """Of three signals the same levels in whatever order their events come, as of their newest event's time."""
    arrivals = [event(seq, hours)._replace(about=f"signal_{number}") for seq, (hours, number) in enumerate(events)]
    found = []
    for _ in range(2):
        log = Log()
        for one in arrivals:
            log.insert(one)
        found.append([log.signals.judged((LOCAL, f"signal_{number}"), moment(400))[1] for number in range(3)])
        draw.shuffle(arrivals)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("late", "others"), [(7, 0), (35, 0), (58, 1), (75, 0)], ids=["before", "no absence", "shorter", "after"]
)
def test_a_late_event_works_out_only_what_it_changes(monkeypatch, late, others):
    """Its own signal's evidence, and another's with events on both sides where so long an absence becomes shorter."""
    log = Log()
    for seq, (hours, about) in enumerate([(5, "own"), (20, "other"), (40, "other"), (70, "other"), (90, "own")]):
        log.insert(event(seq, hours)._replace(about=about))
    traced = []
    monkeypatch.setattr(signals, "trace", lambda *given: traced.append(given) or evidence.trace(*given))
    log.insert(event(9, late)._replace(about="own"))
    assert len(traced) == 1 + others


@given(
    events=EVENTS,
    later=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 3)), max_size=10),
    hours=st.integers(-1, 110),
)
def test_what_is_appended_later_changes_no_answer_of_before(events, later, hours):
    log = log_of(*events)
    head = len(events) - 1
    before = answers(log, moment(hours, head))
    for seq, (late_hours, of_session) in enumerate(later, start=len(events)):
        log.insert(event(seq, late_hours, of_session))
        assert answers(log, moment(hours, head)) == before


@given(EVENTS, MOMENTS)
def test_the_quick_answer_is_the_one_from_looking_at_every_event(events, as_of):
    counted = sorted(
        (one for one in events if one.at_us <= as_of.at_us and one.seq <= as_of.seq), key=lambda one: one.at_us
    )
    expected = EventTally(
        len(counted),
        len({one.session_id for one in counted}),
        counted[-1].at_us if counted else None,
        min(len(counted), 1),
    )
    assert log_of(*events).tally(as_of) == expected


@given(
    events=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=25),
    as_of=st.tuples(st.integers(-1, 450), st.integers(-1, 30)).map(lambda pair: moment(*pair)),
)
def test_an_answer_as_of_a_moment_is_that_of_who_never_saw_more(events, as_of):
    """Counts and evidence of each principal's signals, and of everybody's, whatever came later and was older."""
    facts = [
        event(seq, hours, of_session)._replace(about=f"signal_{about}", principal=LOCAL if is_own else BOB)
        for seq, (hours, of_session, about, is_own) in enumerate(events)
    ]

    def ask(told):
        table = SignalTable(RULES, Databases().open())
        for one in told:
            table.insert(one.principal, one, one.submission_id)
            table.insert(None, one, one.submission_id)
        table.settle()
        every = [(principal, f"signal_{about}") for principal in (LOCAL, BOB, None) for about in range(3)]
        present = {principal: table.present(principal, as_of) for principal in (LOCAL, BOB, None)}
        return [(table.judged(one, as_of), table.last(one, as_of, None, present[one[0]])) for one in every]

    assert ask(facts) == ask([one for one in facts if one.at_us <= as_of.at_us and one.seq <= as_of.seq])


@pytest.mark.parametrize("whose", [LOCAL, None], ids=["one's own", "everybody's"])
@pytest.mark.parametrize("late_hours", [999, 997.5], ids=["in order", "behind"])
def test_a_question_as_of_before_the_newest_costs_what_came_later_and_not_what_ever_was(whose, late_hours):
    """Turns of one person at once ask so each time; counted in steps of SQLite's machine."""

    def cost(count):
        log = Log()
        for one in [*[event(seq, 998 - seq, of_session=seq) for seq in range(count)], event(1000, late_hours)]:
            log.signals.insert(whose, one, one.submission_id)
        log.signals.settle()
        found = []
        steps = steps_of(log.signals, lambda: found.append(log.signals.judged((whose, SIGNAL), moment(998, 999))))
        assert found[0][0] == EventTally(count, count, us(998), 1) and found[0][1].evidence > 2
        return steps

    assert cost(20) == cost(500)


@pytest.mark.parametrize("of_session", [1000, 0], ids=["new", "with its event at the beginning"])
def test_an_event_costs_nothing_of_those_before_it(of_session):
    def cost(count):
        log = log_of(*[event(seq, seq / 100, of_session=seq) for seq in range(count)])
        return steps_of(log.signals, lambda: log.insert(event(1000, 50, of_session)))

    assert cost(20) == cost(500)


def test_in_counting_mode_there_is_no_level():
    log = Log(config())
    log.insert(event(0, 0))
    assert log.level(moment(0, 0)) is None
