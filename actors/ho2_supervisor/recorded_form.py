"""Orders and receipts as the journal holds them: every text that has a ref is blank; and back. Pure.

The rounds of a run show the model the same context: the first order holds its segments, a later one names that order
(`context_of`) and holds what it adds. Expanding the recorded form gives the same bytes that were sent first.
Source: spec page "Session contracts", section Where it lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bus.messages.base import canonical_value
from bus.messages.ids import body_ref, ended_id
from bus.messages.work_order import Exchange, Receipt, Segment, WorkOrder

_CONTEXT = "input_context"
_CONTEXT_OF = "context_of"


def blank_order(order: WorkOrder, earlier: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What OrderDispatched carries; fields at their defaults are left out. `earlier`: the run's recorded orders."""
    form = order.model_dump(exclude_defaults=True)
    context = form.get(_CONTEXT, [])
    for segment in context:
        _blank(segment)
    for exchange in form.get("exchanges", ()):
        for segment in (exchange.get("text", {}), *exchange["results"]):
            _blank(segment)
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
    form = receipt.model_dump(exclude_defaults=True)
    _blank((form.get("output_result") or {}).get("text", {}))
    return form


def hashed_bytes(receipt: Receipt) -> bytes:
    """The canonical bytes of the receipt as it reads from its recorded form: a text that has a ref is blank."""
    form = receipt.model_dump(mode="json")
    text = (form["output_result"] or {}).get("text", {})
    if text.get("ref") is not None:
        text["text"] = ""
    return canonical_value(form)


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
    exchanges = [
        Exchange(
            tool_calls=exchange.tool_calls,
            results=[_filled(result, texts) for result in exchange.results],
            text=_filled(exchange.text, texts),
        )
        for exchange in order.exchanges
    ]
    inputs = [_filled(segment, texts) for segment in order.input_context]
    return order.model_copy(update={"input_context": inputs, "exchanges": exchanges})


def expand_receipt(receipt: Receipt, texts: Mapping[str, str]) -> Receipt:
    """The recorded receipt with its text in place."""
    output = receipt.output_result
    if output is None:
        return receipt
    filled = output.model_copy(update={"text": _filled(output.text, texts)})
    return receipt.model_copy(update={"output_result": filled})


def _blank(segment: dict[str, Any]) -> None:
    """Of a dumped segment; one without a ref has none in its dump."""
    if "ref" in segment:
        segment.pop("text", None)


def _filled(segment: Segment, texts: Mapping[str, str]) -> Segment:
    return segment if segment.ref is None else segment.model_copy(update={"text": texts[segment.ref]})
