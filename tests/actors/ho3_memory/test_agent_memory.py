"""One agent's memory: what its facts add up to, whatever came when, as of any moment."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.agent_memory import AgentMemory
from hobus.actors.ho3_memory.event_time import PointInTime
from hobus.actors.ho3_memory.signals import Present
from hobus.bus.messages.base import canonical_bytes
from hobus.bus.messages.ids import LOCAL
from tests.actors.ho3_memory.builders import (
    AGENT,
    BOB,
    SIGNAL,
    artifact,
    config,
    confirmed,
    failed,
    logged,
    moment,
    numbered,
    off,
    on,
    seen,
    session,
    steps_of,
    us,
    weighed,
)

pytestmark = pytest.mark.slow

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


def lines(memory, as_of, of_session=None, principal=LOCAL):
    """Context lines that may go into a prompt."""
    return [
        bias.artifact.context_line
        for bias in memory.list_active_biases(as_of, principal=principal, session_id=of_session)
    ]


def test_a_fact_counts_once():
    facts = numbered([*habit(), logged(artifact(), 5), off(6, 9, artifact().artifact_id), failed(7, 9)])
    memory = memory_of(*facts)
    before = (
        memory.counts(moment(100)),
        list(memory.artifacts.overlays(moment(100), signal_id=None, principal=None, active_only=False)),
    )
    assert not any(memory.apply(fact) for fact in facts)
    assert before == (
        memory.counts(moment(100)),
        list(memory.artifacts.overlays(moment(100), signal_id=None, principal=None, active_only=False)),
    )
    assert memory.list_failure_times(SIGNAL, LOCAL) == [us(9)]


def test_a_habit_crosses_its_gate_until_an_overlay_names_it():
    memory = memory_of(*habit(4))
    assert not memory.gate(SIGNAL, LOCAL, moment(4)).crossed
    memory.apply(seen(4, 4, 1))
    assert memory.gate(SIGNAL, LOCAL, moment(4)).crossed
    assert not memory.gate(SIGNAL, LOCAL, moment(3.9)).crossed  # as of before the fifth event
    memory.apply(logged(artifact(hours=4), 5))
    after = memory.gate(SIGNAL, LOCAL, moment(5))
    assert after.already_consolidated and not after.crossed
    assert memory.gate(SIGNAL, LOCAL, moment(4, seq=4)).crossed  # as it was before the overlay
    assert not memory.gate(SIGNAL, LOCAL, moment(4 + 169)).crossed
    memory.apply(seen(6, 4 + 168.5, 0))
    assert memory.gate(SIGNAL, LOCAL, moment(4 + 169)).crossed
    assert not memory.gate(OTHER, LOCAL, moment(5)).already_consolidated


def test_switching_an_artifact_off_does_not_undo_its_consolidation():
    """Else it would be learned again at once."""
    memory = memory_of(*habit(), logged(artifact(hours=4), 5), off(6, 5, artifact().artifact_id))
    assert lines(memory, moment(6)) == []
    assert memory.gate(SIGNAL, LOCAL, moment(6)).already_consolidated


def test_the_newest_overlay_that_counts_decides():
    """An overlay whose window ends after the question does not consolidate it."""
    memory = memory_of(*habit(), logged(artifact("late", hours=50), 5))
    assert not memory.gate(SIGNAL, LOCAL, moment(49)).already_consolidated
    assert memory.gate(SIGNAL, LOCAL, moment(50)).already_consolidated


def test_a_failure_closes_the_gate_of_its_signal_alone():
    memory = memory_of(*habit(), *[seen(10 + n, n, n, OTHER) for n in range(5)], failed(20, 5))
    assert [memory.gate(SIGNAL, LOCAL, moment(hours)).crossed for hours in (4.9, 5, 28.9, 29)] == [
        True,
        False,
        False,
        True,
    ]
    assert memory.gate(OTHER, LOCAL, moment(6)).crossed


def test_signals_are_sorted_and_filtered_by_their_count():
    memory = memory_of(*habit(5), *[seen(10 + n, n, n, OTHER) for n in range(2)])

    def names(**question):
        return [
            (found.signal_id, found.count)
            for found in memory.signals(moment(9), principal=None, with_ids=False, **question)
        ]

    assert names(signal_id=None, min_count=0) == [(OTHER, 2), (SIGNAL, 5)]
    assert names(signal_id=None, min_count=5) == [(SIGNAL, 5)]
    assert names(signal_id=SIGNAL, min_count=6) == [] == names(signal_id="tool:unknown", min_count=0)


def test_overlays_come_in_append_order_by_signal_and_activity():
    one, two, three = artifact("one"), artifact("two", source_signal_ids=[OTHER, SIGNAL]), artifact("three", weight=0.0)
    memory = memory_of(
        *habit(), logged(one, 5), logged(two, 6), logged(three, 7), off(8, 9, one.artifact_id), logged(one, 9)
    )

    def names(**question):
        found = memory.artifacts.overlays(moment(20), principal=None, **question)
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
    kinds = {
        "agent": {},
        "global": {"scope": "global"},
        "session": {"scope": "session", "session_id": session(1)},
        "weightless": {"weight": 0.0},
        "pending": {"enabled": False},
        "later": {"hours": 50},
    }
    memory = memory_of()
    for number, (name, changed) in enumerate(kinds.items()):
        memory.apply(seen(number, 0, 0, f"tool:{name}"))
        made = artifact(name, context_line=name, source_signal_ids=[f"tool:{name}"], **changed)
        memory.apply(logged(made, 10 + number))
    assert lines(memory, moment(10)) == ["agent", "global"] == lines(memory, moment(10), session(2))
    assert lines(memory, moment(10), session(1)) == ["agent", "global", "session"]
    assert lines(memory, moment(60)) == ["agent", "global", "later"]


@pytest.mark.parametrize(("floor", "is_there"), [(0.25, True), (0.250000001, False)])
def test_decay_at_exactly_the_floor_is_enough(floor, is_there):
    memory = memory_of(*habit(), logged(artifact(hours=4), 5), bias_decay_floor=floor)
    assert bool(lines(memory, moment(4 + 672))) is is_there


def test_the_freshest_source_signal_keeps_an_artifact_alive():
    made = artifact(source_signal_ids=[SIGNAL, OTHER])
    memory = memory_of(seen(0, 0), seen(1, 336, 0, OTHER), logged(made, 2))
    assert [bias.decay for bias in memory.list_active_biases(moment(336), principal=LOCAL, session_id=None)] == [1.0]
    nothing = memory_of(logged(artifact(source_signal_ids=["tool:unknown"]), 0), bias_decay_floor=0.0)
    assert [bias.decay for bias in nothing.list_active_biases(moment(1), principal=LOCAL, session_id=None)] == []


def test_in_mode_bistable_a_learned_line_goes_and_comes_with_its_evidence():
    events = [seen(n, 0, n) for n in range(3)]
    memory = memory_of(*events, logged(artifact(hours=0), 3), **BISTABLE)
    assert lines(memory, moment(500)), "nobody was there meanwhile"
    for number, hours in enumerate((24, 48, 72), start=4):
        memory.apply(seen(number, hours, number, "tool:another"))
    assert [bool(lines(memory, moment(hours))) for hours in (0, 48, 48.01, 500)] == [True, True, False, False]
    for number in range(3):
        memory.apply(seen(10 + number, 400, 10 + number))
    assert lines(memory, moment(400)) == ["The user lists packages often."]
    assert lines(memory, moment(399)) == []


def test_what_else_runs_in_a_principals_name_fades_none_of_its_habits():
    """A program that begins a session every few minutes: the person's line and the evidence behind it stand as without it."""
    habit = [*[seen(n, 0, n) for n in range(3)], logged(artifact(hours=0), 3)]
    alone, beside = (memory_of(*habit, **BISTABLE) for _ in range(2))
    for number in range(4, 104):
        beside.apply(seen(number, number / 100, number, OTHER))
    assert lines(beside, moment(1)) == lines(alone, moment(1)) != []
    assert beside.gate(SIGNAL, LOCAL, moment(1)) == alone.gate(SIGNAL, LOCAL, moment(1))


