"""A turn that brings results of calls goes on where its session's model asked for them.

The order that asked and its receipt stand in the journal under ids that follow from the order's own. What that model
was shown, the rounds before included, is shown again as it was; its calls with their results come as one more round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.turn import order_codec
from hobus.bus.errors import LedgerError
from hobus.bus.messages.ids import caller_call_id, dispatched_id, ended_id
from hobus.bus.messages.session import OrderDispatched, OrderEnded, RunRequested
from hobus.bus.messages.work_order import Exchange, Receipt, Segment, WorkOrder
from hobus.bus.record.journal import recorded

_ROUNDS_OWN = frozenset({"prior_results", "draft", "steer"})
"""Segments that one round was told about the one before it; what was said meanwhile is told anew."""


@dataclass(frozen=True, slots=True)
class Continued:
    """What the first round of such a turn shows its model."""

    context: list[Segment]
    steers: list[Segment]
    exchanges: list[Exchange]


async def continued(session: OwnedSession, requested: RunRequested, results: Sequence[str | None]) -> Continued:
    """What was asked, and the results as the round that answers it. Raises LedgerError(erased) for what is gone."""
    order, receipt = await _asked(session, requested.continues or "")
    output = receipt.output_result
    given = {
        result.tool_call_id: Segment(ref=result.content_ref, text=text)
        for result, text in zip(requested.results, results, strict=True)
        if text is not None
    }
    if output is None or len(given) < len(requested.results):
        raise LedgerError("erased", f"a result that input {requested.input_id} brought is erased")
    run_id, turn_seq = order.fence.run_id, _round_of(order)
    ids = {caller_call_id(run_id, turn_seq, call.call_id): call for call in output.tool_calls}
    answered = {tool_call_id: call for tool_call_id, call in ids.items() if tool_call_id in given}
    exchange = Exchange(
        tool_calls=list(answered.values()),
        results=[
            given[tool_call_id].model_copy(update={"name": call.call_id}) for tool_call_id, call in answered.items()
        ],
        text=output.text,
    )
    return Continued(
        context=[segment for segment in order.input_context if segment.name not in _ROUNDS_OWN],
        steers=[segment for segment in order.input_context if segment.name == "steer" and segment.text.strip()],
        exchanges=[*order.exchanges, exchange],
    )


async def _asked(session: OwnedSession, wo_id: str) -> tuple[WorkOrder, Receipt]:
    """The order whose model asked for the calls, and its receipt, with all their texts."""
    asked, ended = await _events(session, dispatched_id(wo_id), ended_id(wo_id))
    if not isinstance(asked, OrderDispatched) or not isinstance(ended, OrderEnded):
        raise LedgerError("erased", f"order {wo_id}, whose model asked for the calls, is erased")
    order = order_codec.recorded_order(await _whole(session, asked.order))
    receipt = Receipt.model_validate(ended.receipt)
    texts = await session.texts([*order_codec.order_refs(order), *order_codec.receipt_refs(receipt)])
    return order_codec.expand_order(order, texts), order_codec.expand_receipt(receipt, texts)


async def _whole(session: OwnedSession, form: dict[str, Any]) -> dict[str, Any]:
    """An order's form with what it shares with earlier ones: the first of its kind, and that with the run's first."""
    base = order_codec.like(form)
    if base is None:
        return form
    [first] = await _events(session, dispatched_id(base))
    if not isinstance(first, OrderDispatched):
        raise LedgerError("erased", f"order {base}, whose context {form['wo_id']} shares, is erased")
    return order_codec.whole(form, {base: await _whole(session, first.order)})


async def _events(session: OwnedSession, *ids: str) -> list[Any]:
    taken = [recorded(entry) for entry in await session.entries(ids)]
    return [None if one is None else one.event.event for one in taken]


def _round_of(order: WorkOrder) -> int:
    """The round that an order's id names: `WO-<session>-<run>.<round>.<step>`."""
    return int(order.wo_id.rsplit(".", 2)[1])
