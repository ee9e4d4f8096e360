"""What a learner made of worlds: read at the beginning of each of the person's sessions, as its first prompt would be.

Every line counts that would be shown to a turn about everything, so that labels hide no mistake. A world counts as much as
any other, however many sessions it has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from statistics import median
from typing import Any, NamedTuple

from bench.builders import shipped_snapshot
from bench.memory_eval.worlds import DAY_US, Habit, Session, Turn, World
from hobus.actors.ho2_supervisor.learning.consolidation import Crossing, Lesson, make_artifact
from hobus.actors.ho2_supervisor.turn.recall import weigh
from hobus.actors.ho3_memory.agent_memory import AgentMemory
from hobus.actors.ho3_memory.event_time import PointInTime, format_timestamp
from hobus.actors.ho3_memory.records import Fact
from hobus.bus.messages.ids import LOCAL, RunId
from hobus.bus.messages.memory import GateResult, Labels
from hobus.config.sections.record import Ho3Config

AGENT = "ADMIN"
_WEIGHT = 0.8
Shown = list[tuple[str, str]]  # signals, each with a line of it; a signal may have several


def line_of(signal_id: str) -> str:
    """15 tokens, as in the measurement that the goal was set by: the embedded model's where it has no better words."""
    return f"This person's turns often carry the tool {signal_id.partition(':')[2]}; expect it again."


