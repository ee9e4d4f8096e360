"""How an order gets its receipt from the pool of executors, and what stands for one that it never gave."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.limits import ORDER_ATTEMPTS_MAX
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.control import HELD_FOR, SEPARATOR
from hobus.bus.messages.transcript import Told, goes_on
from hobus.bus.messages.work_order import (
    Cost,
    ExecuteWorkOrder,
    Fence,
    Receipt,
    WorkOrder,
    WorkOrderError,
    WorkOrderState,
    move_state,
)
from hobus.bus.port import Bus
from hobus.bus.streaming import Draft

HO1 = "ho1"


async def ask_for_receipt(  # noqa: PLR0913 - what a request is made of
    bus: Bus,
    order: WorkOrder,
    *,
    first_attempt: int,
    trace: str,
    holder: str = "",
    draft: Draft | None = None,
    due_at: str | None = None,
    told: Told | None = None,
    dispatched: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> Receipt:
    """Ask the pool for the receipt, again while that may help; pieces of an answer go to `draft` if it is watched.

    `holder`: for whom a tool's server keeps state, if the order is a call of one. `told`: what the gateway has of its
    history; only the first attempt relies on that. `dispatched`: waits until the order's record stands, and raises if
    it never will; an attempt may have failed by that. Raises RuntimeFault when nobody answers within the order's
    time-out.
    """
    clock = bus.clock
    give_up = clock.monotonic() + order.constraints.timeout_seconds
    fault: RuntimeFault | None = None
    for attempt in range(first_attempt, first_attempt + ORDER_ATTEMPTS_MAX):
        left_s = give_up - clock.monotonic()
        if left_s <= 0:
            break
        watched = draft if draft is not None and draft.is_watched else None
        if watched is not None:
            watched.begin(order.wo_id, attempt)
        given = goes_on(order, told) if attempt == 1 else order
        try:
            receipt = await bus.request(
                HO1,
                ExecuteWorkOrder(
                    order=given, attempt=attempt, stream=watched is not None, due_at=due_at,
                    is_dispatching=dispatched is not None,
                ),
                expect=Receipt, timeout_s=left_s, message_id=order.wo_id, attempt=attempt, trace=trace,
                key=_find_key(order, holder),
                on_stream=None if watched is None else watched.relay,
            )  # fmt: skip
        except RuntimeFault as refusal:
            fault = refusal
            if dispatched is not None:
                await dispatched()
                dispatched = None
            if not refusal.retryable:
                break
            await bus.sleep(refusal.pause_s(limits.ORDER_RETRY_INTERVAL_MS / 1000, clock.random()))
            continue
        if (receipt.wo_id, receipt.fence) == (order.wo_id, order.fence):
            return receipt
        fault = RuntimeFault("malformed", f"a receipt of {receipt.wo_id} for {order.wo_id}")
        break
    raise fault or RuntimeFault("expired", "no attempt fitted into the time-out")


def _find_key(order: WorkOrder, holder: str) -> str:
    """Return the tool that the order needs, with the holder of its server's state: the call goes where that is."""
    tool_id = "" if order.tool_call is None else order.tool_call.tool_id
    return f"{tool_id}{HELD_FOR}{holder}" if SEPARATOR in tool_id else tool_id


def make_lost_receipt(
    order: WorkOrder, fault: RuntimeFault | None, *, by: str, at: str, is_begun: bool = False
) -> Receipt:
    """End an order that nobody answered; `fault`: why nobody did; None: its run was cancelled.

    What a model call may have cost is unknown; a tool call costs no money, whatever became of it. `is_begun`: its tool
    was, and must not run twice: `failed` would be an invitation to run it again.
    """
    code, message = (
        ("cancelled", "the run was cancelled; this order had no end by then")
        if fault is None
        else (_choose_code(order, fault), f"{fault.code}: {fault.detail}")
    )
    cost, call = Cost(cost_usd=None if order.tool_call is None else 0.0), order.tool_call
    if is_begun and call is not None:
        code, message = "unknown_outcome", f"{call.tool_id} was begun and must not run twice; {message}"
        cost = Cost(cost_usd=0.0, tool_calls=1, tool_ids_used=[call.tool_id])
    return make_failed_receipt(order.wo_id, order.fence, code, message, was=order.state, cost=cost, by=by, at=at)


def make_failed_receipt(  # noqa: PLR0913 - the facts of a Receipt
    wo_id: str, fence: Fence, code: str, message: str, *, was: WorkOrderState, cost: Cost, by: str, at: str
) -> Receipt:
    """Build a receipt where no executor gave one; `was`: as far as the order had come."""
    return Receipt(
        wo_id=wo_id,
        fence=fence,
        state=move_state(wo_id, was, "failed", "ho2"),
        error=WorkOrderError(code=code, message=message),
        cost=cost,
        executed_by=by,
        completed_at=at,
    )


def _choose_code(order: WorkOrder, fault: RuntimeFault) -> str:
    """Return why an order without a receipt failed: final where no worker announces its tool, else it may pass."""
    if order.tool_call is not None and not fault.retryable and fault.code == "no_route":
        return "tool_not_found"
    return "deadline_exceeded" if fault.code == "expired" else "execution_error"
