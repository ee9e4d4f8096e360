"""What memory gave to a turn: the lines shown and left out, with why, and how often its signals were seen. Pure.

The supervisor records what it shows, how that is ranked, and what it leaves out; what a person switched off stands in
an entry of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hobus.bus.dispatch import SaidBy
from hobus.bus.messages.ids import LOCAL
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.journal import recorded
from hobus.bus.record.payloads.memory import OverlayChange, OverlayWritten, SignalLogged
from hobus.bus.record.payloads.orders import ContextAssembled, SignalsNamed
from hobus.bus.record.session_facts import SessionStarted
from hobus.launch.console.output import counted
from hobus.launch.sessions.account import short
from hobus.launch.sessions.evidence import ERASED, Evidence, Rules, body_of, text_in

STREAMS = ("signals", "overlays")
"""Where memory's entries stand."""


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
    """None: it was erased."""
    reason: str


MemoryState = Literal["read", "shown_again", "off", "unasked", "silent"]
"""shown_again: as an order before showed it; off: by the turn's configuration; unasked: its template has no stage for
it; silent: it did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryShown:
    """What memory gave to the turn."""

    sequence: int
    state: MemoryState
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


def memory_shown(found: Evidence) -> MemoryShown | None:
    """Return what CONTEXT_ASSEMBLED names, with where it came from; None without one."""
    assembled = ((one, said) for one in found.turn if isinstance(said := body_of(one), ContextAssembled))
    entry, context = next(((one, said) for one, said in assembled if not said.contract_id), (None, None))
    if entry is None or context is None:
        return None
    known = _artifacts(found, entry.sequence if context.as_of_seq is None else context.as_of_seq)
    return MemoryShown(
        sequence=entry.sequence,
        state=_state(context, found.rules),
        as_of_ts=context.as_of_ts,
        as_of_seq=context.as_of_seq,
        shown_by=context.shown_by and short(context.shown_by),
        budget=context.budget,
        tokens_used=context.tokens_used,
        shown=tuple(
            _shown(one, text_in(entry, number) or ERASED, known.get(one[0]), found)
            for number, one in enumerate(_ranked(context), 1)
        ),
        left_out=tuple(_left_out(found, context, known)),
    )


def _ranked(context: ContextAssembled) -> list[tuple[str, float | None]]:
    """Return each line's artifact and rank; None: for lines that are shown again it is not recorded."""
    scores = context.scores or [None for _ in context.artifact_ids]
    return list(zip(context.artifact_ids, scores, strict=False))


def _state(context: ContextAssembled, rules: Rules | None) -> MemoryState:
    if context.as_of_seq is not None:
        return "read"
    if rules is not None and not rules.has_memory:
        return "off"
    if context.shown_by:
        return "shown_again"
    return "silent" if any(stage.type == "memory" for stage in context.stages) else "unasked"


def agent_of(turn: Sequence[Entry]) -> str:
    """Return the agent that a turn's entries name; empty: none of them does."""
    return next((one.provenance.agent_id for one in turn if one.provenance.agent_id), "")


def learned_in(found: Evidence, shown: MemoryShown | None) -> dict[str, int]:
    """Map each line to the HO3_OVERLAY that holds it: of the lines shown, and what stood before the turn ended."""
    last = max((one.sequence for one in found.turn), default=0)
    written = {one.line: one.sequence for one in _artifacts(found, last - 1).values() if one.line is not None}
    lines = () if shown is None else shown.shown
    return written | {one.line: one.sequence for one in lines if one.sequence is not None}


class _Artifact(NamedTuple):
    """An artifact as the record has it up to a moment."""

    sequence: int
    said: OverlayWritten
    line: str | None
    weight: float
    off: str = ""
    """Who switched it off; empty: nobody has, or it is on again."""


def _artifacts(found: Evidence, until: int) -> dict[str, _Artifact]:
    """Return the artifacts of the turn's agent, by id, in the order in which they were learned."""
    known: dict[str, _Artifact] = {}
    agent_id = agent_of(found.turn)
    for entry in found.memory:
        if entry.sequence > until or entry.provenance.agent_id != agent_id:
            continue
        match body_of(entry):
            case OverlayWritten(artifact_id=name) as said:
                off = known[name].off if name in known else ""
                known[name] = _Artifact(entry.sequence, said, text_in(entry), said.weight, off)
            case OverlayChange(artifact_id=name, principal=principal, door=door, new_weight=weight) if name in known:
                off = {"HO3_OVERLAY_DEACTIVATED": str(SaidBy(principal, door)), "HO3_OVERLAY_ACTIVATED": ""}
                one = known[name]._replace(off=off.get(entry.event_type, known[name].off))
                known[name] = one if weight is None else one._replace(weight=weight)
            case _:
                pass
    return known