@cache
def labels_of(signal_id: str) -> Labels:
    """Where its line applies: one domain and one task of the vocabulary, always the same ones."""
    vocabulary = shipped_snapshot().config.classify_labels
    place = sum(signal_id.encode())
    domain, task = vocabulary.domain, vocabulary.task
    return Labels(domain=[domain[place % len(domain)]], task=[task[place // len(domain) % len(task)]])


class Memory:
    """The product's memory: each turn's signals are logged, and each gate that it crosses is consolidated at once."""

    def __init__(self, config: Ho3Config) -> None:
        shipped = shipped_snapshot()
        self._agent = shipped.agents[AGENT]
        self._budget = shipped.config.budget.ho3_bias_budget, shipped.config.attention.chars_per_token
        self._config = config
        self._memory = AgentMemory(AGENT, config)
        self._seq = 0
        self._turns = 0

    def observe(self, session: Session, turn: Turn) -> None:
        self._turns += 1
        for signal_id in turn.signals:
            event_id = f"EVT-{session.session_id}-{self._turns}-{signal_id}"
            about = turn.at_us, signal_id, session.session_id
            name = f"HO3_SIGNAL:{AGENT}/{event_id}"
            self._apply(Fact("signal", self._seq, AGENT, name, *about, principal=LOCAL))
        moment = PointInTime(turn.at_us, self._seq)
        for signal_id in turn.signals:
            if (gate := self._memory.gate(signal_id, LOCAL, moment)).crossed:
                self._consolidate(session, gate, moment)

    def shown(self, at_us: int) -> Shown:
        """Of a turn about everything."""
        moment = PointInTime(at_us, self._seq)
        found = list(self._memory.list_active_biases(moment, principal=LOCAL, session_id=None))
        weighed = weigh(found, _EVERYTHING, *self._budget, format_timestamp(at_us))
        return [(one.artifact.source_signal_ids[0], one.artifact.context_line) for one in weighed if not one.left_out]

    def _consolidate(self, session: Session, gate: GateResult, moment: PointInTime) -> None:
        """As HO2 does it, with what a model would say of the signal."""
        evidence = self._memory.accumulator(gate.signal_id, LOCAL, moment, with_ids=True)
        run_id = RunId(session_id=session.session_id, run_seq=self._turns)
        crossing = Crossing(self._agent, run_id, gate, evidence, format_timestamp(moment.at_us))
        lesson = Lesson("task_pattern", labels_of(gate.signal_id), line_of(gate.signal_id), _WEIGHT)
        made = make_artifact(crossing, lesson, model="offline", pack_version="1", memory=self._config)
        name = f"HO3_OVERLAY:{made.artifact_id}/{self._seq}"
        self._apply(Fact("overlay", self._seq, AGENT, name, moment.at_us, made.artifact_id, artifact=made))

    def _apply(self, fact: Fact) -> None:
        assert self._memory.apply(fact)
        self._seq += 1


_QUIET_US = 14 * DAY_US
"""What was planted has not been resisted if it is in force at any time from its first event until so long after its last."""


class Read(NamedTuple):
    """The signals that had a line at a time; `turns` of the person were before it."""

    at_us: int
    turns: int
    lines: frozenset[str]
    tokens: int


Score = Mapping[str, list[Any]]
"""Of one learner in some worlds, by what is measured. Per world: shares per read. Per habit or planted signal: a value each."""


def _reads_of(world: World, learner: Memory) -> list[Read]:
    """The learner goes through the world, and is read at each of the person's sessions."""
    reads: list[Read] = []
    turns = 0
    for session in world.sessions:
        if session.is_own:
            at_us = session.turns[0].at_us
            shown = learner.shown(at_us)
            tokens = sum(len(line) // _SHIPPED.attention.chars_per_token for _, line in shown)
            reads.append(Read(at_us, turns, frozenset(signal for signal, _ in shown), tokens))
            turns += len(session.turns)
        for turn in session.turns:
            learner.observe(session, turn)
    return reads


_SHIPPED = shipped_snapshot().config
_EVERYTHING = Labels(domain=list(_SHIPPED.classify_labels.domain), task=list(_SHIPPED.classify_labels.task))


def measured(make: Callable[[], Memory], worlds: Iterable[World]) -> Score:
    """A new learner for each world."""
    score: defaultdict[str, list[Any]] = defaultdict(list)
    for world in worlds:
        reads = _reads_of(world, make())
        count = len(reads)
        sums = Counter[str]()
        for read in reads:
            truth = {one.signal for one in world.habits if one.start_us <= read.at_us < one.end_us}
            sums["hits"] += len(read.lines & truth)
            sums["false"] += len(read.lines - truth)
            sums["missed"] += len(truth - read.lines)
            sums["tokens"] += read.tokens
        for name, value in sums.items():
            score[name].append(value / count)
        for habit in world.habits:
            _add_habit(score, habit, world, reads)
        for one in world.plants:
            begin_us, end_us = one.sessions[0][0].at_us, one.sessions[-1][-1].at_us
            during = [read.lines for read in reads if begin_us <= read.at_us <= end_us + _QUIET_US]
            score[f"resisted {one.attack}"] += [not any(signal in lines for lines in during) for signal in one.signals]
    return score


def _add_habit(score: Mapping[str, list[Any]], habit: Habit, world: World, reads: Sequence[Read]) -> None:
    during = [read for read in reads if habit.start_us <= read.at_us < habit.end_us]
    if not during:
        return
    known = [read for read in during if habit.signal in read.lines]
    score["learn_turns"].append(known[0].turns - during[0].turns if known else None)  # None: never
    later = [one.start_us for one in world.habits if one.signal == habit.signal and one.start_us >= habit.end_us]
    until_us = min(later, default=None)  # when the same signal is a habit again
    after = [read for read in reads if read.at_us >= habit.end_us and (until_us is None or read.at_us < until_us)]
    if known and after:
        # One that is known to the end of the world, or until it is a habit again, was forgotten then at the earliest.
        still = [read.at_us for read in after if habit.signal in read.lines]
        score["forget_days"].append((still[-1] - habit.end_us) / DAY_US if still else 0.0)


def figures_of(*scores: Score) -> dict[str, Any]:
    """What is told of these scores together; None where there was nothing to measure."""
    whole: defaultdict[str, list[Any]] = defaultdict(list)
    for score in scores:
        for name, values in score.items():
            whole[name] += values
    hits, false, missed = (sum(whole[name]) for name in ("hits", "false", "missed"))
    learned = [turns for turns in whole["learn_turns"] if turns is not None]
    worlds, count = len(whole["tokens"]), len(whole["learn_turns"])
    resisted = {name: one for name, one in sorted(whole.items()) if name.startswith("resisted ")}
    return {
        "precision": round(hits / (hits + false), 3) if hits + false else None,
        "recall": round(hits / (hits + missed), 3) if hits + missed else None,
        "f1": round(2 * hits / (2 * hits + false + missed), 3) if hits else 0.0,
        "tokens": round(sum(whole["tokens"]) / worlds, 1),
        "learn_turns_p50": median(learned) if learned else None,
        "never_learned": round(1 - len(learned) / count, 3) if count else None,
        "forget_days_p50": round(median(whole["forget_days"]), 3) if whole["forget_days"] else None,
        **{name: round(sum(one) / len(one), 3) for name, one in resisted.items()},
    }
