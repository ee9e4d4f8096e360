"""How an input of a session ended, and how an order, by the entry that ended it; for whoever reads the record. Pure.

Another way to end an input is taught to `end_in`, of an order to `read_order_receipt`, and to nobody else.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from hobus.bus.messages.ids import derive_body_ref
from hobus.bus.messages.session import TurnResult
from hobus.bus.messages.work_order import Receipt
from hobus.bus.record import session_facts as events
from hobus.bus.record.entry import Entry, WriteEntry
from hobus.bus.record.journal import Recorded, find_own_text, read_recorded, unpack_result
from hobus.bus.record.payloads.orders import read_receipt
from hobus.bus.record.session_facts import RUN_ENDS, SessionFact

OF_EXECUTORS = frozenset({"WO_COMPLETED", "WO_FAILED", "WO_LATE"})
"""Ends of orders beside their journals."""
ENDS = RUN_ENDS | {"TurnDegraded"}
"""Event types that say what became of an input; the last one is the host's."""


class End(NamedTuple):
    """What became of an input. Refs are empty where there is no such text."""

    input_id: str
    became: Literal["answered", "failed", "cancelled", "degraded"]
    result_ref: str = ""  # of the packed TurnResult; of a run that failed without a verdict, of words instead
    reply_ref: str = ""  # of the reply as later prompts show it
    code: str = ""  # why there is no answer
    reason: str = ""  # the same in words: of who cancelled, of who had not answered before the host did


def end_in(event: SessionFact, entry: Entry | WriteEntry | Recorded) -> End | None:
    """Return what this event of this entry says of an input's end; None for one that ends no input."""
    match event:
        case events.RunCompleted():
            return End(event.input_id, "answered", event.result_ref, event.reply_ref)
        case events.RunFailed():
            return End(event.input_id, "failed", event.detail_ref or "", code=event.code)
        case events.RunCancelled():
            ref = derive_body_ref(entry.submission_id, 1) if len(entry.bodies) > 1 else ""
            return End(event.input_id, "cancelled", ref, code="cancelled", reason=event.reason or "")
        case events.TurnDegraded():
            return End(event.input_id, "degraded", reply_ref=event.reply_ref, reason=event.reason)
        case _:
            return None


def read_result(entry: Recorded, ref: str) -> TurnResult | None:
    """Return the TurnResult that this entry brought; None where it was erased."""
    if entry.result is not None:
        return entry.result
    _, _, number = ref.rpartition("/")
    body = entry.bodies[int(number)] if number.isdigit() and int(number) < len(entry.bodies) else None
    return None if body is None else parse_result(body)


def reply_in(entry: Recorded, end: End, result: TurnResult | None) -> str | None:
    """Return the reply as later prompts show it; None where there is none, or it was erased."""
    own = find_own_text(entry, end.reply_ref)
    return own if own is not None or result is None else result.response


def explain_failure(entry: Recorded, end: End) -> str | None:
    """Return words of a run that failed: of its fault, or those that its verdict was told in; None: there are none."""
    _, _, number = end.result_ref.rpartition("/")
    body = entry.bodies[int(number)] if number.isdigit() and int(number) < len(entry.bodies) else None
    if end.became != "failed" or not body:
        return None
    verdict = parse_result(body)
    return body.decode("utf-8", "replace") if verdict is None else verdict.response


def parse_result(body: bytes) -> TurnResult | None:
    """Return the TurnResult in a body; None if it is none."""
    try:
        return unpack_result(body)
    except ValueError:
        return None


def read_order_receipt(entry: Entry | WriteEntry) -> Receipt | None:
    """Return the receipt with which an order ended, its text blank where it has a ref; None where it was erased.

    Raises ValueError for what is no end of an order.
    """
    if entry.event_type in OF_EXECUTORS:
        return read_receipt(entry)
    if entry.event_type != "OrderEnded":
        raise ValueError(f"{entry.submission_id} is no end of an order")
    ended = read_recorded(entry)
    said = None if ended is None else ended.event.event
    return said.receipt if isinstance(said, events.OrderEnded) else None