def _shown(one: tuple[str, float | None], line: str, artifact: _Artifact | None, found: Evidence) -> LineShown:
    name, score = one
    return LineShown(
        artifact_id=name,
        line=line,
        tokens=len(line) // (1 if found.rules is None else found.rules.chars_per_token),
        weight=None if artifact is None else artifact.weight,
        score=score,
        signals=() if artifact is None else artifact.said.source_signal_ids,
        events=()
        if artifact is None
        else tuple(_events(artifact.said.source_event_ids, [*found.elsewhere, *found.memory])),
        sequence=None if artifact is None else artifact.sequence,
    )


def _events(event_ids: Sequence[str], memory: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    logged = {one.submission_id.partition("/")[2]: one for one in memory if one.event_type == "HO3_SIGNAL"}
    for event_id in event_ids:
        entry = logged.get(event_id)
        session_id = None if entry is None else entry.provenance.session_id
        yield {"event_id": event_id, "session_id": session_id, "sequence": None if entry is None else entry.sequence}


def _left_out(found: Evidence, context: ContextAssembled, known: Mapping[str, _Artifact]) -> Iterator[LineLeftOut]:
    """Yield what the supervisor left out, as it said; then what somebody switched off in its principal's memory."""
    if context.as_of_seq is None:
        return
    whose = (None, _principal(found.session))
    for name, why in context.left_out:
        artifact = known.get(name)
        yield LineLeftOut(
            artifact_id=name,
            line=None if artifact is None else artifact.line,
            reason=_reason(why, artifact, context),
        )
    for name, artifact in known.items():
        if artifact.off and artifact.said.principal in whose and name not in context.artifact_ids:
            yield LineLeftOut(artifact_id=name, line=artifact.line, reason=f"{artifact.off} switched it off")


def _reason(why: str, artifact: _Artifact | None, context: ContextAssembled) -> str:
    if why == "words":
        return "a line that is shown has the same words"
    if why == "earlier":
        return "it stands beside an earlier message that had it"
    if why == "room":
        return f"stronger lines left no room for it in {counted(context.budget, 'token')}"
    own = () if artifact is None else (*artifact.said.domain_labels, *artifact.said.task_labels)
    turns = (*context.domain_labels, *context.task_labels)
    return f"its labels are not the turn's: {', '.join(own) or 'none'} against {', '.join(turns) or 'none'}"


def _principal(session: Sequence[Entry]) -> str:
    for entry in session:
        taken = recorded(entry) if entry.event_type == "SESSION_START" else None
        if taken is not None and isinstance(taken.event.event, SessionStarted):
            return taken.event.event.principal
    return LOCAL


def gates_seen(found: Evidence) -> tuple[GateSeen, ...]:
    """Return how often each signal's principal gave it until then, and whether it crossed its gate."""
    logged = [(one, said) for one in found.turn if isinstance(said := body_of(one), SignalLogged)]
    named = [said for one in found.turn if isinstance(said := body_of(one), SignalsNamed)]
    crossed = {name for said in named for name in said.signal_ids}
    last, agent_id = max((one.sequence for one, _ in logged), default=0), agent_of(found.turn)
    sessions: dict[tuple[str, str], list[str]] = {}
    for entry in found.memory if logged else ():
        if entry.sequence <= last and entry.provenance.agent_id == agent_id:
            said = body_of(entry)
            if isinstance(said, SignalLogged):
                sessions.setdefault((said.signal_id, said.principal), []).append(entry.provenance.session_id)
    return tuple(_gate(one, said, sessions, crossed, found.of_signals) for one, said in logged)


def _gate(
    entry: Entry, said: SignalLogged, sessions: Mapping[tuple[str, str], list[str]], crossed: set[str], of: int | None
) -> GateSeen:
    seen = sessions.get((said.signal_id, said.principal), [])
    return GateSeen(
        signal_id=said.signal_id,
        sequence=entry.sequence,
        crossed=said.signal_id in crossed,
        count=len(seen),
        sessions=len(set(seen)),
        reason=f"of {counted(len(seen), 'event')} in {counted(len(set(seen)), 'session')} "
        + ("so far" if of is None else f"among the last {of:,} signals"),
    )