def test_in_mode_bistable_a_stated_line_stands_by_itself():
    """It has no gate behind it: one statement is enough, and decay alone takes it away."""
    stated = artifact(source_signal_ids=["explicit:abc"], gate_snapshot=None, model="", prompt_pack_version="")
    memory = memory_of(seen(0, 0, 0, "explicit:abc"), logged(stated, 1), **BISTABLE)
    assert lines(memory, moment(100)) != []


def test_a_line_that_was_stated_first_and_learned_later_stands_as_of_before_by_itself():
    """Whichever of the two loggings comes first to here: a read looks for what was ever stated."""
    stated, learned = artifact(gate_snapshot=None, context_line="stated"), artifact(hours=50, context_line="learned")
    assert stated.artifact_id == learned.artifact_id
    facts = [seen(0, 0), logged(stated, 1), logged(learned, 2)]
    for order in (facts, facts[::-1]):
        memory = memory_of(*order, **BISTABLE)
        assert lines(memory, moment(300, seq=1)) == ["stated"] and lines(memory, moment(300)) == []


def test_a_line_is_shown_with_the_weight_that_it_has_by_then():
    made = artifact(hours=4)
    memory = memory_of(*habit(), logged(made, 5))

    def weights(as_of):
        return [one.artifact.weight for one in memory.list_active_biases(as_of, principal=LOCAL, session_id=None)]

    assert weights(moment(5)) == [0.8]
    memory.apply(weighed(6, 6, 0.3, made.artifact_id))
    assert weights(moment(7)) == [0.3] and weights(moment(5)) == [0.8]


