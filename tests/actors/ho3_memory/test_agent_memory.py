"""One agent's memory: what its facts add up to, whatever came when, as of any moment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.agent_memory import AgentMemory
from hobus.actors.ho3_memory.event_time import PointInTime
from hobus.bus.messages.base import canonical_bytes
from tests.actors.ho3_memory.builders import (
    AGENT,
    SIGNAL,
    artifact,
    config,
    failed,
    logged,
    moment,
    numbered,
    off,
    seen,
    session,
    us,
    weighed,
)

OTHER = "domain:docs"
BISTABLE = {"gate_mode": "bistable", "gate_high": 3.0, "gate_low": 1.5, "evidence_half_life_hours": 48.0}


def memory_of(*facts, **changed):
    """A memory that got these facts in this order."""
    memory = AgentMemory(AGENT, config(**changed))
    for fact in facts:
        memory.apply(fact)
    return memory


def habit(count=5, sessions=3, first=0):
    """So many events, one an hour, in turns in the sessions."""
    return [seen(first + number, number, number % sessions) for number in range(count)]


def lines(memory, as_of, of_session=None):
    """Context lines that may go into a prompt."""
    return [bias.artifact.context_line for bias in memory.active_biases(as_of, of_session)]


def test_a_fact_counts_once():
    """However often it is applied, as an event, an overlay, a change or a failure."""
    facts = numbered([*habit(), logged(artifact(), 5), off(6, 9, artifact().artifact_id), failed(7, 9)])
    memory = memory_of(*facts)
    before = memory.counts(moment(100)), memory.overlays(moment(100), signal_id=None, active_only=False)
    assert not any(memory.apply(fact) for fact in facts)
    assert before == (memory.counts(moment(100)), memory.overlays(moment(100), signal_id=None, active_only=False))
    assert memory.failure_times(SIGNAL) == [us(9)] and memory.event_count == 5


def test_a_habit_crosses_its_gate_until_an_overlay_names_it():
    """The whole way: counting, crossing, consolidated, and again after the window with a fresh event."""
    memory = memory_of(*habit(4))
    assert not memory.gate(SIGNAL, moment(4)).crossed
    memory.apply(seen(4, 4, 1))
    assert memory.gate(SIGNAL, moment(4)).crossed
    assert not memory.gate(SIGNAL, moment(3.9)).crossed  # as of before the fifth event
    memory.apply(logged(artifact(hours=4), 5))
    after = memory.gate(SIGNAL, moment(5))
    assert after.already_consolidated and not after.crossed
    assert memory.gate(SIGNAL, moment(4, seq=4)).crossed  # as it was before the overlay
    assert not memory.gate(SIGNAL, moment(4 + 169)).crossed
    memory.apply(seen(6, 4 + 168.5, 0))
    assert memory.gate(SIGNAL, moment(4 + 169)).crossed
    assert not memory.gate(OTHER, moment(5)).already_consolidated


def test_switching_an_artifact_off_does_not_undo_its_consolidation():
    """Else it would be learned again at once."""
    memory = memory_of(*habit(), logged(artifact(hours=4), 5), off(6, 5, artifact().artifact_id))
    assert lines(memory, moment(6)) == []
    assert memory.gate(SIGNAL, moment(6)).already_consolidated


def test_the_newest_overlay_that_counts_decides():
    """An overlay whose window ends after the question does not consolidate it."""
    memory = memory_of(*habit(), logged(artifact("late", hours=50), 5))
    assert not memory.gate(SIGNAL, moment(49)).already_consolidated
    assert memory.gate(SIGNAL, moment(50)).already_consolidated


def test_a_failure_closes_the_gate_of_its_signal_alone():
    """From its event time on, for the cooldown."""
    memory = memory_of(*habit(), *[seen(10 + n, n, n, OTHER) for n in range(5)], failed(20, 5))
    assert [memory.gate(SIGNAL, moment(hours)).crossed for hours in (4.9, 5, 28.9, 29)] == [True, False, False, True]
    assert memory.gate(OTHER, moment(6)).crossed


def test_signals_are_sorted_and_filtered_by_their_count():
    """By id; a count of exactly the minimum passes; an unknown signal is no error."""
    memory = memory_of(*habit(5), *[seen(10 + n, n, n, OTHER) for n in range(2)])

    def names(**question):
        return [(found.signal_id, found.count) for found in memory.signals(moment(9), with_ids=False, **question)]

    assert names(signal_id=None, min_count=0) == [(OTHER, 2), (SIGNAL, 5)]
    assert names(signal_id=None, min_count=5) == [(SIGNAL, 5)]
    assert names(signal_id=SIGNAL, min_count=6) == [] == names(signal_id="tool:unknown", min_count=0)


def test_overlays_come_in_append_order_by_signal_and_activity():
    """An artifact that is logged again keeps its place."""
    one, two, three = artifact("one"), artifact("two", source_signal_ids=[OTHER, SIGNAL]), artifact("three", weight=0.0)
    memory = memory_of(
        *habit(), logged(one, 5), logged(two, 6), logged(three, 7), off(8, 9, one.artifact_id), logged(one, 9)
    )

    def names(**question):
        found = memory.overlays(moment(20), **question)
        return [overlay.artifact.artifact_id for overlay in found]

    assert names(signal_id=None, active_only=False) == [one.artifact_id, two.artifact_id, three.artifact_id]
    assert names(signal_id=OTHER, active_only=True) == [two.artifact_id]
    assert names(signal_id="tool:unknown", active_only=False) == []
    assert names(signal_id=None, active_only=True) == [
        one.artifact_id,
        two.artifact_id,
    ]  # logged again after it was off
    assert memory.counts(moment(20)) == (1, 5, 3, 2)


def test_what_goes_into_a_prompt_is_enabled_in_scope_weighty_and_not_faded():
    """Session artifacts for their session alone."""
    memory = memory_of(
        *habit(),
        logged(artifact("agent", context_line="agent"), 5),
        logged(artifact("global", context_line="global", scope="global"), 6),
        logged(artifact("session", context_line="session", scope="session", session_id=session(1)), 7),
        logged(artifact("weightless", context_line="weightless", weight=0.0), 8),
        logged(artifact("pending", context_line="pending", enabled=False), 9),
        logged(artifact("later", context_line="later", hours=50), 10),
    )
    assert lines(memory, moment(10)) == ["agent", "global"] == lines(memory, moment(10), session(2))
    assert lines(memory, moment(10), session(1)) == ["agent", "global", "session"]
    assert lines(memory, moment(60)) == ["agent", "global", "later"]


@pytest.mark.parametrize(("floor", "is_there"), [(0.25, True), (0.250000001, False)])
def test_decay_at_exactly_the_floor_is_enough(floor, is_there):
    """Two half-lives after the last event 0.25 is left."""
    memory = memory_of(*habit(), logged(artifact(hours=4), 5), bias_decay_floor=floor)
    assert bool(lines(memory, moment(4 + 672))) is is_there


def test_the_freshest_source_signal_keeps_an_artifact_alive():
    """Its decay is the highest among its sources; without any event it is 0."""
    made = artifact(source_signal_ids=[SIGNAL, OTHER])
    memory = memory_of(seen(0, 0), seen(1, 336, 0, OTHER), logged(made, 2))
    assert [bias.decay for bias in memory.active_biases(moment(336), None)] == [1.0]
    nothing = memory_of(logged(artifact(source_signal_ids=["tool:unknown"]), 0), bias_decay_floor=0.0)
    assert [bias.decay for bias in nothing.active_biases(moment(1), None)] == [0.0]


def test_in_mode_bistable_a_learned_line_goes_and_comes_with_its_evidence():
    """Below the lower threshold it is not injected; fresh evidence to the upper one brings it back, the artifact unchanged."""
    events = [seen(n, 0, n) for n in range(3)]
    memory = memory_of(*events, logged(artifact(hours=0), 3), **BISTABLE)
    assert [bool(lines(memory, moment(hours))) for hours in (0, 48, 48.01, 500)] == [True, True, False, False]
    for number in range(3):
        memory.apply(seen(10 + number, 400, 10 + number))
    assert lines(memory, moment(400)) == ["The user lists packages often."]
    assert lines(memory, moment(399)) == []


def test_in_mode_bistable_a_stated_line_stands_by_itself():
    """It has no gate behind it: one statement is enough, and decay alone takes it away."""
    stated = artifact(source_signal_ids=["explicit:abc"], gate_snapshot=None, model="", prompt_pack_version="")
    memory = memory_of(seen(0, 0, 0, "explicit:abc"), logged(stated, 1), **BISTABLE)
    assert lines(memory, moment(100)) != []


# --- laws ---------------------------------------------------------------------------------------------------------------

SIGNALS = [SIGNAL, OTHER]
NAMES = ["one", "two"]


def _facts(drawn):
    """Facts of every kind in this order of the log; a change of an artifact comes after its first logging."""
    facts, known = [], set()
    for kind, hours, number in drawn:
        name = NAMES[number % 2]
        if kind == "seen":
            facts.append(seen(len(facts), hours, number % 4, SIGNALS[number % 2]))
        elif kind == "failed":
            facts.append(failed(len(facts), hours, SIGNALS[number % 2]))
        elif kind == "logged" or name not in known:
            known.add(name)
            facts.append(logged(artifact(name, hours=hours, weight=0.1 * (1 + number % 9)), len(facts)))
        elif kind == "off":
            facts.append(off(len(facts), hours, artifact(name).artifact_id))
        else:
            facts.append(weighed(len(facts), hours, 0.2, artifact(name).artifact_id))
    return facts


FACTS = st.lists(
    st.tuples(
        st.sampled_from(["seen", "seen", "seen", "logged", "off", "weight", "failed"]),
        st.integers(0, 400),
        st.integers(0, 9),
    ),
    max_size=25,
).map(_facts)
MODES = st.sampled_from([{}, BISTABLE])


def bytes_of(memory, as_of):
    """Every answer, as the wire has it."""
    answers = [
        *memory.signals(as_of, signal_id=None, min_count=0, with_ids=True),
        *memory.overlays(as_of, signal_id=None, active_only=False),
        *memory.active_biases(as_of, None),
        *(memory.gate(signal_id, as_of) for signal_id in SIGNALS),
    ]
    return [canonical_bytes(answer) for answer in answers], memory.counts(as_of)


@given(FACTS, st.randoms(use_true_random=False), MODES, st.integers(0, 450), st.integers(-1, 25))
def test_the_state_does_not_depend_on_the_order_in_which_facts_arrive(facts, draw, mode, hours, seq):
    """The record's own sequence and event times decide, so that a rebuild gives the same bytes."""
    shuffled = list(facts)
    draw.shuffle(shuffled)
    as_of = moment(hours, seq)
    assert bytes_of(memory_of(*shuffled, **mode), as_of) == bytes_of(memory_of(*facts, **mode), as_of)


@given(FACTS, st.integers(0, 25), MODES, st.integers(0, 450))
def test_an_answer_as_of_a_moment_stays_the_same_for_ever(facts, cut, mode, hours):
    """Whatever is appended afterwards, and whatever its event time: the same bytes."""
    memory = memory_of(*facts[:cut], **mode)
    as_of = PointInTime(us(hours), min(cut, len(facts)) - 1)
    before = bytes_of(memory, as_of)
    for fact in facts[cut:]:
        memory.apply(fact)
        assert bytes_of(memory, as_of) == before
