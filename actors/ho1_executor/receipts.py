"""Receipts and what stands of them in the record. Pure.

WO_COMPLETED and WO_FAILED carry the receipt as their payload, every text that another entry already brought left out
(its ref says where it is), and a text that is new, such as a tool's output, as body 1; the receipt that is answered
names it by that ref, known before the ack. Rebuilt from the record, a receipt has the same bytes as when answered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hobus.bus.errors import WorkOrderFault
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.ids import body_ref, by_writer, end_key, entry_id, iso
from hobus.bus.messages.ledger import Entry, Provenance, WriteEntry
from hobus.bus.messages.work_order import Cost, OutputResult, Receipt, WorkOrder, WorkOrderError
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.orders import end_of, receipt_in

STREAM = "ho1m"
_STEP = re.compile(r"\.(\d+)\.\d+(?:\.\d+)?$")


@dataclass(slots=True)
class Tally:
    """What an order used so far; complete also when it fails half-way."""

    started: float  # monotonic
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    llm_calls: int = 0
    cost_usd: float | None = 0.0
    tool_ids: list[str] = field(default_factory=list[str])
    received_ids: list[str] = field(default_factory=list[str])

    @property
    def total_tokens(self) -> int:
        """Input and output."""
        return self.input_tokens + self.output_tokens

    def add_response(self, response: PromptResponse) -> None:
        """Counts a call that reached a provider, and what one cost that failed; a rejected one was none."""
        if response.received_record_id:
            self.received_ids.append(response.received_record_id)
        is_answered = bool(response.sent_record_id or response.received_record_id or response.outcome == "SUCCESS")
        if not (is_answered or response.attempts):
            return
        self.llm_calls += is_answered
        self.input_tokens += response.input_tokens
        self.output_tokens += response.output_tokens
        self.cached_tokens += response.cached_tokens
        self.reasoning_tokens += response.reasoning_tokens
        # An attempt before an answer has its own end in the record: of what it cost, the answer says nothing.
        is_whole = response.attempts <= 1 or not is_answered
        known = self.cost_usd is not None and response.cost_usd is not None and is_whole
        self.cost_usd = round((self.cost_usd or 0.0) + (response.cost_usd or 0.0), 9) if known else None

    def add_unanswered(self) -> None:
        """A call that nobody answered may have been sent: what it cost is unknown."""
        self.cost_usd = None

    def cost(self, now_monotonic: float) -> Cost:
        """The receipt's cost."""
        return Cost(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            total_tokens=self.total_tokens,
            cached_tokens=self.cached_tokens,
            reasoning_tokens=self.reasoning_tokens,
            llm_calls=self.llm_calls,
            tool_calls=len(self.tool_ids),
            tool_ids_used=list(self.tool_ids),
            elapsed_ms=max(0, round((now_monotonic - self.started) * 1000)),
            cost_usd=self.cost_usd,
        )


@dataclass(frozen=True, slots=True)
class Moment:
    """Who ends an order, and when."""

    instance: str
    now: float
    monotonic: float
    trace: str = ""


def end_id(event_type: str, wo_id: str, instance: str) -> str:
    """Submission id of an entry of one order by one writer."""
    return entry_id(event_type, by_writer(wo_id, instance))


def completed(order: WorkOrder, result: OutputResult, tally: Tally, moment: Moment) -> Receipt:
    """The receipt of an order that brought something; a new text is named by the ref that its record will give it."""
    text = result.text
    if text.text and text.ref is None:
        ref = body_ref(end_id("WO_COMPLETED", order.wo_id, moment.instance), 1)
        result = result.model_copy(update={"text": text.model_copy(update={"ref": ref})})
    return Receipt(
        wo_id=order.wo_id,
        fence=order.fence,
        state="completed",
        output_result=result,
        cost=tally.cost(moment.monotonic),
        prompt_received_ids=list(tally.received_ids),
        executed_by=moment.instance,
        completed_at=iso(moment.now),
    )


def failed(order: WorkOrder, code: str, message: str, tally: Tally, moment: Moment) -> Receipt:
    """The receipt of an order that failed; what it used until then counts."""
    return Receipt(
        wo_id=order.wo_id,
        fence=order.fence,
        state="failed",
        error=WorkOrderError(code=code, message=message),
        cost=tally.cost(moment.monotonic),
        prompt_received_ids=list(tally.received_ids),
        executed_by=moment.instance,
        completed_at=iso(moment.now),
    )


