"""A session's journal: what an entry of it is made of, what follows what, and what all entries fold to. Pure.

Body 0 of an entry is the event (`bus.record.journal`); further bodies are texts and documents that it names by ref. The
fold is for everybody who reads a journal without owning its session; its owner's, `SessionRecord`, goes by the same
rules and remembers what a run needs besides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import SessionState
from hobus.bus.messages.ids import derive_completed_id, derive_entry_id, derive_intent_entry_id
from hobus.bus.messages.ledger import Entry, WriteEntry, name_session_stream
from hobus.bus.record import session_facts as events
from hobus.bus.record.journal import Recorded, pack_event, read_recorded
from hobus.bus.record.session_facts import ENTRY_NAMES, SessionEvent, SessionFact


def digest_input(input_id: str, text: str) -> str:
    """Return a digest that tells a retry from a conflict without showing the text; the input id is its salt."""
    return hashlib.sha256(f"{input_id}\n{text}".encode()).hexdigest()


def derive_counted_id(kind: str, session_id: str, tenure: int, number: int) -> str:
    """Return `<event type>:<session>/<tenure>.<n-th append of that tenure>`."""
    return f"{ENTRY_NAMES.get(kind, kind)}:{session_id}/{tenure}.{number}"


def derive_event_id(session_id: str, event: SessionFact, run: object) -> str | None:
    """Return the submission id that follows from what the event is about; None for events with counted ids."""
    match event:
        case events.RunRequested() | events.TurnDegraded():
            return f"{event.kind}:{session_id}/{event.input_id}"
        case events.HostCommandReceived():
            return f"{event.kind}:{session_id}/{event.command.command_id}"
        case events.HostCommandApplied() | events.HostCommandRejected():
            return f"{event.kind}:{session_id}/{event.command_id}"
        case events.TookOver():
            return derive_entry_id("TookOver", f"{session_id}/{event.tenure}")
        case events.OrderDispatched() | events.OrderEnded():
            return derive_entry_id(event.entry_name, event.wo_id)
        case events.RunCompleted():
            return derive_completed_id(run)
        case events.IntentDeclared() | events.IntentSuperseded() | events.IntentClosed():
            return derive_intent_entry_id(event.entry_name, event.intent_id)
        case _:
            return None


def make_envelope(state: SessionState, event: SessionFact) -> SessionEvent:
    session_id, run = state.session_id, state.run
    if run is None:
        return SessionEvent(session_id, state.session_epoch, state.step_epoch, event)
    return SessionEvent(session_id, state.session_epoch, state.step_epoch, event, run.run_id, run.turn_id, run.step_id)


def make_entry(
    event: SessionEvent,
    *,
    submission_id: str,
    at_us: int,
    bodies: Sequence[bytes] = (),
    earlier: Sequence[SessionEvent] = (),
    **facts: Any,
) -> WriteEntry:
    """Build the ledger entry of an event, and of those that it tells before that.

    `facts`: its other fields, the stream's head and the writer's tenure among them.
    """
    return WriteEntry(
        submission_id=submission_id,
        stream=name_session_stream(event.session_id),
        event_type=event.event.entry_name,
        at_us=at_us,
        bodies=[pack_event(event, submission_id, at_us, earlier), *bodies],
        **facts,
    )


def break_before(entry: Entry, head: str, tenure: int) -> str:
    """Return how this entry does not follow `head` and `tenure`, as the entries before left them; empty: it does.

    The host's entry follows whatever stands: a hole right before it shows at the next one.
    """
    if entry.prev is None:
        return "" if entry.event_type == "TurnDegraded" else "it names no entry before it"
    if entry.prev != head:
        return f"the entry before it is {entry.prev or 'none'}, and {head or 'nothing'} is what the record has there"
    expected = tenure + (entry.event_type == "TookOver")
    return "" if entry.tenure == expected else f"it is of tenure {entry.tenure}, the stream is in tenure {expected}"


NOTHING = SessionState(session_id="")
"""Before any entry: which session it is, the first one says."""


class Reduction(NamedTuple):
    """One event of an entry. A rejected or unreadable event leaves the state as it was."""

    entry: Entry
    recorded: Recorded | None  # None: its event was erased, or is of a version that is not known here
    before: SessionState
    after: SessionState
    rejection: str = ""  # why its event does not apply; empty: it does

    @property
    def event(self) -> SessionFact | None:
        """Return what happened; None where that does not read."""
        return None if self.recorded is None else self.recorded.event.event


def read_steps(before: SessionState, entry: Entry) -> Iterator[Reduction]:
    """Yield what an entry tells, in order; one step for an entry that does not read."""
    taken = read_recorded(entry)
    if taken is None:
        yield Reduction(entry, None, before, before)
        return
    before = before if before.session_id else SessionState(session_id=taken.event.session_id)
    for one in [*[Recorded(taken.submission_id, told, ()) for told in taken.earlier], taken]:
        outcome = reduce(before, one.event)
        rejection = "" if outcome.rejection is None else outcome.rejection.reason
        yield Reduction(entry, one, before, outcome.state, rejection)
        before = outcome.state


def reduce_steps(entries: Iterable[Entry], state: SessionState = NOTHING) -> Iterator[Reduction]:
    for entry in entries:
        for one in read_steps(state, entry):
            state = one.after
            yield one


def compute_state(entries: Iterable[Entry], state: SessionState) -> SessionState:
    for one in reduce_steps(entries, state):
        state = one.after
    return state
