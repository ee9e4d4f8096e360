"""What was asked of a session and what became of it, and how its turns ended: from the end of its journal. Pure.

Lists of what entries name, and no fold: they also tell of entries before the first one of which a state is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hobus.bus.dispatch import SaidBy
from hobus.bus.messages import session
from hobus.bus.messages.ids import derive_body_ref
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import HostCommand, LeaseHeartbeat
from hobus.bus.record import session_facts as events
from hobus.bus.record.ends import End, end_in, explain_failure, read_result, reply_in
from hobus.bus.record.journal import Recorded, find_own_text, read_recorded


@dataclass(slots=True)
class CommandSeen:
    """One command and its verdict."""

    at: str
    command_id: str
    kind: str
    about: str  # its text, call or reason, in one line; empty: nothing
    run: int | None
    epoch: int | None
    outcome: str = "undecided"
    reason: str = ""
    trace: str = ""
    principal: str = ""
    door: str = ""
    person: str = ""
    """Who gave it there; empty: the principal itself."""

    @property
    def said_by(self) -> str:
        """Return who gave the command, as people read it: `local (operator/7), ada`."""
        return ", ".join(filter(None, (str(SaidBy(self.principal, self.door)), self.person)))


@dataclass(slots=True)
class TurnSeen:
    """One message and what became of it."""

    at: str
    run: int | None
    input_id: str
    text: str | None
    outcome: str = "running"
    code: str = ""
    reply: str | None = None

    @property
    def ended(self) -> str:
        """Return how the turn ended, and why: `success`, `failed (PROVIDER_ERROR)`, `cancelled (too long)`."""
        return f"{self.outcome} ({self.code})" if self.code else self.outcome


def list_commands(entries: Iterable[Entry]) -> list[CommandSeen]:
    seen: dict[str, CommandSeen] = {}
    for entry in entries:
        taken = read_recorded(entry)
        match None if taken is None else taken.event.event:
            case events.HostCommandReceived(command=HostCommand(command=LeaseHeartbeat())):
                pass  # nobody's word: a client that waits is there
            case events.HostCommandReceived(command=command, principal=principal, door=door, person=person, at=at):
                assert taken is not None  # noqa: S101 - its event was matched
                seen[command.command_id] = CommandSeen(
                    at=at,
                    command_id=command.command_id,
                    kind=command.command.kind,
                    about=describe_command(command, taken),
                    run=None if command.target_run_id is None else command.target_run_id.run_seq,
                    epoch=command.expected_session_epoch,
                    trace=entry.trace,
                    principal=principal,
                    door=door,
                    person=person,
                )
            case events.HostCommandApplied(command_id=command_id) if command_id in seen:
                seen[command_id].outcome = "applied"
            case events.HostCommandRejected(command_id=command_id, reason=reason) if command_id in seen:
                seen[command_id].outcome, seen[command_id].reason = "rejected", reason
            case _:
                pass
    return list(seen.values())


def describe_command(command: HostCommand, entry: Recorded) -> str:
    match command.command:
        case session.Steer() | session.FollowUp():
            return find_own_text(entry, derive_body_ref(entry.submission_id, 1)) or ""
        case session.Cancel(reason=reason):
            return reason or ""
        case session.Approve(call_id=call_id):
            return call_id
        case session.Deny(call_id=call_id, reason=reason):
            return f"{call_id} {reason or ''}".strip()
        case session.LeaseHeartbeat(lease_id=lease_id):
            return lease_id
        case _:
            return ""


def list_turns(entries: Iterable[Entry]) -> list[TurnSeen]:
    """Return turns in the order in which they were asked; one that began before these entries has no text."""
    seen: dict[str, TurnSeen] = {}
    queued: dict[str, str] = {}  # ref -> text of a follow-up
    for entry in entries:
        taken = read_recorded(entry)
        if taken is None:
            continue
        event = taken.event.event
        if isinstance(event, events.HostCommandReceived):
            queued[derive_body_ref(entry.submission_id, 1)] = describe_command(event.command, taken)
        elif isinstance(event, events.RunRequested):
            # The envelope is of the moment before: the run that it begins is the entry's own.
            number = entry.provenance.run_seq or None
            seen[event.input_id] = TurnSeen(event.at, number, event.input_id, _note_asked(taken, event, queued))
        elif (end := end_in(event, taken)) is not None:
            turn = seen.setdefault(end.input_id, TurnSeen(event.at, None, end.input_id, None))
            _note_end(turn, end, taken)
    return list(seen.values())


def _note_end(turn: TurnSeen, end: End, taken: Recorded) -> None:
    run_id, event = taken.event.run_id, taken.event.event
    turn.run = turn.run or (run_id and run_id.run_seq)
    result = read_result(taken, end.result_ref) if end.became == "answered" else None
    turn.outcome = end.became if end.became != "answered" else "success" if result is None else result.outcome
    turn.code = (end.reason if end.became == "cancelled" else end.code) or turn.code
    turn.reply = explain_failure(taken, end) if end.became == "failed" else reply_in(taken, end, result)
    if turn.text is None and isinstance(event, events.TurnDegraded):
        turn.text = find_own_text(taken, event.input_ref)


def _note_asked(taken: Recorded, event: events.RunRequested, queued: dict[str, str]) -> str | None:
    text = find_own_text(taken, event.input_ref)
    return queued.get(event.input_ref) if text is None else text
