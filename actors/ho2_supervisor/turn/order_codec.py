"""Orders and receipts as the journal holds them: every text that has a ref is blank; and back. Pure.

The orders of a run are much alike: the first one stands whole, a later one names the first of its kind, or else of the
run (`like`), and holds what differs from that; a context that only grows, what it adds (`more_context`). Expanding the
recorded form gives the same bytes that were sent first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hobus.bus.messages.base import pack
from hobus.bus.messages.ids import body_ref, ended_id
from hobus.bus.messages.work_order import Constraints, Receipt, Segment, WorkOrder

_CONTEXT = "input_context"
_MORE = "more_context"
_LIKE = "like"
_LIMITS = "constraints"
_IN_ORDER = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_OF_EACH = frozenset({"wo_id", "session_id", "wo_type", "fence"})
"""Stand in every form; of what they say the entry knows the most."""
_DEFAULTS: dict[type[Any], dict[str, Any]] = {
    cls: {
        name: field.get_default(call_default_factory=True)
        for name, field in cls.model_fields.items()
        if not field.is_required()
    }
    for cls in (WorkOrder, Constraints)
}


def blank_order(order: WorkOrder, earlier: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What OrderDispatched carries; fields at their defaults are left out. `earlier`: the run's orders, `whole`."""
    form = order.model_dump(exclude_defaults=True)
    _blank(form.get(_CONTEXT, ()))
    for exchange in form.get("exchanges", ()):
        _blank([exchange.get("text", {}), *exchange["results"]])
    bases = [wo_id for wo_id, one in earlier.items() if one["wo_type"] == order.wo_type] or list(earlier)
    return _difference(form, bases[0], earlier[bases[0]]) if bases else form


def _difference(form: dict[str, Any], wo_id: str, base: Mapping[str, Any]) -> dict[str, Any]:
    changed = _changes(form, base, WorkOrder)
    if _LIMITS in changed:
        changed[_LIMITS] = _changes(form[_LIMITS], base[_LIMITS], Constraints)
    shared = base.get(_CONTEXT, [])
    if _CONTEXT in changed and shared and _is_same(form.get(_CONTEXT, [])[: len(shared)], shared):
        changed[_MORE] = changed.pop(_CONTEXT)[len(shared) :]
    return {name: form[name] for name in _OF_EACH if name in form} | {_LIKE: wo_id} | changed


def _changes(form: Mapping[str, Any], base: Mapping[str, Any], cls: type[Any]) -> dict[str, Any]:
    """What differs; what alone the base says stands here as what it is without being said."""
    said = {**form, **{name: _DEFAULTS[cls][name] for name in base if name not in form}}
    return {
        name: value
        for name, value in said.items()
        if name not in base or not (value is base[name] or _is_same(base[name], value))
    }


def _is_same(one: Any, other: Any) -> bool:
    """By their bytes: to Python `1` is `True` and `1.0`, and a tool may see the difference."""
    return one == other and (type(one) is str or pack(one) == pack(other))


def whole(form: Mapping[str, Any], earlier: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A recorded form with what it shares with an earlier one. `earlier`: the run's orders so far, whole."""
    if _LIKE not in form:
        return dict(form)
    base = earlier[form[_LIKE]]
    found = {name: value for name, value in {**base, **form}.items() if name not in (_LIKE, _MORE)}
    if _LIMITS in form:
        found[_LIMITS] = base[_LIMITS] | form[_LIMITS]
    if _MORE in form:
        found[_CONTEXT] = [*base[_CONTEXT], *form[_MORE]]
    return found


def like(form: Mapping[str, Any]) -> str | None:
    """The earlier order of the run that this form rests on; None: it is whole."""
    return form.get(_LIKE)


def blank_receipt(receipt: Receipt) -> dict[str, Any]:
    """What OrderEnded carries; fields at their defaults are left out."""
    form = receipt.model_dump(exclude_defaults=True)
    _blank([(form.get("output_result") or {}).get("text", {})])
    return form


def hashed_bytes(receipt: Receipt) -> bytes:
    """The receipt as it reads from its recorded form, a text that has a ref blank: JSON, keys sorted at every depth."""
    form = receipt.model_dump()
    text = (form["output_result"] or {}).get("text", {})
    if text.get("ref") is not None:
        text["text"] = ""
    return _IN_ORDER(form).encode()


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


def with_segments(order: WorkOrder, changed: Callable[[Segment], Segment]) -> WorkOrder:
    """The order with each of its segments changed so."""
    exchanges = [
        exchange.model_copy(update={"text": changed(exchange.text), "results": list(map(changed, exchange.results))})
        for exchange in order.exchanges
    ]
    inputs = list(map(changed, order.input_context))
    return order.model_copy(update={"input_context": inputs, "exchanges": exchanges})


def expand_order(order: WorkOrder, texts: Mapping[str, str]) -> WorkOrder:
    """The recorded order with its texts in place."""
    return with_segments(order, lambda segment: _filled(segment, texts))


def expand_receipt(receipt: Receipt, texts: Mapping[str, str]) -> Receipt:
    """The recorded receipt with its text in place."""
    output = receipt.output_result
    if output is None:
        return receipt
    filled = output.model_copy(update={"text": _filled(output.text, texts)})
    return receipt.model_copy(update={"output_result": filled})


def _blank(segments: Iterable[dict[str, Any]]) -> None:
    """Of dumped segments; one without a ref has none in its dump."""
    for segment in segments:
        if "ref" in segment and "text" in segment:
            del segment["text"]


def _filled(segment: Segment, texts: Mapping[str, str]) -> Segment:
    return segment if segment.ref is None else segment.model_copy(update={"text": texts[segment.ref]})
