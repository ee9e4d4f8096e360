"""What was asked of a session and what became of it, and how its turns ended: from the end of its journal. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from actors.ho2_supervisor.session.record import reply_in, result_in
from bus.messages import session as events
from bus.messages.ids import body_ref
from bus.messages.ledger import Entry
from bus.messages.session import HostCommand
from bus.record.journal import Recorded, own_text, recorded


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


def commands_in(entries: Iterable[Entry]) -> list[CommandSeen]:
    """In the order in which they came."""
    seen: dict[str, CommandSeen] = {}
    for entry in entries:
        taken = recorded(entry)
        match None if taken is None else taken.event.event:
            case events.HostCommandReceived(command=command, at=at):
                assert taken is not None  # noqa: S101 - its event was matched
                seen[command.command_id] = CommandSeen(
                    at=at,
                    command_id=command.command_id,
                    kind=command.command.kind,
                    about=about(command, taken),
                    run=None if command.target_run_id is None else command.target_run_id.run_seq,
                    epoch=command.expected_session_epoch,
                    trace=entry.trace,
                )
            case events.HostCommandApplied(command_id=command_id) if command_id in seen:
                seen[command_id].outcome = "applied"
            case events.HostCommandRejected(command_id=command_id, reason=reason) if command_id in seen:
                seen[command_id].outcome, seen[command_id].reason = "rejected", reason
            case _:
                pass
    return list(seen.values())


def about(command: HostCommand, entry: Recorded) -> str:
    """What a command says beside its kind."""
    match command.command:
        case events.Steer() | events.FollowUp():
            return own_text(entry, body_ref(entry.submission_id, 1)) or ""
        case events.Cancel(reason=reason):
            return reason or ""
        case events.Approve(call_id=call_id):
            return call_id
        case events.Deny(call_id=call_id, reason=reason):
            return f"{call_id} {reason or ''}".strip()
        case events.LeaseHeartbeat(lease_id=lease_id):
            return lease_id
        case _:
            return ""


def turns_in(entries: Iterable[Entry]) -> list[TurnSeen]:
    """In the order in which they were asked; one that began before these entries has no text."""
    seen: dict[str, TurnSeen] = {}
    queued: dict[str, str] = {}  # ref -> text of a follow-up
    for entry in entries:
        taken = recorded(entry)
        if taken is None:
            continue
        event = taken.event.event
        run = None if taken.event.run_id is None else taken.event.run_id.run_seq
        match event:
            case events.HostCommandReceived():
                queued[body_ref(entry.submission_id, 1)] = about(event.command, taken)
            case events.RunRequested():
                # The envelope is of the moment before: the run that it begins is the entry's own.
                number = entry.provenance.run_seq or None
                seen[event.input_id] = TurnSeen(event.at, number, event.input_id, _asked(taken, event, queued))
            case events.RunCompleted():
                result = result_in(taken, event.result_ref)
                turn = _turn(seen, event, run)
                turn.outcome = "success" if result is None else result.outcome
                turn.reply = reply_in(taken, event, result)
            case events.RunFailed():
                turn = _turn(seen, event, run)
                turn.outcome, turn.code = "failed", event.code
            case events.RunCancelled():
                turn = _turn(seen, event, run)
                turn.outcome, turn.code = "cancelled", event.reason or ""
            case events.TurnDegraded():
                turn = _turn(seen, event, run)
                turn.outcome, turn.reply = "degraded", own_text(taken, event.reply_ref)
                turn.text = turn.text if turn.text is not None else own_text(taken, event.input_ref)
            case _:
                turn = seen.get(_active(seen))
                if turn is not None and turn.run is None:
                    turn.run = run
    return list(seen.values())


def _asked(taken: Recorded, event: events.RunRequested, queued: dict[str, str]) -> str | None:
    text = own_text(taken, event.input_ref)
    return queued.get(event.input_ref) if text is None else text


def _active(seen: dict[str, TurnSeen]) -> str:
    return next((input_id for input_id, turn in reversed(seen.items()) if turn.outcome == "running"), "")


def _turn(seen: dict[str, TurnSeen], event: Any, run: int | None) -> TurnSeen:
    turn = seen.setdefault(event.input_id, TurnSeen(event.at, run, event.input_id, None))
    turn.run = turn.run or run
    return turn
