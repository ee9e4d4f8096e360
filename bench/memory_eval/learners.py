"""Who learns from a world: memory as the product has it, under given settings.

What memory's rules are is said nowhere here: signals, gates, artifacts and what is in force are the product's own code,
fed with facts as the record would hold them. Consolidation is the product's too, but for the model's words.
"""

from __future__ import annotations

from functools import cache

from bench.builders import shipped_snapshot
from bench.memory_eval.worlds import Session, Turn
from hobus.actors.ho2_supervisor.learning.consolidation import Crossing, Lesson, make_artifact
from hobus.actors.ho2_supervisor.turn.recall import TokenBudget, select_biases
from hobus.actors.ho3_memory.agent_memory import AgentMemory
from hobus.actors.ho3_memory.event_time import PointInTime, format_timestamp
from hobus.actors.ho3_memory.records import Fact
from hobus.bus.messages.ids import LOCAL, RunId
from hobus.bus.messages.memory import GateResult, Labels
from hobus.config.sections.record import Ho3Config

Shown = list[tuple[str, str]]
"""Signals, each with a line of it; a signal may have several."""


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
        found = list(self._memory.list_active_biases(moment, principal=LOCAL, session_id=None))
        as_of_ts = format_timestamp(at_us)
        chosen = [select_biases(found, labels, self._budget, as_of_ts) for labels in turns_labels]
        return [[(one.source_signal_ids[0], one.context_line) for one in artifacts] for artifacts in chosen]

    def _consolidate(self, session: Session, gate: GateResult, moment: PointInTime) -> None:
        """As HO2 does it, with what a model would say of the signal."""
        evidence = self._memory.accumulator(gate.signal_id, LOCAL, moment, with_ids=True)
        assert evidence is not None
        run_id = RunId(session_id=session.session_id, run_seq=self._turns)
        crossing = Crossing(self._agent, run_id, gate, evidence, format_timestamp(moment.at_us))
        lesson = Lesson("task_pattern", labels_of(gate.signal_id), line_of(gate.signal_id), _WEIGHT)
        made = make_artifact(crossing, lesson, model="offline", pack_version="1", memory=self._config)
        name = f"HO3_OVERLAY:{made.artifact_id}/{self._seq}"
        self._apply(Fact("overlay", self._seq, AGENT, name, moment.at_us, made.artifact_id, artifact=made))

    def _apply(self, fact: Fact) -> None:
        assert self._memory.apply(fact)
        self._seq += 1


AGENT = "ADMIN"
_WEIGHT = 0.8
