"""Journal entries of session events: submission ids, once keys, and what follows what. Pure.

Body 0 of an entry is the event (`bus.record.journal`); further bodies are texts and documents that it names by ref.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from hobus.actors.ho2_supervisor.session.state import SessionState
from hobus.bus.messages.ids import completed_id, entry_id
from hobus.bus.messages.ledger import Entry, Provenance, WriteEntry, session_stream
from hobus.bus.messages.session import ENTRY_NAMES, SessionEvent, SessionEventKind
from hobus.bus.record.journal import pack_event


def input_digest(input_id: str, text: str) -> str:
    """Tells a retry from a conflict without showing the text; the input id is its salt."""
    return hashlib.sha256(f"{input_id}\n{text}".encode()).hexdigest()


def entry_name(kind: str) -> str:
    """The event_type of this event kind's entry."""
    return ENTRY_NAMES.get(kind, kind)


def counted_id(kind: str, session_id: str, tenure: int, number: int) -> str:
    """`<event type>:<session>/<tenure>.<n-th append of that tenure>`."""
    return f"{entry_name(kind)}:{session_id}/{tenure}.{number}"


def derived_id(session_id: str, event: SessionEventKind, run: object) -> str | None:
    """The submission id of an event that has one of its own, by what it is about; None for counted ones."""
    match event.kind:
        case "RunRequested" | "TurnDegraded":
            return f"{event.kind}:{session_id}/{event.input_id}"
        case "HostCommandReceived":
            return f"{event.kind}:{session_id}/{event.command.command_id}"
        case "HostCommandApplied" | "HostCommandRejected":
            return f"{event.kind}:{session_id}/{event.command_id}"
        case "TookOver":
            return entry_id("TookOver", f"{session_id}/{event.tenure}")
        case "OrderDispatched" | "OrderEnded":
            return entry_id(entry_name(event.kind), event.wo_id)
        case "RunCompleted":
            return completed_id(run)
        case _:
            return None


def envelope(state: SessionState, event: SessionEventKind) -> SessionEvent:
    """The event with the correlation fields of this moment."""
    session_id, run = state.session_id, state.run
    if run is None:
        return SessionEvent(session_id, state.session_epoch, state.step_epoch, event)
    return SessionEvent(session_id, state.session_epoch, state.step_epoch, event, run.run_id, run.turn_id, run.step_id)


def entry_of(  # noqa: PLR0913 - an entry has these fields
    event: SessionEvent,
    *,
    submission_id: str,
    prev: str,
    tenure: int,
    at_us: int,
    bodies: Sequence[bytes] = (),
    once: str | None = None,
    provenance: Provenance,
    trace: str = "",
) -> WriteEntry:
    """The ledger entry of an event, conditional on the stream's head and the writer's tenure."""
    return WriteEntry(
        submission_id=submission_id,
        stream=session_stream(event.session_id),
        event_type=event.entry_name,
        provenance=provenance,
        trace=trace,
        at_us=at_us,
        bodies=[pack_event(event, submission_id, at_us), *bodies],
        prev=prev,
        tenure=tenure,
        once=once,
    )


def break_before(entry: Entry, head: str, tenure: int) -> str:
    """How this entry does not follow the ones before it; empty: it does. `head` and `tenure` as these leave the stream.

    The host's entry follows whatever stands: a hole right before it shows at the next one.
    """
    if entry.prev is None:
        return "" if entry.event_type == "TurnDegraded" else "it names no entry before it"
    if entry.prev != head:
        return f"the entry before it is {entry.prev or 'none'}, and {head or 'nothing'} is what the record has there"
    expected = tenure + (entry.event_type == "TookOver")
    return "" if entry.tenure == expected else f"it is of tenure {entry.tenure}, the stream is in tenure {expected}"
