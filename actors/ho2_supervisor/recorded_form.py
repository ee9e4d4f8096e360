"""Orders and receipts as the journal holds them: every text that has a ref is blank; and back. Pure.

The rounds of a run show the model the same context: the first order holds its segments, a later one names that order
(`context_of`) and holds what it adds. Expanding the recorded form gives the same bytes that were sent first.
Source: spec page "Session contracts", section Where it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bus.messages.ids import body_ref, ended_id
from bus.messages.work_order import Exchange, Receipt, Segment, WorkOrder

_Change = Callable[[Segment], Segment]
_CONTEXT = "input_context"
_CONTEXT_OF = "context_of"


def blank_order(order: WorkOrder, earlier: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What OrderDispatched carries; fields at their defaults are left out. `earlier`: the run's recorded orders."""
    form = _order_with(order, _blank).model_dump(exclude_defaults=True)
    context = form.get(_CONTEXT, [])
    for wo_id, known in earlier.items():
        shared = known.get(_CONTEXT, [])
        if shared and _CONTEXT_OF not in known and context[: len(shared)] == shared:
            return form | {_CONTEXT_OF: wo_id, _CONTEXT: context[len(shared) :]}
    return form


def recorded_order(form: Mapping[str, Any], earlier: Mapping[str, Mapping[str, Any]]) -> WorkOrder:
    """The order behind its recorded form, texts with a ref still blank. Raises ValidationError if it is none."""
    if _CONTEXT_OF not in form:
        return WorkOrder.model_validate(form)
    whole = {name: value for name, value in form.items() if name != _CONTEXT_OF}
    return WorkOrder.model_validate(whole | {_CONTEXT: [*earlier[form[_CONTEXT_OF]][_CONTEXT], *form[_CONTEXT]]})


def context_of(form: Mapping[str, Any]) -> str | None:
    """The earlier order that holds the beginning of this one's context; None: it holds all of it."""
    return form.get(_CONTEXT_OF)


def blank_receipt(receipt: Receipt) -> dict[str, Any]:
    """What OrderEnded carries; fields at their defaults are left out."""
    return without_texts(receipt).model_dump(exclude_defaults=True)


def without_texts(receipt: Receipt) -> Receipt:
    """The receipt as it reads from its recorded form: every text that has a ref is blank."""
    return _receipt_with(receipt, _blank)


def with_own_text(receipt: Receipt) -> tuple[Receipt, list[bytes]]:
    """The receipt as the journal takes it, and the text that its OrderEnded brings.

    An output may be answered before the record that has it is durable, and its writer die with that. What later orders
    of the run show a model, a tool's output and what a model said when it asked for tools, the journal then has itself,
    and they name the journal's copy.
    """
    output = receipt.output_result
    if output is None or output.text.ref is None:
        return receipt, []
    if not output.tool_calls and not output.text.ref.startswith(f"WO_COMPLETED:{receipt.wo_id}/"):
        return receipt, []
    text = output.text.model_copy(update={"ref": body_ref(ended_id(receipt.wo_id), 1)})
    taken = receipt.model_copy(update={"output_result": output.model_copy(update={"text": text})})
    return taken, [text.text.encode()]


def order_refs(order: WorkOrder) -> tuple[str, ...]:
    """Refs of the texts that a recorded order leaves out, each once, in order."""
    segments = [*order.input_context, *(s for e in order.exchanges for s in (e.text, *e.results))]
    return tuple(dict.fromkeys(segment.ref for segment in segments if segment.ref is not None))


def receipt_refs(receipt: Receipt) -> tuple[str, ...]:
    """Refs of the texts that a recorded receipt leaves out."""
    output = receipt.output_result
    return () if output is None or output.text.ref is None else (output.text.ref,)


def expand_order(order: WorkOrder, texts: Mapping[str, str]) -> WorkOrder:
    """The recorded order with its texts in place."""
    return _order_with(order, _filler(texts))


def expand_receipt(receipt: Receipt, texts: Mapping[str, str]) -> Receipt:
    """The recorded receipt with its text in place."""
    return _receipt_with(receipt, _filler(texts))


def _blank(segment: Segment) -> Segment:
    return segment if segment.ref is None else segment.model_copy(update={"text": ""})


def _filler(texts: Mapping[str, str]) -> _Change:
    def fill(segment: Segment) -> Segment:
        return segment if segment.ref is None else segment.model_copy(update={"text": texts[segment.ref]})

    return fill


def _order_with(order: WorkOrder, change: _Change) -> WorkOrder:
    exchanges = [
        Exchange(tool_calls=e.tool_calls, results=[change(r) for r in e.results], text=change(e.text))
        for e in order.exchanges
    ]
    inputs = [change(segment) for segment in order.input_context]
    return order.model_copy(update={"input_context": inputs, "exchanges": exchanges})


def _receipt_with(receipt: Receipt, change: _Change) -> Receipt:
    output = receipt.output_result
    if output is None:
        return receipt
    return receipt.model_copy(update={"output_result": output.model_copy(update={"text": change(output.text)})})
