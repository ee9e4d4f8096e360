"""What failed in a turn, in whose words and by which entry: calls, orders, the run, the answer without it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hobus.bus.messages.ledger import Entry
from hobus.bus.record import session_facts as events
from hobus.bus.record.catalog import is_session_stream
from hobus.bus.record.ends import end_in, result_in
from hobus.bus.record.journal import Recorded, own_text, recorded
from hobus.bus.record.payloads.orders import OrderEnd
from hobus.bus.record.payloads.prompts import PromptFailed, PromptRejected
from hobus.launch.sessions.account import short
from hobus.launch.sessions.evidence import body_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSeen:
    """One thing that failed."""

    event: str
    sequence: int
    order: str
    """Short id; empty: it is about the whole turn."""
    attempt: int | None
    """Of a call of a model, from 1; None: it was refused before it was sent, or is no call."""
    code: str
    words: str
    """As its entry has them, without a text of anybody; empty: none, or they were erased."""


def failures_in(turn: Iterable[Entry]) -> tuple[FailureSeen, ...]:
    """In the order of the record."""
    return tuple(
        FailureSeen(
            event=one.event_type,
            sequence=one.sequence,
            order=short(one.provenance.work_order_id or ""),
            attempt=attempt_of(one) if one.event_type == "PROMPT_FAILED" else None,
            code=said[0],
            words=said[1],
        )
        for one in turn
        if (said := _said(one)) is not None
    )


def _said(entry: Entry) -> tuple[str, str] | None:
    """Code and words; None: it tells of no failure."""
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
    """Its words: the answer that told of it, else what stands behind it."""
    taken = _recorded(entry)
    end = None if taken is None else end_in(taken.event.event, taken)
    if taken is None or end is None:
        return "", ""
    result = result_in(taken, end.result_ref)
    return end.code, (own_text(taken, end.result_ref) or "") if result is None else result.response


def attempt_of(entry: Entry) -> int | None:
    """Which attempt of its call an entry is about; None: its id names none."""
    number = entry.submission_id.rpartition("/")[2]
    return int(number) if number.isascii() and number.isdigit() else None


def orders_of_type(turn: Sequence[Entry], wo_type: str) -> set[str]:
    """Ids of the run's orders of this type; those whose entry was erased are left out."""
    found: set[str] = set()
    for one in turn:
        event = event_of(one) if one.event_type == "WO_DISPATCHED" and is_session_stream(one.stream) else None
        if isinstance(event, events.OrderDispatched) and event.wo_type == wo_type:
            found.add(event.wo_id)
    return found


def event_of(entry: Entry) -> events.SessionFact | None:
    """Of an entry of a session's journal; None: it was erased, or is of another version."""
    taken = _recorded(entry)
    return None if taken is None else taken.event.event


def _recorded(entry: Entry) -> Recorded | None:
    try:
        return recorded(entry)
    except ValueError:  # of another version, or forged
        return None
