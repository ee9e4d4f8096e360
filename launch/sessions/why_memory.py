"""What memory had when a turn was answered: the lines shown, those that were not with the reason, its gates. Pure.

It is worked out by memory's own rules as of the moment that the turn read it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hobus.actors.ho2_supervisor.turn.recall import TokenBudget, score, select_biases
from hobus.actors.ho3_memory.agent_memory import AgentMemory
from hobus.actors.ho3_memory.event_time import PointInTime, micros
from hobus.actors.ho3_memory.overlay_log import is_stated
from hobus.actors.ho3_memory.records import fact_of
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import LOCAL, words_of
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.memory import Bias, Labels, Overlay
from hobus.bus.record.journal import recorded
from hobus.bus.record.payloads.memory import SignalLogged
from hobus.bus.record.payloads.orders import ContextAssembled
from hobus.bus.record.session_facts import SessionStarted
from hobus.bus.said_by import SaidBy
from hobus.config.snapshot import Snapshot
from hobus.launch.sessions.account import short
from hobus.launch.sessions.evidence import ERASED, Evidence, body_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShown:
    """A line of memory in a prompt."""

    artifact_id: str
    line: str
    tokens: int
    weight: float | None
    score: float | None
    signals: tuple[str, ...]
    events: tuple[dict[str, Any], ...]
    """Each event behind it: id, session, sequence of its entry (None: not in this record)."""
    sequence: int | None
    """Of the entry that made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineLeftOut:
    """A line that memory had and the prompt did not show."""

    artifact_id: str
    line: str | None
    """None: it is another principal's."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryShown:
    """What memory gave to the turn."""

    sequence: int
    state: Literal["read", "shown_again", "off", "silent"]
    """shown_again: as an order before showed it; off: by the turn's configuration; silent: it did not answer."""
    as_of_ts: str
    as_of_seq: int | None
    shown_by: str
    """As an order before showed it, by its short id; empty: it was read for this turn."""
    budget: int
    tokens_used: int
    shown: tuple[LineShown, ...]
    left_out: tuple[LineLeftOut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSeen:
    """How far a signal of the turn was from being learned, behind it."""

    signal_id: str
    sequence: int
    crossed: bool
    count: int
    sessions: int
    reason: str


def memory_of(found: Evidence, snapshot: Snapshot | None) -> AgentMemory | None:
    """The agent's memory as its record makes it; None without the rules that it went by."""
    rules = None if snapshot is None else snapshot.config.ho3
    agent_id = next((one.provenance.agent_id for one in found.turn if one.provenance.agent_id), "")
    if rules is None or not agent_id:
        return None
    memory = AgentMemory(agent_id, rules)
    for entry in found.memory:
        try:
            fact = fact_of(entry.sequence, entry)
        except (ValueError, TypeError, LookupError, RuntimeFault):
            continue
        if fact is not None and fact.agent_id == agent_id:
            memory.apply(fact)
    return memory


def memory_shown(found: Evidence, memory: AgentMemory | None, snapshot: Snapshot | None) -> MemoryShown | None:
    """What CONTEXT_ASSEMBLED names, with where it came from; None without one."""
    assembled = ((one, said) for one in found.turn if isinstance(said := body_of(one), ContextAssembled))
    entry, context = next(((one, said) for one, said in assembled if not said.contract_id), (None, None))
    if entry is None or context is None:
        return None
    budget = TokenBudget(context.budget, 1 if snapshot is None else snapshot.config.attention.chars_per_token)
    as_of = PointInTime(micros(context.as_of_ts), -1 if context.as_of_seq is None else context.as_of_seq)
    whose = _Whose(entry.provenance.session_id, _principal(found.session))
    in_force = [] if memory is None else _in_force(memory, as_of, whose)
    stored = (
        []
        if memory is None
        else list(memory.artifacts.overlays(as_of, signal_id=None, principal=None, active_only=False))
    )
    lines = [ERASED if line is None else line.decode("utf-8", "replace") for line in entry.bodies[1:]]
    sources = _Sources(found.memory, in_force, stored, context.as_of_ts)
    return MemoryShown(
        sequence=entry.sequence,
        state=_state(context, snapshot),
        as_of_ts=context.as_of_ts,
        as_of_seq=context.as_of_seq,
        shown_by=context.shown_by and short(context.shown_by),
        budget=context.budget,
        tokens_used=context.tokens_used,
        shown=tuple(
            sources.line(artifact_id, line, budget.cost(line))
            for artifact_id, line in zip(context.artifact_ids, lines, strict=False)
        ),
        left_out=tuple(_left_out(context, memory, as_of, whose, budget)),
    )


def _state(context: ContextAssembled, snapshot: Snapshot | None) -> Literal["read", "shown_again", "off", "silent"]:
    if context.as_of_seq is not None:
        return "read"
    if snapshot is not None and snapshot.config.memory is None:
        return "off"
    return "shown_again" if context.shown_by else "silent"


def learned_in(found: Evidence, shown: MemoryShown | None) -> dict[str, int]:
    """Line -> sequence of the HO3_OVERLAY that holds it: of the lines shown, and what stood before the turn ended."""
    agent_id = next((one.provenance.agent_id for one in found.turn if one.provenance.agent_id), "")
    last = max((one.sequence for one in found.turn), default=-1)
    written = {
        one.bodies[1].decode("utf-8", "replace"): one.sequence
        for one in found.memory
        if one.event_type == "HO3_OVERLAY" and one.provenance.agent_id == agent_id and one.sequence < last
        and len(one.bodies) > 1 and one.bodies[1] is not None
    }  # fmt: skip
    lines = () if shown is None else shown.shown
    return written | {one.line: one.sequence for one in lines if one.sequence is not None}


class _Whose(NamedTuple):
    """Whose memory a turn reads."""

    session_id: str
    principal: str


def _principal(session: Sequence[Entry]) -> str:
    """Of a session: its start names it."""
    for entry in session:
        taken = recorded(entry) if entry.event_type == "SESSION_START" else None
        if taken is not None and isinstance(taken.event.event, SessionStarted):
            return taken.event.event.principal
    return LOCAL


def _in_force(memory: AgentMemory, as_of: PointInTime, whose: _Whose) -> list[Bias]:
    return list(memory.active_biases(as_of, principal=whose.principal, session_id=whose.session_id))


class _Sources:
    """What the lines of a turn rest on."""

    def __init__(
        self, entries: Sequence[Entry], in_force: Sequence[Bias], stored: Sequence[Overlay], as_of_ts: str
    ) -> None:
        self._biases = {one.artifact.artifact_id: one for one in in_force}
        self._stored = {one.artifact.artifact_id: one.artifact for one in stored}
        self._made = {
            getattr(body_of(one), "artifact_id", ""): one for one in entries if one.event_type == "HO3_OVERLAY"
        }
        self._events = {one.submission_id.partition("/")[2]: one for one in entries if one.event_type == "HO3_SIGNAL"}
        self._as_of_ts = as_of_ts

    def line(self, artifact_id: str, line: str, tokens: int) -> LineShown:
        """One line with the events behind it."""
        bias, made = self._biases.get(artifact_id), self._made.get(artifact_id)
        artifact = self._stored.get(artifact_id)
        return LineShown(
            artifact_id=artifact_id,
            line=line,
            tokens=tokens,
            weight=None if artifact is None else artifact.weight,
            score=None if bias is None else score(bias, self._as_of_ts),
            signals=() if artifact is None else tuple(artifact.source_signal_ids),
            events=() if artifact is None else tuple(map(self._event, artifact.source_event_ids)),
            sequence=None if made is None else made.sequence,
        )

    def _event(self, event_id: str) -> dict[str, Any]:
        entry = self._events.get(event_id)
        return {
            "event_id": event_id,
            "session_id": None if entry is None else entry.provenance.session_id,
            "sequence": None if entry is None else entry.sequence,
        }


def _left_out(
    context: ContextAssembled, memory: AgentMemory | None, as_of: PointInTime, whose: _Whose, budget: TokenBudget
) -> Iterable[LineLeftOut]:
    """Every artifact of the agent that was there and not shown, and the first reason for it."""
    if memory is None or context.as_of_seq is None:
        return
    labels = Labels(domain=list(context.domain_labels), task=list(context.task_labels))
    in_force = {one.artifact.artifact_id: one for one in _in_force(memory, as_of, whose)}
    matching = {name for name, one in in_force.items() if select_biases([one], labels, _UNBOUND, context.as_of_ts)}
    shown = {words_of(in_force[name].artifact.context_line): name for name in context.artifact_ids if name in in_force}
    for overlay in memory.artifacts.overlays(as_of, signal_id=None, principal=None, active_only=False):
        artifact = overlay.artifact
        if artifact.artifact_id in context.artifact_ids:
            continue
        line: str | None = artifact.context_line
        if artifact.artifact_id not in in_force:
            reason, is_anothers = _not_in_force(overlay, memory, as_of, whose)
            line = None if is_anothers else line
        elif artifact.artifact_id not in matching:
            reason = f"its labels are not the turn's: {_named(artifact.labels)} against {_named(labels)}"
        elif (twin := shown.get(words_of(artifact.context_line))) is not None:
            reason = f"the line of {twin}, which is shown, has the same words"
        else:
            cost = budget.cost(artifact.context_line)
            reason = f"it takes {cost} tokens, and stronger lines left no room for them in {budget.tokens}"
        yield LineLeftOut(artifact_id=artifact.artifact_id, line=line, reason=reason)


_UNBOUND = TokenBudget(sys.maxsize, 1)
_STATES = {
    "off": "{} switched it off",
    "pending": "it waits for a person: `hobus memory review`",
    "silent": "its weight is 0",
    "superseded": "a newer artifact of its signals, or a rule of its words, stands in its place",
}


def _not_in_force(overlay: Overlay, memory: AgentMemory, as_of: PointInTime, whose: _Whose) -> tuple[str, bool]:
    """The first reason, and whether it is that the line is another's: that one's words are not told."""
    artifact = overlay.artifact
    if artifact.principal not in (None, whose.principal):
        return f"it is {artifact.principal}'s own", True
    if overlay.state in _STATES:
        said = next((one for one in overlay.changes[::-1] if "DEACTIVATED:" in one.entry_id), None)
        who = "a person" if said is None else SaidBy(said.principal, said.door)
        return _STATES[overlay.state].format(who), False
    if overlay.state == "expired":
        return f"it expired at {artifact.expires_at_event_ts}", False
    if artifact.scope == "session" and artifact.session_id != whose.session_id:
        return "it holds in another session alone", False
    behind = [memory.weighed(one, principal=artifact.principal, as_of=as_of) for one in artifact.source_signal_ids]
    if not is_stated(artifact) and not any(is_open for _, is_open in behind):
        return "the evidence behind it has faded: its gates have closed again", False
    return f"what it rests on has faded to {max((share for share, _ in behind), default=0.0):.3f}", False


def _named(labels: Labels) -> str:
    return ", ".join([*labels.domain, *labels.task]) or "none"


def gates_seen(found: Evidence, memory: AgentMemory | None) -> tuple[GateSeen, ...]:
    """Of each signal of the turn, as of its own event."""
    logged = [(one, said) for one in found.turn if isinstance(said := body_of(one), SignalLogged)]
    if memory is None or not logged:
        return ()
    last = max(one.sequence for one, _ in logged)
    seen: list[GateSeen] = []
    for one, said in logged:
        gate = memory.open_gate(said.signal_id, said.principal, PointInTime(micros(said.at), last))
        seen.append(
            GateSeen(
                signal_id=said.signal_id,
                sequence=one.sequence,
                crossed=gate.crossed,
                count=gate.count,
                sessions=gate.session_count,
                reason=gate.reason,
            )
        )
    return tuple(seen)