def test_a_listing_without_ids_says_the_same_numbers():
    """And costs nothing of the events, as of the latest moment; of any other one it looks at them."""
    memory = memory_of(*habit(5), seen(9, 1, 7, OTHER), seen(10, 30, 8, OTHER))
    for as_of in (moment(100), moment(3), moment(100, seq=9), moment(-1)):
        asked = {"signal_id": None, "principal": None, "min_count": 0}
        full = list(memory.signals(as_of, with_ids=True, **asked))
        bare = {"session_ids": [], "event_ids": []}
        assert list(memory.signals(as_of, with_ids=False, **asked)) == [one.model_copy(update=bare) for one in full]


# --- whose memory -----------------------------------------------------------------------------------------------------


def test_a_strangers_habit_is_no_habit_of_mine():
    theirs = [seen(n, n, n, principal=BOB) for n in range(5)]
    memory = memory_of(*theirs, logged(artifact(principal=BOB, hours=4), 5))
    assert memory.gate(SIGNAL, BOB, moment(4, seq=4)).crossed
    assert memory.gate(SIGNAL, LOCAL, moment(4)).count == 0
    assert not memory.gate(SIGNAL, None, moment(4)).crossed
    assert (lines(memory, moment(5)), lines(memory, moment(5), principal=BOB)) == ([], [artifact().context_line])
    found = list(memory.signals(moment(5), signal_id=None, principal=None, min_count=0, with_ids=True))
    assert [(one.principal, one.count) for one in found] == [(BOB, 5)]


def test_of_one_signal_ones_own_line_stands_before_everybodys():
    rules = {"shared_types": ["task_pattern"], "gate_principal_threshold": 2}
    events = [seen(n, n, n, principal=(LOCAL, BOB)[n % 2]) for n in range(4)]
    shared = artifact("shared", principal=None, hours=3, context_line="everybody's")
    style = artifact(
        "style", principal=None, context_line="style", artifact_type="interaction_style", source_signal_ids=[OTHER]
    )
    own = artifact("own", hours=4, context_line="mine")
    events.append(seen(9, 1, 1, OTHER, principal=BOB))
    memory = memory_of(*events, logged(shared, 4), logged(style, 5), logged(own, 6), **rules)
    assert lines(memory, moment(9)) == ["mine"]
    assert lines(memory, moment(9), principal=BOB) == lines(memory, moment(9), principal="key/eve") == ["everybody's"]
    assert lines(memory_of(*events, logged(shared, 4)), moment(9)) == []  # the configuration shares nothing any more


