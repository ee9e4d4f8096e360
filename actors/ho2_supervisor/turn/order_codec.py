"""Orders and receipts as the journal holds them: every text that has a ref is blank; and back. Pure.

Expanding the recorded form gives the same bytes that were sent first.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from hobus.bus.messages.ids import derive_body_ref, derive_ended_id
from hobus.bus.messages.work_order import Receipt, Segment, WorkOrder, change_segments


def blank_order(order: WorkOrder) -> WorkOrder:
    """Return what OrderDispatched carries."""
    return change_segments(order, _blank)


def blank_receipt(receipt: Receipt) -> Receipt:
    """Return what OrderEnded carries."""
    output = receipt.output_result
    if output is None:
        return receipt
    return replace(receipt, output_result=replace(output, text=_blank(output.text)))


def with_own_text(receipt: Receipt) -> tuple[Receipt, list[bytes]]:
    """Return the receipt as the journal takes it, and the text that its OrderEnded brings.

    An output may be answered before the record that has it is durable, and its writer die with that. What later orders
    of the run show a model, a tool's output and what a model said when it asked for tools, the journal then has itself,
    and they name the journal's copy.
    """
    output = receipt.output_result
    if output is None or output.text.ref is None:
        return receipt, []
    if not output.tool_calls and not output.text.ref.startswith(f"WO_COMPLETED:{receipt.wo_id}/"):
        return receipt, []
    text = output.text.model_copy(update={"ref": derive_body_ref(derive_ended_id(receipt.wo_id), 1)})
    taken = receipt.model_copy(update={"output_result": output.model_copy(update={"text": text})})
    return taken, [text.text.encode()]


def list_order_refs(order: WorkOrder) -> tuple[str, ...]:
    """Return the refs of texts that a recorded order leaves out, each once, in order."""
    segments = [*order.input_context, *(s for e in order.exchanges for s in (e.text, *e.results, *e.said))]
    return tuple(dict.fromkeys(segment.ref for segment in segments if segment.ref is not None))


def list_receipt_refs(receipt: Receipt) -> tuple[str, ...]:
    """Return the refs of texts that a recorded receipt leaves out."""
    output = receipt.output_result
    return () if output is None or output.text.ref is None else (output.text.ref,)


def expand_order(order: WorkOrder, texts: Mapping[str, str]) -> WorkOrder:
    """Return the recorded order with its texts in place."""
    return change_segments(order, lambda segment: _fill(segment, texts))


def expand_receipt(receipt: Receipt, texts: Mapping[str, str]) -> Receipt:
    """Return the recorded receipt with its text in place."""
    output = receipt.output_result
    if output is None:
        return receipt
    filled = output.model_copy(update={"text": _fill(output.text, texts)})
    return receipt.model_copy(update={"output_result": filled})


def _blank(segment: Segment) -> Segment:
    return segment if segment.ref is None or not segment.text else replace(segment, text="")


def _fill(segment: Segment, texts: Mapping[str, str]) -> Segment:
    return segment if segment.ref is None else segment.model_copy(update={"text": texts[segment.ref]})
