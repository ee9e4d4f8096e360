"""Calls of a turn that waited for a person: for which, since when, and what became of each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hobus.bus.messages.ids import iso_of_us
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import Approve, Deny
from hobus.bus.record import session_facts as events
from hobus.bus.record.catalog import is_session_stream
from hobus.bus.record.ends import ENDS
from hobus.bus.record.payloads.orders import OrderEnd
from hobus.bus.said_by import SaidBy
from hobus.launch.sessions.evidence import body_of
from hobus.launch.sessions.why_failed import event_of


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitSeen:
    """A call that an agent may not make unasked."""

    call_id: str
    order: str
    """Short id of the call's order, which a denied one never had sent."""
    tool_id: str
    """Empty: the record does not say it any more."""
    since: str
    """ISO 8601, UTC."""
    begin_us: int
    end_us: int | None
    """None: it waits."""
    verdict: Literal["approved", "denied", "undecided", ""]
    """undecided: the run was over first; empty: it waits."""
    words: str
    """Of who denied it."""
    by: str
    """Who decided, and where that came from; empty: nobody has."""
    sequences: tuple[int, ...]
    """Of the batch it waited in, of the command, and of what applied that."""


def waits_in(turn: Sequence[Entry]) -> tuple[WaitSeen, ...]:
    """In the order in which they began to wait."""
    seen: list[WaitSeen] = []
    commands: dict[str, tuple[Entry, Approve | Deny, str]] = {}
    tools: dict[str, str] = {}  # of the model's newest answer that asks for any
    for entry in turn:
        if isinstance(said := body_of(entry), OrderEnd) and said.tool_calls:
            tools = {call.call_id: call.tool_id for call in said.tool_calls}
        match event_of(entry) if is_session_stream(entry.stream) else None:
            case events.RunRequested(run_overrides=settings) if settings is not None and settings.calls_tool:
                tools = {"001": settings.calls_tool}
            case events.ToolBatchIssued() as batch:
                seen += _held(entry, batch, tools)
            case events.HostCommandReceived(command=command) as said if isinstance(command.command, Approve | Deny):
                commands[command.command_id] = entry, command.command, str(SaidBy(said.principal, said.door))
            case events.HostCommandApplied(command_id=command_id) if command_id in commands:
                received, decision, by = commands[command_id]
                seen = [_decided(one, decision, received, entry, by) for one in seen]
            case _ if entry.event_type in ENDS:
                seen = [one if one.verdict else _over(one, entry) for one in seen]
            case _:
                pass
    return tuple(seen)


def _held(entry: Entry, batch: events.ToolBatchIssued, tools: dict[str, str]) -> Iterator[WaitSeen]:
    step = batch.tool_batch_id.step_id
    turn = step.turn_id
    for call_id in batch.held:
        yield WaitSeen(
            call_id=call_id,
            order=f"{turn.run_id.run_seq}.{turn.turn_seq}.{step.step_seq}.{call_id}",
            tool_id=tools.get(call_id, ""),
            since=iso_of_us(entry.ledger_at_us),
            begin_us=entry.ledger_at_us,
            end_us=None,
            verdict="",
            words="",
            by="",
            sequences=(entry.sequence,),
        )


def _decided(one: WaitSeen, decision: Approve | Deny, received: Entry, applied: Entry, by: str) -> WaitSeen:
    if one.verdict or one.call_id != decision.call_id:
        return one
    return replace(
        one,
        end_us=applied.ledger_at_us,
        verdict="denied" if isinstance(decision, Deny) else "approved",
        words=(decision.reason or "") if isinstance(decision, Deny) else "",
        by=by,
        sequences=(*one.sequences, received.sequence, applied.sequence),
    )


def _over(one: WaitSeen, end: Entry) -> WaitSeen:
    return replace(one, end_us=end.ledger_at_us, verdict="undecided", sequences=(*one.sequences, end.sequence))