# --- one line per habit -----------------------------------------------------------------------------------------------


def test_a_newer_artifact_of_a_signal_supersedes_the_older_one_from_its_event_time_on():
    old = artifact("old", hours=1, context_line="old")
    new = artifact("new", hours=10, context_line="new")
    memory = memory_of(*habit(), logged(old, 5), logged(new, 6), off(7, 20, new.artifact_id))
    assert [lines(memory, moment(hours)) for hours in (1, 9, 10, 19, 20)] == [["old"], ["old"], ["new"], ["new"], []]
    assert lines(memory, moment(15, seq=5)) == ["old"]
    states = [
        one.state for one in memory.artifacts.overlays(moment(19), signal_id=None, principal=None, active_only=False)
    ]
    assert states == ["superseded", "active"]


def test_what_waits_or_was_rejected_supersedes_nothing_until_it_is_confirmed():
    """A constraint that nobody has confirmed changes no prompt, neither by its line nor by its being there."""
    old = artifact("old", hours=1, context_line="old")
    rule = artifact("rule", hours=5, context_line="rule", artifact_type="constraint")
    memory = memory_of(*habit(), logged(old, 5), logged(rule, 6))
    assert lines(memory, moment(9)) == ["old"]
    assert [one.artifact.context_line for one in memory.artifacts.pending(moment(9), None)] == ["rule"]
    memory.apply(off(7, 10, rule.artifact_id))
    assert lines(memory, moment(11)) == ["old"]
    memory.apply(on(8, 12, rule.artifact_id))
    memory.apply(confirmed(9, 13, rule.artifact_id))
    assert lines(memory, moment(14)) == ["rule"]


def test_an_artifact_of_a_session_supersedes_within_that_session_alone():
    here = {"scope": "session", "session_id": session(1)}
    memory = memory_of(
        *habit(), logged(artifact("old", hours=1, context_line="old"), 5),
        logged(artifact("here", hours=2, context_line="here", **here), 6),
    )  # fmt: skip
    assert lines(memory, moment(9), session(1)) == ["old", "here"]
    both = artifact("both", hours=0, context_line="both", source_signal_ids=[SIGNAL, OTHER])
    pair = memory_of(*habit(), seen(9, 1, 1, OTHER), logged(both, 10), logged(artifact("one", hours=2), 11))
    assert len(lines(pair, moment(9))) == 2
    pair.apply(logged(artifact("two", hours=3, source_signal_ids=[OTHER]), 12))
    assert "both" not in lines(pair, moment(9))


def test_a_person_closes_a_signals_gate_with_its_artifact_and_opens_it_again():
    one, two = artifact("one", hours=4), artifact("two", hours=300)
    memory = memory_of(*habit(), logged(one, 5), off(6, 5, one.artifact_id), seen(7, 400, 7))
    assert memory.artifacts.switched_off(SIGNAL, LOCAL, moment(400)) == one.artifact_id
    gate = memory.gate(SIGNAL, LOCAL, moment(400))
    assert not gate.crossed and gate.count == 6
    assert (
        memory.artifacts.switched_off(SIGNAL, LOCAL, moment(4))
        == ""
        == memory.artifacts.switched_off(SIGNAL, BOB, moment(400))
    )
    memory.apply(on(8, 401, one.artifact_id))
    assert memory.gate(SIGNAL, LOCAL, moment(402)).crossed
    memory.apply(logged(two, 9))
    memory.apply(off(10, 403, two.artifact_id))
    assert memory.artifacts.switched_off(SIGNAL, LOCAL, moment(404)) == two.artifact_id


