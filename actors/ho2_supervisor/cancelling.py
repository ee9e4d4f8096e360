"""How a cancelled run is closed: what became of its open orders is read, what has no end gets one; then RunCancelled.

Nothing is issued here. What an executor recorded in time is journaled as it is and ignored as stale; an order that has
no end within `CANCEL_GRACE_MS` (limits.py) is ended by HO2, so that whatever comes later is kept as WO_LATE.
"""

from __future__ import annotations

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.limits import CANCEL_GRACE_MS
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.resources import Resources
from hobus.actors.ho2_supervisor.session.record import RunMemo
from hobus.actors.ho2_supervisor.session_end import end_with_call
from hobus.actors.ho2_supervisor.turn import agent_calls, chain
from hobus.actors.ho2_supervisor.turn.effects import append_end, end_lost
from hobus.actors.ho2_supervisor.turn.verdicts import make_verdict_result
from hobus.bus.limits import REASON_MAX_CHARS
from hobus.bus.messages.ids import derive_turn_key, end_key, parse_iso
from hobus.bus.messages.session import ToolCallSummary, TurnResult
from hobus.bus.record.journal import pack_result
from hobus.bus.record.payloads.orders import read_receipt
from hobus.bus.record.session_facts import RunCancelled, ToolReceipt
from hobus.bus.text import shorten

CANCELLED = "cancelled"


async def close(resources: Resources, session: OwnedSession, memo: RunMemo, *, trace: str) -> TurnResult:
    """Close a cancelled run: end its open orders, make its one answer durable, return it. Raises as an append does."""
    await session.barrier()
    agents, open_orders = resources.snapshot.agents, session.record.state.open_orders
    calls = {wo_id: memo.orders[wo_id].tool_call for wo_id in open_orders}
    await agent_calls.end_sessions(
        resources.bus, [wo_id for wo_id, call in calls.items() if call and call.tool_id in agents]
    )
    clock = resources.bus.clock
    give_up = clock.monotonic() + CANCEL_GRACE_MS / 1000
    while session.record.state.open_orders:
        await _take_ends(resources, session, trace)
        left_s = give_up - clock.monotonic()
        if left_s <= 0 or not session.record.state.open_orders:
            break
        await resources.bus.sleep(min(left_s, limits.CANCEL_POLL_MS / 1000))
    await end_orders(resources, session, memo, trace=trace)
    _close_calls(session, trace)
    run = session.record.state.run
    reason = (run.cancel_reason if run is not None else None) or None
    result = _make_result(session, memo, reason, now=resources.bus.now())
    session.append(
        RunCancelled(
            input_id=memo.requested.input_id,
            reason=reason,
            at=session.now(),
        ),
        bodies=[pack_result(result)],
        once=derive_turn_key(session.session_id, memo.requested.input_id),
        trace=trace,
    )
    end_with_call(session, memo.requested, trace=trace)
    await session.barrier()
    return result


async def end_orders(resources: Resources, session: OwnedSession, memo: RunMemo, *, trace: str) -> None:
    """Give every open order of the run the end that its executor recorded, else one made here."""
    for wo_id in session.record.state.open_orders:
        receipt = await end_lost(resources, session, memo.orders[wo_id], None, trace=trace)
        append_end(session, receipt, trace=trace)


async def _take_ends(resources: Resources, session: OwnedSession, trace: str) -> None:
    open_orders = session.record.state.open_orders
    found = await resources.client.lookup(once=[end_key(wo_id) for wo_id in open_orders], with_bodies=True)
    for entry in found:
        receipt = entry and read_receipt(entry)
        if receipt is not None:
            append_end(session, receipt, trace=trace)


def _close_calls(session: OwnedSession, trace: str) -> None:
    """Close calls that were never sent, under the batch's own fence, which is stale by now."""
    state = session.record.state
    batch = state.tool_batch
    for call_id in [] if batch is None else batch.expected_call_ids:
        if batch is None or batch.call_status[call_id].is_terminal:
            continue
        session.append(
            ToolReceipt(
                tool_batch_id=batch.tool_batch_id,
                call_id=call_id,
                status="Cancelled",
                code=CANCELLED,
                session_epoch=state.session_epoch - 1,
                step_epoch=batch.issued_at_step_epoch,
                at=session.now(),
            ),
            trace=trace,
        )


def _make_result(session: OwnedSession, memo: RunMemo, reason: str | None, *, now: float) -> TurnResult:
    elapsed_ms = max(0, round((now - parse_iso(memo.requested.at)) * 1000))
    return make_verdict_result(
        CANCELLED,
        session_id=session.session_id,
        run_id=memo.run_id,
        input_id=memo.requested.input_id,
        receipts=[*memo.receipts.values()],
        elapsed_ms=elapsed_ms,
        tool_calls=_summarise_calls(session, memo),
        detail=shorten(reason or "", REASON_MAX_CHARS),
    )


def _summarise_calls(session: OwnedSession, memo: RunMemo) -> list[ToolCallSummary]:
    """Summarise each call that was sent; those of the batch that was open are ignored as stale."""
    run, batch = session.record.state.run, session.record.state.tool_batch
    stale = set() if batch is None else {c for c, status in batch.call_status.items() if status.state == "IgnoredStale"}
    summaries: list[ToolCallSummary] = []
    for wo_id, order in memo.orders.items():
        call, receipt = order.tool_call, memo.receipts.get(wo_id)
        if call is None or receipt is None:
            continue
        is_stale = call.call_id in stale and run is not None and wo_id in run.step_orders
        summaries.append(chain.summarise_call(call.tool_id, receipt, is_stale=is_stale))
    return summaries
