"""TOOL_STARTED: who may run a tool call, decided by the record. Pure.

A call that must not run twice has one key, `start:<wo_id>`, for ever; an idempotent one has a key per try,
`start:<wo_id>/<k>`, k = 1 + starts by workers that are gone, else it could never run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hobus.actors.ho1_executor.receipts import STREAM, Moment, end_id, provenance_of
from hobus.bus.messages.ids import dispatched_id, start_key
from hobus.bus.messages.ledger import Ack, Entry, WriteEntry
from hobus.bus.messages.work_order import ToolCall, WorkOrder
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.orders import ToolStarted

Step = Literal["begin", "ours", "ask"]


def start_keys(wo_id: str, after: int, count: int, *, idempotent: bool) -> list[str]:
    """Keys of the tries after `after`, a page of them; a call that must not run twice has only one."""
    if not idempotent:
        return [] if after else [start_key(wo_id)]
    return [start_key(wo_id, after + offset) for offset in range(1, count + 1)]


def start_entry(order: WorkOrder, call: ToolCall, moment: Moment, *, number: int, idempotent: bool) -> WriteEntry:
    """TOOL_STARTED of one try; the call's arguments stand in the order already."""
    return WriteEntry(
        submission_id=end_id("TOOL_STARTED", order.wo_id, moment.instance),
        stream=STREAM,
        event_type="TOOL_STARTED",
        provenance=provenance_of(order),
        parents=[dispatched_id(order.wo_id)],
        trace=moment.trace,
        at_us=round(moment.now * 1_000_000),
        bodies=[pack_payload(ToolStarted(call.tool_id, idempotent, number))],
        once=start_key(order.wo_id, number if idempotent else None),
    )


def step_after(starts: Sequence[Entry], instance: str) -> Step:
    """What the starts so far mean to this worker, the last one deciding.

    begin: nobody started; ours: this very incarnation did; ask: somebody else did, and the broker knows whether it
    lives.
    """
    if not starts:
        return "begin"
    return "ours" if starts[-1].origin == instance else "ask"


def is_claimed(ack: Ack, instance: str) -> bool:
    """Whether this write, or an earlier one of this very incarnation (a lost ack), holds the start."""
    return ack.is_first or (ack.outcome == "lost" and ack.origin == instance)