def test_the_gate_of_a_statement_says_how_what_was_learned_of_it_stands():
    """In force without a gate only where it is: not before, and not where it is off, waits, is silent or has faded."""
    said = "explicit:abc"
    one = artifact(gate_snapshot=None, source_signal_ids=[said])
    name = one.artifact_id

    def reason(*facts, hours=10.0):
        return memory_of(seen(0, 0, signal_id=said), *facts).gate(said, LOCAL, moment(hours)).reason

    in_force = "stated by its principal, and so in force without a gate"
    assert reason().endswith("nothing that was learned of it is there")
    assert reason(logged(one, 1)).endswith(in_force)
    switched = reason(logged(one, 1), off(2, 5, name))
    assert "not in force: a person switched it off" in switched and f"hobus memory activate {name}" in switched
    assert reason(logged(one, 1), off(2, 5, name), on(3, 6, name)).endswith(in_force)
    rule = one.model_copy(update={"artifact_type": "constraint"})
    assert f"not in force: it waits for a person: `hobus memory confirm {name}`" in reason(logged(rule, 1))
    assert reason(logged(rule, 1), confirmed(2, 5, name)).endswith(in_force)
    assert f"the weight of {name} is 0" in reason(logged(one, 1), weighed(2, 5, 0.0, name))
    assert f"{name} has faded" in reason(logged(one, 1), hours=1_000_000)


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
            kind_of = "constraint" if number % 3 == 0 else "task_pattern"
            weight = 0.1 * (1 + number % 9)
            facts.append(logged(artifact(name, hours=hours, weight=weight, artifact_type=kind_of), len(facts)))
        elif kind in ("off", "on", "confirmed"):
            change = {"off": off, "on": on, "confirmed": confirmed}[kind]
            facts.append(change(len(facts), hours, artifact(name).artifact_id))
        else:
            facts.append(weighed(len(facts), hours, 0.2, artifact(name).artifact_id))
    return facts


FACTS = st.lists(
    st.tuples(
        st.sampled_from(["seen", "seen", "seen", "logged", "off", "on", "confirmed", "weight", "failed"]),
        st.integers(0, 400),
        st.integers(0, 9),
    ),
    max_size=25,
).map(_facts)
MODES = st.sampled_from([{}, BISTABLE])


def bytes_of(memory, as_of):
    """Every answer, as the wire has it."""
    answers = [
        *memory.signals(as_of, signal_id=None, principal=None, min_count=0, with_ids=True),
        *memory.artifacts.overlays(as_of, signal_id=None, principal=None, active_only=False),
        *memory.list_active_biases(as_of, principal=LOCAL, session_id=None),
        *(memory.gate(signal_id, LOCAL, as_of) for signal_id in SIGNALS),
    ]
    return [canonical_bytes(answer) for answer in answers], memory.counts(as_of)


@given(
    facts=FACTS,
    draw=st.randoms(use_true_random=False),
    mode=MODES,
    hours=st.integers(0, 450),
    seq=st.integers(-1, 25),
)
def test_the_state_does_not_depend_on_the_order_in_which_facts_arrive(facts, draw, mode, hours, seq):
    """The record's own sequence and event times decide, so that a rebuild gives the same bytes."""
    shuffled = list(facts)
    draw.shuffle(shuffled)
    as_of = moment(hours, seq)
    assert bytes_of(memory_of(*shuffled, **mode), as_of) == bytes_of(memory_of(*facts, **mode), as_of)


@given(facts=FACTS, cut=st.integers(0, 25), mode=MODES, hours=st.integers(0, 450))
def test_an_answer_as_of_a_moment_stays_the_same_for_ever(facts, cut, mode, hours):
    memory = memory_of(*facts[:cut], **mode)
    as_of = PointInTime(us(hours), min(cut, len(facts)) - 1)
    before = bytes_of(memory, as_of)
    for fact in facts[cut:]:
        memory.apply(fact)
        assert bytes_of(memory, as_of) == before


