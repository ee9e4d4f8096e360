"""Receipts and what stands of them in the record. Pure.

WO_COMPLETED and WO_FAILED carry the receipt as their payload, every text that another entry already brought left out
(its ref says where it is), and a text that is new, such as a tool's output, as body 1; the receipt that is answered
names it by that ref, known before the ack. Rebuilt from the record, a receipt has the same bytes as when answered.

TOOL_STARTED decides who may run a tool call. A call that must not run twice has one key, `start:<wo_id>`, for ever; an
idempotent one has a key per try, `start:<wo_id>/<k>`, k = 1 + starts by workers that are gone, else it could never run
again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct, field

from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.bus.errors import WorkOrderFault
from hobus.bus.messages.base import make_from
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.ids import (
    derive_body_ref,
    derive_dispatched_id,
    derive_entry_id,
    derive_writer_id,
    end_key,
    format_iso,
    start_key,
)
from hobus.bus.messages.ledger import Ack, Entry, Provenance, WriteEntry
from hobus.bus.messages.work_order import Cost, OutputResult, Receipt, WorkOrder, WorkOrderError, move_state
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.orders import ToldPeople, ToolStarted, end_of, read_receipt, with_refs

STREAM = "ho1m"
_STEP = re.compile(r"\.(\d+)\.\d+(?:\.\d+)?$")


_COUNTED = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
_read_counts = attrgetter(*_COUNTED)


class OrderUsage(Struct):
    """What an order used so far; complete also when it fails half-way."""

    started: float  # monotonic
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))
    llm_calls: int = 0
    cost_usd: float | None = 0.0
    tool_ids: list[str] = field(default_factory=list[str])
    received_ids: list[str] = field(default_factory=list[str])

    @property
    def total_tokens(self) -> int:
        return self.tokens["input_tokens"] + self.tokens["output_tokens"]

    def add_response(self, response: PromptResponse) -> None:
        """Count a call that reached a provider, also a failed one that cost something, but no rejected one."""
        if response.received_record_id:
            self.received_ids.append(response.received_record_id)
        is_answered = bool(response.sent_record_id or response.received_record_id or response.outcome == "SUCCESS")
        if not (is_answered or response.attempts):
            return
        self.llm_calls += is_answered
        for name, count in zip(_COUNTED, _read_counts(response), strict=True):
            self.tokens[name] += count
        # An attempt before an answer has its own end in the record: of what it cost, the answer says nothing.
        is_whole = response.attempts <= 1 or not is_answered
        known = self.cost_usd is not None and response.cost_usd is not None and is_whole
        self.cost_usd = round((self.cost_usd or 0.0) + (response.cost_usd or 0.0), 9) if known else None

    def add_unanswered(self) -> None:
        """Count a call that nobody answered and that may have been sent: its cost is unknown."""
        self.cost_usd = None

    def cost(self, now_monotonic: float) -> Cost:
        return Cost(
            **self.tokens,
            total_tokens=self.total_tokens,
            llm_calls=self.llm_calls,
            tool_calls=len(self.tool_ids),
            tool_ids_used=list(self.tool_ids),
            elapsed_ms=max(0, round((now_monotonic - self.started) * 1000)),
            cost_usd=self.cost_usd,
        )


class ToolSaid(Struct):
    """What an order's tool brought beside its text, kept by the record and in no receipt.

    What it told people, which no model has, and its files, which the receipt names.
    """

    printed: str = ""
    traceback: str = ""
    files: list[bytes] = field(default_factory=list[bytes])

    def named(self) -> dict[ToldPeople, str]:
        """Return what there is of it, by the names that `OrderEnd.said` has."""
        every: dict[ToldPeople, str] = {"printed": self.printed, "traceback": self.traceback}
        return {name: text for name, text in every.items() if text}


NOTHING_SAID = ToolSaid()


class Stamp(Struct, frozen=True):
    """Who writes about an order, and when."""

    instance: str
    now: float
    monotonic: float
    trace: str = ""


def end_id(event_type: str, wo_id: str, instance: str) -> str:
    """Return the submission id of an entry of one order by one writer."""
    return derive_entry_id(event_type, derive_writer_id(wo_id, instance))


def make_completed(order: WorkOrder, result: OutputResult, usage: OrderUsage, stamp: Stamp) -> Receipt:
    """Build the receipt of an order that brought something; a new text is named by its ref in the record to come."""
    text = result.text
    if text.text and text.ref is None:
        own_id = end_id("WO_COMPLETED", order.wo_id, stamp.instance)
        named = {"ref": derive_body_ref(own_id, 1), "files": with_refs(text.files, own_id)}
        result = result.model_copy(update={"text": text.model_copy(update=named)})
    return _make_receipt(order, usage, stamp, state="completed", output_result=result)


def make_failed(order: WorkOrder, code: str, message: str, usage: OrderUsage, stamp: Stamp) -> Receipt:
    """Build the receipt of an order that failed; what it used until then counts."""
    return _make_receipt(order, usage, stamp, state="failed", error=WorkOrderError(code=code, message=message))


def _make_receipt(
    order: WorkOrder, usage: OrderUsage, stamp: Stamp, *, state: Literal["completed", "failed"], **what: Any
) -> Receipt:
    return Receipt(
        state=move_state(order.wo_id, "executing", state, "ho1"),
        wo_id=order.wo_id,
        fence=order.fence,
        cost=usage.cost(stamp.monotonic),
        prompt_received_ids=list(usage.received_ids),
        executed_by=stamp.instance,
        completed_at=format_iso(stamp.now),
        **what,
    )


def end_entry(  # noqa: PLR0913 - all that an end says
    order: WorkOrder,
    receipt: Receipt,
    stamp: Stamp,
    *,
    parents: list[str],
    said: ToolSaid = NOTHING_SAID,
    is_late: bool = False,
) -> WriteEntry:
    """Build WO_COMPLETED or WO_FAILED: the first of them for an order commits.

    `is_late`: WO_LATE, an end that lost, kept without a key, so that a true success is never hidden.
    """
    decision = receipt.state.upper()
    event_type = "WO_LATE" if is_late else f"WO_{decision}"
    text = None if receipt.output_result is None else receipt.output_result.text
    own = derive_body_ref(end_id("WO_COMPLETED", order.wo_id, stamp.instance), 1)
    has_own_text = text is not None and bool(text.text) and text.ref in (None, own)
    told = said.named()
    submission_id, at_us = end_id(event_type, order.wo_id, stamp.instance), round(stamp.now * 1_000_000)
    return make_entry(
        order,
        stamp,
        event_type,
        end_of(receipt, submission_id, at_us=at_us, has_own_text=has_own_text, said=tuple(told)),
        decision=decision,
        reason=receipt.error.code if receipt.error else "",
        parents=parents,
        texts=[
            *([text.text.encode(), *said.files] if text is not None and has_own_text else []),
            *[words.encode() for words in told.values()],
        ],
        once=None if is_late else end_key(order.wo_id),
    )


def make_entry(
    order: WorkOrder, stamp: Stamp, event_type: str, payload: tuple[Any, ...], texts: Sequence[bytes] = (), **facts: Any
) -> WriteEntry:
    """Build an entry about an order by one writer; `facts`: its other fields."""
    return WriteEntry(
        submission_id=end_id(event_type, order.wo_id, stamp.instance),
        stream=STREAM,
        event_type=event_type,
        provenance=get_provenance(order),
        trace=stamp.trace,
        at_us=round(stamp.now * 1_000_000),
        bodies=[pack_payload(payload), *texts],
        **facts,
    )


def get_provenance(order: WorkOrder) -> Provenance:
    step = _STEP.search(order.wo_id)
    round_seq = int(step.group(1)) if step else 0
    own = {"run_seq": order.fence.run_id.run_seq, "work_order_id": order.wo_id, "tier": order.tier_target}
    return make_from(Provenance, order, round_seq=round_seq, **own)


def read_order_end(entry: Entry, order: WorkOrder) -> Receipt | None:
    """Return the receipt that an end records, bytes for bytes; None for a model's answer: its call key brings it again.

    An end that is not an executor's (a lost order, failed by its supervisor) reads as a failure with the entry's code.
    """
    try:
        receipt = read_receipt(entry)
    except ValueError:
        receipt = None
    if receipt is None:
        code = entry.reason or "execution_error"
        stamp = Stamp(entry.origin, entry.at_us / 1_000_000, monotonic=0.0)
        return make_failed(order, code, f"recorded by {entry.origin} as {entry.submission_id}", OrderUsage(0.0), stamp)
    result = receipt.output_result
    if result is None or result.text.ref is None:
        return receipt
    if not result.text.ref.startswith(f"{entry.submission_id}/"):
        return None
    data = entry.bodies[1] if len(entry.bodies) > 1 else None  # a receipt's own text is the first one
    if data is None:
        raise WorkOrderFault("execution_error", f"the text {result.text.ref} of a recorded receipt is gone")
    text = result.text.model_copy(update={"text": data.decode()})
    return receipt.model_copy(update={"output_result": result.model_copy(update={"text": text})})


# --- TOOL_STARTED -----------------------------------------------------------------------------------------------------

Step = Literal["begin", "ours", "ask"]


def start_keys(wo_id: str, after: int, count: int, *, idempotent: bool) -> list[str]:
    """Return keys of the tries after `after`, a page of them; a call that must not run twice has only one."""
    if not idempotent:
        return [] if after else [start_key(wo_id)]
    return [start_key(wo_id, after + offset) for offset in range(1, count + 1)]


def start_entry(order: WorkOrder, tool: ToolDefinition, stamp: Stamp, *, number: int) -> WriteEntry:
    """Build TOOL_STARTED of one try; the call's arguments stand in the order already."""
    once = start_key(order.wo_id, number if tool.idempotent else None)
    payload = ToolStarted(tool.tool_id, tool.idempotent, number)
    parents = [derive_dispatched_id(order.wo_id)]
    return make_entry(order, stamp, "TOOL_STARTED", payload, reason=tool.source, parents=parents, once=once)


def decide_step(starts: Sequence[Entry], instance: str) -> Step:
    """Return what the starts so far mean to this worker, the last one deciding.

    begin: nobody started; ours: this very incarnation did; ask: somebody else did, and the broker knows whether it
    lives.
    """
    if not starts:
        return "begin"
    return "ours" if starts[-1].origin == instance else "ask"


def is_claimed(ack: Ack, instance: str) -> bool:
    """Return whether this write, or an earlier one of this very incarnation (a lost ack), holds the start."""
    return ack.is_first or (ack.outcome == "lost" and ack.origin == instance)
