"""Follow-ups are asked for by their owner, as a host asks for what its clients say.

Nobody else need wait for a follow-up. The loss of a requester does not cancel what it asked, and what its worker does
not answer goes to another one: so a follow-up whose owner dies, before its run or in the middle of it, comes to the
next supervisor, which takes the session over and drives it on.
Source: spec pages "Session contracts" (Where it lives, and how a turn survives) and "The bus" (Redelivery).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from actors.ho2_supervisor.owner import OwnedSession
from actors.ho2_supervisor.session.commands import command_of
from bus.errors import RuntimeFault
from bus.messages.ids import follow_up_input, turn_trace
from bus.messages.session import TurnReply, TurnRequest
from bus.port import Bus
from config.schema import AdminConfig

_log = structlog.get_logger("ho2_supervisor")


class Minding:
    """Session id and follow-up -> the task that asks for its answer; each ends by itself."""

    def __init__(self, bus: Bus, config: AdminConfig, is_over: Callable[[str, str], bool]) -> None:
        self._bus = bus
        self._config = config
        self._is_over = is_over
        self._asking: dict[tuple[str, str], asyncio.Task[None]] = {}

    def mind(self, session: OwnedSession) -> None:
        """Every follow-up of the session that waits or runs is asked for, once by each owner."""
        state, memo = session.record.state, session.record.run
        active = [] if memo is None else [memo.requested.input_ref]
        refs = [ref for ref in active if follow_up_input(command_of(ref)) == state.active_input_id]
        for ref in (*refs, *state.pending_follow_up):
            key = (session.session_id, ref)
            if key not in self._asking:
                task = asyncio.get_running_loop().create_task(self._ask(session, ref))
                self._asking[key] = task
                task.add_done_callback(lambda _, key=key: self._asking.pop(key))

    async def _ask(self, session: OwnedSession, ref: str) -> None:
        """Until there is an answer, or the reason why there is none."""
        input_id, session_id = follow_up_input(command_of(ref)), session.session_id
        try:
            request = TurnRequest(session_id=session_id, input_id=input_id, text=await session.text(ref))
        except RuntimeFault as fault:
            _log.warning("follow_up_not_minded", session_id=session_id, input_id=input_id, code=fault.code)
            return  # its text is gone, or the record away: it begins when somebody next asks
        timeout_s = self._config.sessions.follow_up_timeout_ms / 1000
        give_up_at = self._bus.clock.monotonic() + timeout_s
        reply = TurnReply(result=None)
        while reply.result is None:
            wanted = request.model_copy(update={"waiting": reply.waiting})
            try:
                reply = await self._bus.request(
                    "ho2", wanted, expect=TurnReply, timeout_s=timeout_s, key=session_id,
                    trace=turn_trace(session_id, input_id),
                )  # fmt: skip
            except RuntimeFault as fault:
                is_waiting = fault.code == "expired"  # for its turn: others are before it
                if not (is_waiting or fault.retryable) or self._is_over(session_id, input_id):
                    return
                if not is_waiting and self._bus.clock.monotonic() >= give_up_at:
                    return
                usual_s = self._config.ho2.order_retry_interval_ms / 1000
                await self._bus.sleep(fault.pause_s(usual_s, self._bus.clock.random()))
                if not is_waiting:
                    continue
            give_up_at = self._bus.clock.monotonic() + timeout_s
