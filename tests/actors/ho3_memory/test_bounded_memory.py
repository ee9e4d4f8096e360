"""What leaves RAM changes no answer: a memory that may keep next to nothing says what one says that keeps everything."""

import random

import pytest
from hypothesis import strategies as st

from hobus.actors.ho3_memory.agent_memory import AgentMemory
from hobus.actors.ho3_memory.event_time import PointInTime
from hobus.actors.ho3_memory.spill_file import SpillUnreadable
from hobus.bus.messages.base import canonical_bytes
from hobus.bus.messages.ids import LOCAL
from tests.actors.ho3_memory.builders import (
    AGENT,
    artifact,
    at,
    config,
    confirmed,
    failed,
    logged,
    moment,
    off,
    on,
    seen,
    session,
    us,
    weighed,
)
from tests.actors.ho3_memory.spilling import Spilling
from tests.laws import law

PRINCIPALS = (LOCAL, "key/bob", None)
SIGNALS = ("tool:a", "tool:b", "tool:c", "explicit:d")
CHANGES = {"off": off, "on": on, "confirmed": confirmed}
BISTABLE = {"gate_mode": "bistable", "gate_high": 3.0, "gate_low": 1.5, "evidence_half_life_hours": 48.0}
MODES = (
    {},
    {"bias_decay_floor": 0.0},
    {"shared_types": ["task_pattern", "constraint"], "gate_principal_threshold": 2},
    BISTABLE,
    BISTABLE | {"shared_types": ["task_pattern"], "known_events_max": 3},
)
LATEST_HOURS = 500
KINDS = ("seen", "seen", "seen", "logged", "logged", "off", "on", "confirmed", "weight", "failed")


def facts_of(drawn):
    """Facts of every kind in this order of the log; a change is of an artifact that was logged before it."""
    facts, known = [], []
    for kind, hours, number in drawn:
        seq, signal_id, principal = len(facts), SIGNALS[number % 4], PRINCIPALS[number % 3]
        if kind == "seen":
            facts.append(seen(seq, hours, number % 5, signal_id, principal=principal or LOCAL))
        elif kind == "failed":
            texts = {"refused": "too long", "line": f"line {number}"} if number % 2 else {}
            facts.append(failed(seq, hours, signal_id, principal, **texts))
        elif kind == "logged" or not known:
            made = _artifact(hours, number, principal)
            known.append(made.artifact_id)
            facts.append(logged(made, seq))
        else:
            name = known[number % len(known)]
            facts.append(weighed(seq, hours, 0.2, name) if kind == "weight" else CHANGES[kind](seq, hours, name))
    return facts


def _artifact(hours, number, principal):
    """One of a few per principal, so that some are logged again; of one signal or two, of a session or not."""
    signals = [SIGNALS[number % 4]] if number % 5 else [SIGNALS[number % 4], SIGNALS[(number + 1) % 4]]
    changed = {"scope": "session", "session_id": session(number % 5)} if number % 7 == 0 else {}
    return artifact(
        f"{number % 6}",
        hours=hours,
        principal=principal,
        weight=0.1 * (number % 4),
        artifact_type="constraint" if number % 3 == 1 else "task_pattern",
        context_line=f"Line {number % 2}.",
        expires_at_event_ts=at(hours + 50) if number % 4 == 1 else None,
        source_signal_ids=signals,
        gate_snapshot=None if "explicit:d" in signals else artifact().gate_snapshot,
        **changed,
    )


FACTS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 400), st.integers(0, 60)), max_size=30).map(facts_of)
QUESTIONS = 12
MOMENTS = [
    *(PointInTime(us(LATEST_HOURS), 10_000) for _ in range(3)), moment(150), moment(250), moment(400, 12),
    moment(LATEST_HOURS, 20),
]  # fmt: skip
"""Few, so that one is asked about again after what was told meanwhile; mostly the latest."""
ASKED = st.lists(st.tuples(st.integers(0, 30), st.integers(0, QUESTIONS - 1), st.sampled_from(MOMENTS)), max_size=60)


def answer(memory, question, as_of):
    """One question's answer, as the wire has it."""
    principal, signal_id = PRINCIPALS[question % 3], SIGNALS[question % 4]
    asked = {"signal_id": None, "principal": None}
    match question:
        case 0 | 1:
            return said(memory.active_biases(as_of, principal=principal or LOCAL, session_id=session(question)))
        case 2:
            return said(memory.signals(as_of, min_count=2, with_ids=True, **asked))
        case 3:
            return said(memory.signals(as_of, min_count=0, with_ids=False, after="tool:a", **asked))
        case 4:
            return said(memory.artifacts.overlays(as_of, active_only=False, **asked))
        case 5:
            return said(memory.artifacts.overlays(as_of, active_only=True, after=3, **asked))
        case 6:
            return said(memory.artifacts.overlays(as_of, active_only=False, signal_id=signal_id, principal=principal))
        case 7:
            return memory.counts(as_of), memory.failure_times(signal_id, principal), memory.event_count
        case 8:
            return said([*memory.artifacts.pending(as_of, None), *memory.quarantined(as_of, principal)])
        case 9:
            gates = [memory.gate(one, whose, as_of) for one in SIGNALS for whose in PRINCIPALS]
            return said(gates), [memory.principal_count(one, as_of) for one in SIGNALS]
        case 10:
            gates = [memory.open_gate(one, whose, as_of) for one in SIGNALS for whose in PRINCIPALS if whose]
            return said(gates), memory.origins([f"EVT-{session(0)}-{n}-{s}" for n in range(30) for s in SIGNALS])
        case _:
            found = memory.accumulator(signal_id, principal, as_of, with_ids=True)
            return said([] if found is None else [found])