@given(facts=FACTS, mode=MODES, hours=st.integers(0, 6000), seq=st.integers(-1, 25))
def test_what_a_read_leaves_out_unseen_would_not_be_in_force(facts, mode, hours, seq):
    """With the index of fresh signals and without: the same lines, hours and months after the last event."""
    as_of = moment(hours, seq)
    quick, whole = memory_of(*facts, **mode), memory_of(*facts, **mode)
    whole._reach_us = inf
    whole._signals.present = lambda *_: Present(inf, [], -inf, late_us=0)
    assert [list(one.list_active_biases(as_of, principal=LOCAL, session_id=None)) for one in (quick, whole)] == [
        list(whole.list_active_biases(as_of, principal=LOCAL, session_id=None))
    ] * 2


def long_ago(count):
    """So many habits of a year ago, and one of now."""
    memory = memory_of()
    for number in range(count):
        name = f"tool:old{number}"
        memory.apply(seen(2 * number, number / 1000, 0, name))
        memory.apply(logged(artifact(name, hours=number / 1000, source_signal_ids=[name]), 2 * number + 1))
    memory.apply(seen(5000, 9000))
    memory.apply(logged(artifact("new", hours=9000), 5001))
    memory.apply(logged(artifact("newer", hours=9002), 5002))
    return memory


@pytest.mark.parametrize("hours", [9003, 9001])
def test_a_read_costs_what_is_fresh_and_not_what_ever_was(hours):
    few, many = long_ago(20), long_ago(500)
    assert len(lines(few, moment(hours))) == len(lines(many, moment(hours))) == 1
    costs = [steps_of(memory, lambda memory=memory: lines(memory, moment(hours))) for memory in (few, many)]
    assert costs[0] == costs[1]


@given(FACTS, st.integers(0, 450), st.integers(-1, 25))
def test_a_page_of_overlays_says_of_each_what_a_look_at_all_says(facts, hours, seq):
    as_of, memory = moment(hours, seq), memory_of(*facts)
    asked = {"signal_id": None, "active_only": False}
    states = [one.state for one in memory.artifacts.overlays(as_of, principal=None, **asked)]
    assert (len(states), states.count("active")) == memory.artifacts.counts(as_of)
    assert states == [one.state for one in memory.artifacts.overlays(as_of, principal=LOCAL, **asked)]
    assert list(memory.artifacts.overlays(as_of, principal=BOB, **asked)) == []


@pytest.mark.parametrize("as_of", [moment(2000), moment(2000, seq=1000)])
def test_a_page_of_ones_own_lines_costs_nothing_of_anothers(as_of):
    """Many of one principal, one of another who asks: one is looked at."""

    def cost(others):
        memory = memory_of(*[logged(artifact(str(number), hours=number), number) for number in range(others)])
        memory.apply(logged(artifact("theirs", principal=BOB), 1000))
        asked = {"signal_id": None, "active_only": False}
        return steps_of(memory, lambda: memory.artifacts.overlays(as_of, principal=BOB, **asked))

    assert cost(10) == cost(200)


@given(facts=FACTS, mode=MODES, hours=st.integers(0, 450), seq=st.integers(-1, 25))
def test_no_signal_has_two_lines_in_one_prompt(facts, mode, hours, seq):
    """At most one artifact per signal, and it is the newest of those that ever held; nothing pending or off is among them."""
    as_of = moment(hours, seq)
    memory = memory_of(*facts, **mode)
    shown = list(memory.list_active_biases(as_of, principal=LOCAL, session_id=None))
    signals = [signal_id for bias in shown for signal_id in bias.artifact.source_signal_ids]
    assert len(signals) == len(set(signals))
    there = list(memory.artifacts.overlays(as_of, signal_id=None, principal=LOCAL, active_only=False))
    active = {one.artifact.artifact_id for one in there if one.state == "active"}
    assert {bias.artifact.artifact_id for bias in shown} <= active
    assert all(one.artifact.enabled for one in there if one.state in ("active", "pending", "superseded"))
    assert list(memory.list_active_biases(as_of, principal=BOB, session_id=None)) == []
