"""A call of another agent: one turn in a session of its own, asked of whichever supervisor owns that.

Session and input follow from the call's order, so that a call which is made again, after a crash or a take-over, joins
the turn that it began, or has its recorded answer. The called agent has its caller's principal, a share of its time,
and of its tokens what the order says. A run that is cancelled ends the sessions of its open calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import count

import structlog

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.session.state import SessionState
from hobus.actors.ho2_supervisor.turn.pool import make_failed_receipt
from hobus.bus import spent
from hobus.bus.errors import BusError, RuntimeFault, WorkOrderFault
from hobus.bus.messages.ids import (
    derive_body_ref,
    derive_called_session,
    derive_entry_id,
    derive_writer_id,
    format_iso,
    parse_iso,
)
from hobus.bus.messages.session import EndSession, SessionClosed, StartSession, TurnReply, TurnRequest, TurnResult
from hobus.bus.messages.work_order import Caller, Cost, OutputResult, Receipt, Segment, ToolCall, WorkOrder, move_state
from hobus.bus.port import Bus
from hobus.bus.text import is_blank
from hobus.config.called_agents import TEXT

_ASKED_AGAIN = frozenset({"moved", "peer_lost", "no_route", "busy"})
"""Of who should have answered; whatever else is said of a turn is how it ended."""
_NOT_ASKED = "has a call that waits for an approval, for which nobody is asked here; its turn was ended"
_log = structlog.get_logger("ho2_supervisor")


async def call_agent(  # noqa: PLR0913 - what a request is made of
    bus: Bus, order: WorkOrder, call: ToolCall, state: SessionState, *, attempt: int, trace: str
) -> Receipt:
    """Return the called agent's answer as the order's output, or a sentence for the caller's model why none."""
    began, code, result = bus.clock.monotonic(), "tool_failed", None
    try:
        result = await _answer(bus, order, call, state, attempt=attempt, trace=trace)
        fault = _find_fault(result)
        used = Cost() if result is None else result.cost
    except RuntimeFault as refusal:
        code = refusal.code if refusal.code in ("tool_invalid_args", "deadline_exceeded") else code
        is_asked, used = code != "tool_invalid_args", spent.read_spent(refusal)
        fault = f"did not answer: {refusal.code}: {refusal.detail}" if is_asked else f"was not asked: {refusal.detail}"
    if result is None and fault == _NOT_ASKED:
        await end_sessions(bus, [order.wo_id])
    elapsed_ms = round((bus.clock.monotonic() - began) * 1000)
    own = {"tool_calls": 1, "tool_ids_used": [call.tool_id], "elapsed_ms": elapsed_ms}
    cost, now = used.model_copy(update=own), format_iso(bus.now())
    if fault:
        turn = "" if code == "tool_invalid_args" else f" (turn {derive_called_session(order.wo_id)}-1)"
        said = f"agent {call.tool_id}{turn} {fault}"
        return make_failed_receipt(
            order.wo_id, order.fence, code, said, was="dispatched", cost=cost, by=bus.instance, at=now
        )
    ref = derive_body_ref(derive_entry_id("WO_COMPLETED", derive_writer_id(order.wo_id, bus.instance)), 1)
    text = Segment(name=call.call_id, ref=ref, text="" if result is None else result.response)
    return Receipt(
        wo_id=order.wo_id, fence=order.fence, state=move_state(order.wo_id, "executing", "completed", "ho1"),
        output_result=OutputResult(text=text), cost=cost, executed_by=bus.instance, completed_at=now,
    )  # fmt: skip


async def end_sessions(bus: Bus, wo_ids: Iterable[str]) -> None:
    """Cancel the turns of these calls and end their sessions; one that nobody can end ends at its deadline."""
    async with asyncio.TaskGroup() as group:
        for wo_id in wo_ids:
            group.create_task(_end(bus, derive_called_session(wo_id)))


async def _end(bus: Bus, session_id: str) -> None:
    message = EndSession(session_id=session_id, reason="its caller was cancelled")
    try:
        await bus.request(
            "ho2", message, expect=SessionClosed, timeout_s=2 * limits.CANCEL_GRACE_MS / 1000, key=session_id
        )
    except RuntimeFault as fault:
        _log.warning("called_session_not_ended", session_id=session_id, code=fault.code)


async def _answer(  # noqa: PLR0913 - as above
    bus: Bus, order: WorkOrder, call: ToolCall, state: SessionState, *, attempt: int, trace: str
) -> TurnResult | None:
    """Ask the called agent; None: it waits for an approval. Raises RuntimeFault for a failed or late turn."""
    request, clock = _make_request(order, call, state), bus.clock
    due_s = 0.0 if state.deadline_at is None else parse_iso(state.deadline_at) - bus.now()
    give_up = clock.monotonic() + due_s * limits.CALLED_TIME_SHARE
    for number in count(1):
        if (left_s := give_up - clock.monotonic()) <= 0:
            break
        try:
            reply = await bus.request(
                "ho2", request, expect=TurnReply, timeout_s=left_s, key=request.session_id, trace=trace,
                message_id=f"turn:{request.session_id}/{request.input_id}/{attempt}.{number}",
            )  # fmt: skip
        except RuntimeFault as fault:
            if fault.code not in _ASKED_AGAIN:
                raise
            await bus.sleep(fault.pause_s(limits.ORDER_RETRY_INTERVAL_MS / 1000, clock.random()))
            continue
        if reply.result is not None or reply.waiting == "WaitingInput":
            return reply.result
        request = request.model_copy(update={"waiting": reply.waiting})
    raise BusError("expired", "its share of the turn's time was over")


def _make_request(order: WorkOrder, call: ToolCall, state: SessionState) -> TurnRequest:
    text = call.arguments.get(TEXT)
    if not isinstance(text, str) or is_blank(text) or len(call.arguments) != 1:
        raise WorkOrderFault("tool_invalid_args", f"takes one argument, {TEXT!r}: the task in words")
    session_id = derive_called_session(order.wo_id)
    return TurnRequest(
        session_id=session_id, input_id=order.wo_id, text=text, agent_id=call.tool_id, called_by=order.wo_id,
        start=StartSession(session_id=session_id, agent_id=call.tool_id, principal=state.principal),
        tokens_max=order.constraints.token_budget,
        callers=[Caller(session_id=order.session_id, agent_id=order.agent_id), *order.constraints.callers],
    )  # fmt: skip


def _find_fault(result: TurnResult | None) -> str:
    """Return why this is no answer; empty: it is one."""
    if result is None:
        return _NOT_ASKED
    if result.outcome != "success":
        return f"did not answer: {result.code}: {result.response}"
    return f"refused: {result.response}" if result.refused else ""
