"""What failed in a turn, and what it waited for, by which entry: calls, orders, the run, the answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from hobus.bus.dispatch import SaidBy
from hobus.bus.messages.ids import iso_of_us, position_of
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import Approve, Deny
from hobus.bus.record import session_facts as events
from hobus.bus.record.catalog import is_session_stream
from hobus.bus.record.ends import ENDS, end_in, result_in
from hobus.bus.record.journal import Recorded, own_text, recorded
from hobus.bus.record.payloads.orders import OrderEnd
from hobus.bus.record.payloads.prompts import PromptFailed, PromptRejected
from hobus.launch.sessions.account import short
from hobus.launch.sessions.evidence import body_of, receipt_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSeen:
    """One thing that failed."""

    event: str
    sequence: int
    order: str
    """Short id; empty: it is about the whole turn."""
    about: str
    """What the order is for: a tool by its name; empty: not known."""
    attempt: int | None
    """Of a call of a model, from 1; None: it was refused before it was sent, or is no call."""
    code: str
    words: str
    """As its entry has them, without a text of anybody; empty: none, or they were erased."""


def failures_in(turn: Iterable[Entry]) -> tuple[FailureSeen, ...]:
    turn = list(turn)
    purposes = purposes_in(turn)
    return tuple(
        FailureSeen(
            event=one.event_type,
            sequence=one.sequence,
            order=short(one.provenance.work_order_id or ""),
            about=purposes.get(one.provenance.work_order_id or "", Purpose()).about,
            attempt=attempt_of(one) if one.event_type == "PROMPT_FAILED" else None,
            code=said[0],
            words=said[1],
        )
        for one in turn
        if (said := _said(one)) is not None
    )


def _said(entry: Entry) -> tuple[str, str] | None:
    """Return code and words; None: the entry tells of no failure."""
    match entry.event_type:
        case "PROMPT_FAILED" | "PROMPT_REJECTED":
            said = body_of(entry)
            return entry.reason, said.message if isinstance(said, PromptFailed | PromptRejected) else ""
        case "WO_FAILED":
            said = body_of(entry)
            return entry.reason, (said.failure or "") if isinstance(said, OrderEnd) else ""
        case "DEGRADATION":
            return entry.reason, ""
        case "RunFailed":
            return _of_run(entry)
        case _:
            return None


def _of_run(entry: Entry) -> tuple[str, str]:
    """Return a run's words: the answer that told of it, else what stands behind it."""
    taken = _recorded(entry)
    end = None if taken is None else end_in(taken.event.event, taken)
    if taken is None or end is None:
        return "", ""
    result = result_in(taken, end.result_ref)
    return end.code, (own_text(taken, end.result_ref) or "") if result is None else result.response


def attempt_of(entry: Entry) -> int | None:
    """Return which attempt of its call an entry is about; None: its id names none."""
    number = entry.submission_id.rpartition("/")[2]
    return int(number) if number.isascii() and number.isdigit() else None


def orders_of_type(turn: Sequence[Entry], wo_type: str) -> set[str]:
    """Return the ids of the run's orders of this type, without those whose entry was erased."""
    found: set[str] = set()
    for one in turn:
        event = event_of(one) if one.event_type == "WO_DISPATCHED" and is_session_stream(one.stream) else None
        if isinstance(event, events.OrderDispatched) and event.wo_type == wo_type:
            found.add(event.wo_id)
    return found


_PURPOSES = {"synthesize": "answer", "classify": "classification", "consolidate": "consolidation"}


class Purpose(NamedTuple):
    """What an order is for, in people's words; of a tool's call its name, and the arguments."""

    about: str = ""
    arguments: dict[str, Any] | None = None
    """None: it calls no tool."""


def purposes_in(turn: Sequence[Entry]) -> dict[str, Purpose]:
    """Map each order to what it is for."""
    found: dict[str, Purpose] = {}
    for one in turn:
        event = event_of(one) if one.event_type == "WO_DISPATCHED" and is_session_stream(one.stream) else None
        if isinstance(event, events.OrderDispatched):
            call: Any = event.order.get("tool_call") or {}
            about = str(call.get("tool_id") or _PURPOSES.get(event.wo_type, ""))
            found[event.wo_id] = Purpose(about, call.get("arguments"))
    return found


def facts_of(entry: Entry) -> list[events.SessionFact]:
    """Return all that an entry of a session's journal tells; nothing where it was erased, or is of another version."""
    taken = _recorded(entry)
    return [] if taken is None else taken.facts


def event_of(entry: Entry) -> events.SessionFact | None:
    """Return the event of a journal's entry; None: it was erased, or is of another version."""
    taken = _recorded(entry)
    return None if taken is None else taken.event.event


def _recorded(entry: Entry) -> Recorded | None:
    try:
        return recorded(entry)
    except ValueError:  # of another version, or forged
        return None


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
    seen: list[WaitSeen] = []
    commands: dict[str, tuple[Entry, Approve | Deny, str]] = {}
    tools: dict[str, str] = {}  # of the model's newest answer that asks for any
    for entry in turn:
        output = None if (receipt := receipt_of(entry)) is None else receipt.output_result
        if output is not None and output.tool_calls:
            tools = {call.call_id: call.tool_id for call in output.tool_calls}
        for fact in facts_of(entry) if is_session_stream(entry.stream) else ():
            match fact:
                case events.ToolBatchIssued() as batch:
                    seen += _held(entry, batch, tools)
                case events.HostCommandReceived(command=command) as said if isinstance(command.command, Approve | Deny):
                    by = ", ".join(filter(None, (str(SaidBy(said.principal, said.door)), said.person)))
                    commands[command.command_id] = entry, command.command, by
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
    for name in batch.held:
        call_id = position_of(name)
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
    if one.verdict or one.call_id != position_of(decision.call_id):
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