def end_entry(order: WorkOrder, receipt: Receipt, moment: Moment, *, parents: list[str]) -> WriteEntry:
    """WO_COMPLETED or WO_FAILED: the first of them for an order commits."""
    event_type = "WO_COMPLETED" if receipt.state == "completed" else "WO_FAILED"
    return _entry(order, receipt, moment, event_type, parents)


def late_entry(order: WorkOrder, receipt: Receipt, moment: Moment, *, winner_id: str) -> WriteEntry:
    """WO_LATE: an end that lost, kept without a key, so that a true success is never hidden."""
    return _entry(order, receipt, moment, "WO_LATE", [winner_id, *receipt.prompt_received_ids])


def provenance_of(order: WorkOrder) -> Provenance:
    """Who and what an entry about this order is about."""
    step = _STEP.search(order.wo_id)
    return Provenance(
        agent_id=order.agent_id,
        agent_class=order.agent_class,
        framework_id=order.framework_id,
        package_id=order.package_id,
        session_id=order.session_id,
        run_seq=order.fence.run_id.run_seq,
        round_seq=int(step.group(1)) if step else 0,
        work_order_id=order.wo_id,
        tier=order.tier_target,
    )


def text_ref(entry: Entry) -> str | None:
    """The ref of a text that has to be fetched to rebuild this entry's receipt; None if all of it lies in the entry."""
    receipt = _receipt_in(entry)
    if receipt is None or receipt.output_result is None:
        return None
    ref = receipt.output_result.text.ref
    return None if ref is None or _own_body(entry, ref) is not None else ref


def receipt_of(entry: Entry, order: WorkOrder, fetched: bytes | None) -> Receipt:
    """The receipt that an end records, bytes for bytes. `fetched`: the body behind `text_ref`.

    An end that is not an executor's (a lost order, failed by its supervisor) reads as a failure with the entry's code.
    """
    receipt = _receipt_in(entry)
    if receipt is None:
        code = entry.reason or "execution_error"
        tally = Tally(started=0.0)
        moment = Moment(instance=entry.origin, now=entry.at_us / 1_000_000, monotonic=0.0)
        return failed(order, code, f"recorded by {entry.origin} as {entry.submission_id}", tally, moment)
    result = receipt.output_result
    if result is None or result.text.ref is None:
        return receipt
    data = fetched if fetched is not None else _own_body(entry, result.text.ref)
    if data is None:
        raise WorkOrderFault("execution_error", f"the text {result.text.ref} of a recorded receipt is gone")
    text = result.text.model_copy(update={"text": data.decode()})
    return receipt.model_copy(update={"output_result": result.model_copy(update={"text": text})})


def _entry(order: WorkOrder, receipt: Receipt, moment: Moment, event_type: str, parents: list[str]) -> WriteEntry:
    submission_id = end_id(event_type, order.wo_id, moment.instance)
    at_us = round(moment.now * 1_000_000)
    text = None if receipt.output_result is None else receipt.output_result.text
    own = body_ref(end_id("WO_COMPLETED", order.wo_id, moment.instance), 1)
    has_own_text = text is not None and bool(text.text) and text.ref in (None, own)
    end = end_of(receipt, submission_id, parents, at_us=at_us, has_own_text=has_own_text)
    texts = [text.text.encode()] if text is not None and has_own_text else []
    return WriteEntry(
        submission_id=submission_id,
        stream=STREAM,
        event_type=event_type,
        decision=receipt.state.upper(),
        reason=receipt.error.code if receipt.error else "",
        provenance=provenance_of(order),
        parents=parents,
        trace=moment.trace,
        at_us=at_us,
        bodies=[pack_payload(end), *texts],
        once=None if event_type == "WO_LATE" else end_key(order.wo_id),
    )


def _receipt_in(entry: Entry) -> Receipt | None:
    try:
        return receipt_in(entry)
    except ValueError:
        return None


def _own_body(entry: Entry, ref: str) -> bytes | None:
    submission_id, _, number = ref.rpartition("/")
    if submission_id != entry.submission_id or int(number) >= len(entry.bodies):
        return None
    return entry.bodies[int(number)]
