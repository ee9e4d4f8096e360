"""What memory gave to a turn: the lines shown and left out, with why; and which signals the turn gave it. Pure.

The supervisor records what it shows, how that is ranked, and what it leaves out; what a person switched off stands in
an entry of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from hobus.bus.dispatch import SaidBy
from hobus.bus.messages.ids import LOCAL
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.journal import read_principal
from hobus.bus.record.payloads.memory import OverlayChange, OverlayWritten, SignalLogged
from hobus.bus.record.payloads.orders import ContextAssembled, SignalsNamed
from hobus.launch.console.output import format_count
from hobus.launch.sessions.evidence import ERASED, Evidence, Rules, Seen, decode_body, read_text

STREAMS = ("signals", "overlays")
"""Where memory's entries stand."""


MemoryState = Literal["read", "shown_again", "off", "unasked", "silent"]
"""shown_again: as an order before showed it; off: by the turn's configuration; unasked: its template has no stage for
it; silent: it did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedLine:
    """A line of memory that a prompt showed, or that memory had and the prompt did not show."""

    artifact_id: str
    text: str | None
    """None: it was erased."""
    reason: str = ""
    """Why it was not shown; empty: it was."""
    score: float | None = None
    signals: tuple[str, ...]
    events: dict[str, int | None]
    """Each event that it rests on -> sequence of its entry; None: not in this record."""
    sequence: int | None
    """Of the entry that made it; None: not in this record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryShown:
    """What memory gave to the turn."""

    sequence: int
    state: MemoryState
    said: ContextAssembled
    """Up to when it was read, and within which budget."""
    lines: tuple[LearnedLine, ...]

    @property
    def shown(self) -> list[LearnedLine]:
        return [one for one in self.lines if not one.reason]


class SignalSeen(NamedTuple):
    """A signal that the turn gave."""

    signal_id: str
    sequence: int
    crossed: bool
    """Whether its gate was crossed behind this turn."""
    events: int
    """How often its principal gave it by then, in the signals that were read."""
    sessions: int


def memory_shown(found: Evidence, turn: Iterable[Seen]) -> MemoryShown | None:
    """Return what CONTEXT_ASSEMBLED names, with where it came from; None without one."""
    assembled = [(one.entry, one.said) for one in turn if isinstance(one.said, ContextAssembled)]
    entry, context = next(((one, said) for one, said in assembled if not said.contract_id), (None, None))
    if entry is None or context is None:
        return None
    known = _artifacts(found, entry.sequence if context.as_of_seq is None else context.as_of_seq)
    return MemoryShown(
        sequence=entry.sequence,
        state=_state(context, found.rules),
        said=context._replace(beside=(), stages=(), fragments=()),
        lines=(*_shown(entry, context, known, found), *_left_out(context, known, found)),
    )


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
    return written | {one.text: one.sequence for one in lines if one.text is not None and one.sequence is not None}


class _Artifact(NamedTuple):
    """An artifact as the record has it up to a moment."""

    sequence: int
    said: OverlayWritten
    line: str | None
    off: str = ""
    """Who switched it off; empty: nobody has, or it is on again."""


def _artifacts(found: Evidence, until: int) -> dict[str, _Artifact]:
    """Return the artifacts of the turn's agent, by id, in the order in which they were learned."""
    known: dict[str, _Artifact] = {}
    agent_id = agent_of(found.turn)
    for entry in found.memory:
        if entry.sequence > until or entry.provenance.agent_id != agent_id:
            continue
        match decode_body(entry):
            case OverlayWritten(artifact_id=name) as said:
                off = known[name].off if name in known else ""
                known[name] = _Artifact(entry.sequence, said, read_text(entry), off)
            case OverlayChange(artifact_id=name, principal=principal, door=door) if name in known:
                off = {"HO3_OVERLAY_DEACTIVATED": str(SaidBy(principal, door)), "HO3_OVERLAY_ACTIVATED": ""}
                known[name] = known[name]._replace(off=off.get(entry.event_type, known[name].off))
            case _:
                pass
    return known


def _behind(artifact: _Artifact | None, found: Evidence) -> dict[str, Any]:
    """Return what an artifact rests on, and the entry that made it."""
    if artifact is None:
        return {"signals": (), "events": {}, "sequence": None}
    logged = {one.submission_id.partition("/")[2]: one.sequence for one in (*found.elsewhere, *found.memory)}
    events = {event: logged.get(event) for event in artifact.said.source_event_ids}
    return {"signals": artifact.said.source_signal_ids, "events": events, "sequence": artifact.sequence}


def _shown(
    entry: Entry, context: ContextAssembled, known: Mapping[str, _Artifact], found: Evidence
) -> Iterator[LearnedLine]:
    """Yield the lines that the prompt shows; of lines that are shown again no score is recorded."""
    for number, (name, score) in enumerate(zip_longest(context.artifact_ids, context.scores), 1):
        text, behind = read_text(entry, number) or ERASED, _behind(known.get(name), found)
        yield LearnedLine(artifact_id=name, text=text, score=score, **behind)


def _left_out(context: ContextAssembled, known: Mapping[str, _Artifact], found: Evidence) -> Iterator[LearnedLine]:
    """Yield what the supervisor left out, as it said; then what somebody switched off in its principal's memory."""
    if context.as_of_seq is None:
        return
    started = (read_principal(one) for one in found.session if one.event_type == "SESSION_START")
    whose = (None, next(filter(None, started), LOCAL))
    for name, why in context.left_out:
        artifact = known.get(name)
        text, reason = None if artifact is None else artifact.line, _reason(why, artifact, context)
        yield LearnedLine(artifact_id=name, text=text, reason=reason, **_behind(artifact, found))
    for name, artifact in known.items():
        if artifact.off and artifact.said.principal in whose and name not in context.artifact_ids:
            reason, behind = f"{artifact.off} switched it off", _behind(artifact, found)
            yield LearnedLine(artifact_id=name, text=artifact.line, reason=reason, **behind)


def _reason(why: str, artifact: _Artifact | None, context: ContextAssembled) -> str:
    if why == "words":
        return "a shown line has the same words"
    if why == "earlier":
        return "an earlier message of the prompt has it already"
    if why == "room":
        return f"stronger lines left no room for it in {format_count(context.budget, 'token')}"
    own = () if artifact is None else (*artifact.said.domain_labels, *artifact.said.task_labels)
    turns = (*context.domain_labels, *context.task_labels)
    return f"its labels are not the turn's: {', '.join(own) or 'none'} against {', '.join(turns) or 'none'}"


def signals_in(turn: Sequence[Seen], found: Evidence) -> tuple[SignalSeen, ...]:
    """Return each signal that the turn gave, how often its principal gave it by then, and if its gate opened."""
    crossed = {name for one in turn if isinstance(one.said, SignalsNamed) for name in one.said.signal_ids}
    logged = [(one.entry.sequence, one.said) for one in turn if isinstance(one.said, SignalLogged)]
    last, agent_id = max((sequence for sequence, _ in logged), default=-1), agent_of(found.turn)
    sessions: dict[tuple[str, str], list[str]] = {}
    for entry in found.memory:
        said = decode_body(entry) if entry.sequence <= last and entry.provenance.agent_id == agent_id else None
        if isinstance(said, SignalLogged):
            sessions.setdefault((said.signal_id, said.principal), []).append(entry.provenance.session_id)
    seen = [(sequence, one.signal_id, sessions.get((one.signal_id, one.principal), [])) for sequence, one in logged]
    return tuple(SignalSeen(name, at, name in crossed, len(given), len(set(given))) for at, name, given in seen)