def said(answers):
    """Bytes of each."""
    return [canonical_bytes(one) for one in answers]


def compare(facts, asked, mode, residence):
    """Both memories get these facts in this order, and are asked in between and at the end."""
    rules = config(**MODES[mode])
    whole, small = AgentMemory(AGENT, rules), AgentMemory(AGENT, rules, residence)
    for number, one in enumerate(facts):
        assert whole.apply(one) == small.apply(one)
        for _, question, as_of in (one for one in asked if one[0] == number):
            assert answer(small, question, as_of) == answer(whole, question, as_of), question
    for question in range(QUESTIONS):
        for as_of in {*MOMENTS, moment(LATEST_HOURS, len(facts) // 2)}:
            assert answer(small, question, as_of) == answer(whole, question, as_of), question
    assert not any(small.apply(one) for one in facts)
    for one in facts:
        if one.kind not in ("signal", "overlay", "failure"):
            assert small.has_change(one.about, one.submission_id)
        assert small.has_failure(one.submission_id) == (one.kind == "failure")


@law(20, 200, facts=FACTS, asked=ASKED, mode=st.integers(0, len(MODES) - 1), draw=st.randoms(use_true_random=False))
def test_what_is_out_of_ram_is_answered_as_if_it_were_there(facts, asked, mode, draw):
    """Whatever is told in whatever order, and whatever is asked in between, as of now and of any earlier moment."""
    if draw.random() < 0.3:
        draw.shuffle(facts)
    residence = Spilling()
    compare(facts, asked, mode, residence)
    assert residence.here_count <= 1 and not residence.faults


@law(20, 200, facts=FACTS, asked=ASKED, mode=st.integers(0, len(MODES) - 1), capacity_bytes=st.integers(0, 6000))
def test_on_a_full_disk_the_rest_stays_in_ram(facts, asked, mode, capacity_bytes):
    """Some goes out, some does not; the answers are the same."""
    residence = Spilling(capacity_bytes=capacity_bytes)
    compare(facts, asked, mode, residence)
    assert not residence.faults


def drawn(seed, count):
    """So many facts and questions of a seed."""
    draw = random.Random(seed)
    facts = facts_of([(draw.choice(KINDS), draw.randint(0, 400), draw.randint(0, 60)) for _ in range(count)])
    asked = [(draw.randrange(count), draw.randrange(QUESTIONS), draw.choice(MOMENTS)) for _ in range(count)]
    return facts, asked


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_long_life_out_of_ram(seed):
    """Hundreds of facts and questions, with next to no budget and with one that holds half of it."""
    facts, asked = drawn(seed, 400)
    for bytes_max in (0, 40_000):
        compare(facts, asked, seed % len(MODES), Spilling(bytes_max))


@pytest.mark.parametrize("seed", range(2))
def test_the_spill_file_does_not_grow_while_things_go_out_and_come_in(seed):
    """After a first round of questions it has all the room that it needs."""
    facts, asked = drawn(seed, 50)
    residence = Spilling()
    memory = AgentMemory(AGENT, config(**MODES[seed]), residence)
    for one in facts:
        memory.apply(one)
    sizes = []
    for _ in range(4):
        for _, question, as_of in asked:
            answer(memory, question, as_of)
        sizes.append(len(residence.content))
    assert sizes[0] == sizes[-1] > 0


@pytest.mark.parametrize("seed", range(8))
def test_a_changed_byte_is_never_answered_from(seed):
    """Each question is answered rightly, or ends with the fault that ends the process."""
    draw = random.Random(seed)
    facts, asked = drawn(seed, 60)
    rules, residence = config(**MODES[seed % len(MODES)]), Spilling()
    whole, small = AgentMemory(AGENT, rules), AgentMemory(AGENT, rules, residence)
    for one in facts:
        whole.apply(one)
        small.apply(one)
    for place in range(0, len(residence.content), 7):
        residence.content[place] ^= 1 << draw.randrange(8)
    faults = 0
    for _, question, as_of in asked:
        try:
            assert answer(small, question, as_of) == answer(whole, question, as_of)
        except SpillUnreadable:
            faults += 1
    assert faults and len(residence.faults) == 1


def test_a_disk_that_fails_is_never_answered_from():
    """EIO at a read: the fault, told once."""
    facts, _ = drawn(1, 40)
    residence = Spilling()
    memory = AgentMemory(AGENT, config(), residence)
    for one in facts:
        memory.apply(one)
    residence.disk.kill()
    for _ in range(2):
        with pytest.raises(SpillUnreadable):
            answer(memory, 4, moment(LATEST_HOURS))
    assert len(residence.faults) == 1 and residence.fault is residence.faults[0]
