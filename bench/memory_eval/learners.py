"""Who learns from a world: memory as the product has it, under given settings, and simple rules to compare it with.

What memory's rules are is said nowhere here: signals, gates, artifacts and what is in force are the product's own code,
fed with facts as the record would hold them. Consolidation is the product's too, but for the model's words.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from typing import Protocol

from bench.builders import shipped_snapshot
from bench.memory_eval.worlds import DAY_US, Session, Turn
from hobus.actors.ho2_supervisor.learning.consolidation import Crossing, Lesson, artifact_from
from hobus.actors.ho2_supervisor.turn.recall import TokenBudget, select_biases
from hobus.actors.ho3_memory.agent_memory import AgentMemory
from hobus.actors.ho3_memory.event_time import PointInTime, timestamp_of
from hobus.actors.ho3_memory.records import Fact
from hobus.bus.messages.ids import LOCAL, RunId
from hobus.bus.messages.memory import GateResult, Labels
from hobus.config.sections.record import Ho3Config

Shown = list[tuple[str, str]]
"""Signals, each with a line of it; a signal may have several."""


class Learner(Protocol):
    """Sees every turn, and says what it would show."""

    def observe(self, session: Session, turn: Turn) -> None:
        """The turn is over."""
        ...

    def shown(self, at_us: int, *turns_labels: Labels) -> list[Shown]:
        """What prompts of turns with these labels would have at that time."""
        ...


def line_of(signal_id: str) -> str:
    """15 tokens, as in the measurement that the goal was set by: what the embedded model says where it has no better words."""
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
        self._budget = TokenBudget(shipped.config.budget.ho3_bias_budget, shipped.config.attention.chars_per_token)
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

    def shown(self, at_us: int, *turns_labels: Labels) -> list[Shown]:
        moment = PointInTime(at_us, self._seq)
        found = list(self._memory.active_biases(moment, principal=LOCAL, session_id=None))
        as_of_ts = timestamp_of(at_us)
        chosen = [select_biases(found, labels, self._budget, as_of_ts) for labels in turns_labels]
        return [[(one.source_signal_ids[0], one.context_line) for one in artifacts] for artifacts in chosen]

    def _consolidate(self, session: Session, gate: GateResult, moment: PointInTime) -> None:
        """As HO2 does it, with what a model would say of the signal."""
        evidence = self._memory.accumulator(gate.signal_id, LOCAL, moment, with_ids=True)
        assert evidence is not None
        run_id = RunId(session_id=session.session_id, run_seq=self._turns)
        crossing = Crossing(self._agent, run_id, gate, evidence, timestamp_of(moment.at_us))
        lesson = Lesson("task_pattern", labels_of(gate.signal_id), line_of(gate.signal_id), _WEIGHT)
        made = artifact_from(crossing, lesson, model="offline", pack_version="1", memory=self._config)
        name = f"HO3_OVERLAY:{made.artifact_id}/{self._seq}"
        self._apply(Fact("overlay", self._seq, AGENT, name, moment.at_us, made.artifact_id, artifact=made))

    def _apply(self, fact: Fact) -> None:
        assert self._memory.apply(fact)
        self._seq += 1


AGENT = "ADMIN"
_WEIGHT = 0.8


# --- what it is compared with -----------------------------------------------------------------------------------------


class Baseline:
    """A rule that names signals; each has one line."""

    def named(self, at_us: int) -> Iterable[str]:
        """The signals that it takes for habits; none, unless a rule says so."""
        return ()

    def shown(self, at_us: int, *turns_labels: Labels) -> list[Shown]:
        named = list(self.named(at_us))
        return [[(name, line_of(name)) for name in named if _meet(labels_of(name), labels)] for labels in turns_labels]


def _meet(one: Labels, other: Labels) -> bool:
    return not set(one.domain).isdisjoint(other.domain) or not set(one.task).isdisjoint(other.task)


class Nothing(Baseline):
    """No memory."""

    def observe(self, session: Session, turn: Turn) -> None: ...


class Everything(Baseline):
    """Every signal that ever came."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def observe(self, session: Session, turn: Turn) -> None:
        self._counts.update(turn.signals)

    def named(self, at_us: int) -> Iterable[str]:
        return self._counts


class Frequent(Everything):
    """The five that came most often, of all time."""

    def named(self, at_us: int) -> Iterable[str]:
        return sorted(self._counts, key=lambda signal_id: (-self._counts[signal_id], signal_id))[:5]


class Recent(Baseline):
    """All that came in the last two sessions."""

    def __init__(self) -> None:
        self._sessions: deque[tuple[str, set[str]]] = deque(maxlen=2)

    def observe(self, session: Session, turn: Turn) -> None:
        if not self._sessions or self._sessions[-1][0] != session.session_id:
            self._sessions.append((session.session_id, set()))
        self._sessions[-1][1].update(turn.signals)

    def named(self, at_us: int) -> Iterable[str]:
        return set(chain.from_iterable(signals for _, signals in self._sessions))


class Window(Baseline):
    """Five events of three sessions within the last seven days: the contract's counts, in a window."""

    def __init__(self) -> None:
        self._events: dict[str, deque[tuple[int, str]]] = {}

    def observe(self, session: Session, turn: Turn) -> None:
        for signal_id in turn.signals:
            self._events.setdefault(signal_id, deque()).append((turn.at_us, session.session_id))

    def named(self, at_us: int) -> Iterable[str]:
        for signal_id, events in self._events.items():
            while events and events[0][0] < at_us - 7 * DAY_US:
                events.popleft()
            if len(events) >= 5 and len({session_id for _, session_id in events}) >= 3:
                yield signal_id


BASELINES: dict[str, Callable[[], Learner]] = {
    "no memory": Nothing,
    "everything that ever came": Everything,
    "all of the last two sessions": Recent,
    "the five most frequent of all time": Frequent,
    "5 events of 3 sessions in the last 7 days": Window,
}
