"""The calls that a model asked for at once: each an order of its own, in parallel over the pool, until all have an end.

Calls that need an approval run when they have it, after the others; a denied one runs never. Rules that say which calls
need one are asked first, in a batch of their own. One that the model got wrong, as of a tool that it made up, is no
order: its model is told, and nobody looks for a worker that never comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hobus.actors.ho2_supervisor.ownership.owner import AppendRefused
from hobus.actors.ho2_supervisor.session.commands import DENIED
from hobus.actors.ho2_supervisor.turn import chain, pool, work_orders
from hobus.actors.ho2_supervisor.turn.effects import OpenOrder
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.actors.ho2_supervisor.turn.work_orders import OrderContext
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import make_from
from hobus.bus.messages.ids import ToolBatchId, derive_held_id, get_position, work_order_id
from hobus.bus.messages.work_order import Cost, Receipt, ToolCall
from hobus.bus.record.session_facts import LifecycleChanged, ToolBatchIssued, ToolReceipt
from hobus.config.assets import list_approval_rules, names, needs_approval
from hobus.config.sections.tools import ToolsConfig


async def settle(
    run: Run, asked: Sequence[ToolCall], *, invented: Collection[str], parent_wo_id: str | None
) -> list[Receipt]:
    """Bring every call to its end in the journal; return the receipts in call order."""
    context = await run.begin_step()
    batch = _CallBatch(run, context, ToolBatchId(step_id=context.step_id, batch_seq=1), parent_wo_id)
    tools = run.config.tools
    mistaken = {call.call_id: why for call in asked if (why := batch.find_mistake(call, invented)) is not None}
    may_run = [call for call in asked if call.call_id not in mistaken and names(context.agent.tools, call.tool_id)]
    to_ask = [call for call in may_run if needs_approval(tools, call.tool_id)]  # nobody approves what is refused
    if questions := [one for call in may_run if call not in to_ask for one in _list_questions(tools, call)]:
        judged = zip(questions, await batch.settled(questions, held=[], mistaken={}), strict=True)
        stopped = {one.call_id.partition(".")[0] for one, receipt in judged if not _is_harmless(receipt)}
        to_ask = [call for call in may_run if call in to_ask or call.call_id in stopped]
        batch = replace(batch, batch_id=ToolBatchId(step_id=context.step_id, batch_seq=2))
    turn = context.step_id.turn_id
    place = f"{turn.run_id.run_seq}.{turn.turn_seq}"
    held = [derive_held_id(call.call_id, call.tool_id, call.arguments, place) for call in to_ask]
    return await batch.settled(asked, held=held, mistaken=mistaken)


def _list_questions(tools: ToolsConfig, call: ToolCall) -> list[ToolCall]:
    """Return the call as each rule about its tool judges it."""
    return [
        ToolCall(call_id=f"{call.call_id}.{number}", tool_id=rule, arguments=call.arguments)
        for number, rule in enumerate(list_approval_rules(tools, call.tool_id), 1)
    ]


def _is_harmless(receipt: Receipt) -> bool:
    """Return whether a rule said false; a rule that failed lets no call pass."""
    return receipt.output_result is not None and receipt.output_result.text.text == "false"


def _get_first(group: BaseExceptionGroup[Exception]) -> Exception:
    found = group.exceptions[0]
    return _get_first(found) if isinstance(found, BaseExceptionGroup) else found


class _CallBatch(Struct, frozen=True):
    """Bring the calls of one batch to their ends."""

    run: Run
    context: OrderContext
    batch_id: ToolBatchId
    parent_wo_id: str | None  # the order whose model asked for them; None: an operator did

    async def settled(
        self, asked: Sequence[ToolCall], *, held: list[str], mistaken: Mapping[str, Receipt]
    ) -> list[Receipt]:
        """Return the receipts of these calls, in their order; a held call waits for its approval."""
        effects, session = self.run.effects, self.run.session
        call_ids, needs_other = [call.call_id for call in asked], self.context.agent.approval.by == "other"
        issued = ToolBatchIssued(
            tool_batch_id=self.batch_id, call_ids=call_ids, held=held, needs_other=needs_other, at=session.now()
        )
        effects.step(issued)
        ended = {call.call_id: self.ended(call, mistaken[call.call_id]) for call in asked if call.call_id in mistaken}
        while left := [call for call in asked if call.call_id not in ended]:
            state = session.record.state
            active = state.tool_batch
            is_active = active is not None and active.tool_batch_id == self.batch_id
            waiting = [get_position(name) for name in active.held] if active is not None and is_active else []
            ready = [call for call in left if call.call_id not in waiting]
            if ready:
                beside = len(state.open_orders) - len(state.awaited_orders)
                ended |= await self.run_wave(ready[: state.max_in_flight_effects - beside])
                continue
            if state.lifecycle == "Running" and not state.pause_requested:
                effects.step(LifecycleChanged(lifecycle="WaitingInput", at=session.now()))
            await self.run.boundary()
        receipts = [ended[call_id] for call_id in call_ids]
        # Receipts arrive in any order; the chain has them in call order.
        for receipt in receipts:
            if receipt.wo_id in effects.receipts:
                effects.receipts[receipt.wo_id] = effects.receipts.pop(receipt.wo_id)
        return receipts

    async def run_wave(self, calls: Sequence[ToolCall]) -> dict[str, Receipt]:
        """Run as many calls as may be in flight at once: dispatched in one write, sent together, all awaited."""
        run, effects = self.run, self.run.effects
        timeout_s = run.compute_order_timeout_s()
        pending: dict[str, OpenOrder] = {}
        of_agents = [call for call in calls if call.tool_id in run.resources.snapshot.agents]
        used = sum(receipt.cost.total_tokens for receipt in effects.receipts.values())
        shared = max(1, (run.budget_tokens - used) // max(1, len(of_agents)))
        for call in calls:
            if self._find_denial(call) is None:
                planned = work_orders.make_tool_call(
                    self.context, call, token_budget=shared if call in of_agents else run.budget_tokens,
                    timeout_seconds=timeout_s, parent_wo_id=self.parent_wo_id,
                )  # fmt: skip
                pending[call.call_id] = await effects.pending(planned)
        await effects.dispatch(list(pending.values()))
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    call.call_id: group.create_task(self._finish(pending[call.call_id]))
                    for call in calls
                    if call.call_id in pending
                }
        except* (AppendRefused, RuntimeFault) as lost:  # their journal is: the first one says why
            raise _get_first(lost) from None
        return {
            call.call_id: tasks[call.call_id].result() if call.call_id in tasks else self._make_denied(call)
            for call in calls
        }

    def ended(self, call: ToolCall, receipt: Receipt) -> Receipt:
        """Record the end of a call that no order was sent for; return its receipt."""
        end = {"status": chain.call_status(receipt), "code": chain.get_failure_code(receipt)}
        about = {"tool_batch_id": self.batch_id, "call_id": call.call_id, "at": self.run.session.now()}
        self.run.effects.step(make_from(ToolReceipt, receipt.fence, **about, **end))
        return receipt

    def find_mistake(self, call: ToolCall, invented: Collection[str]) -> Receipt | None:
        """Return the receipt of a call that its model got wrong; None: it can be made."""
        if call.fault:
            return self._make_unmade(call, "tool_invalid_args", f"nothing was run: {call.tool_id[:64]}: {call.fault}")
        if call.tool_id not in invented:
            return None
        named, is_own = repr(call.tool_id[:64]), names(self.context.agent.tools, call.tool_id)  # required: theirs alone
        said = f"tool {named} is not offered for this answer" if is_own else f"there is no tool {named}"
        return self._make_unmade(call, "tool_not_found", f"{said}; only the tools that were offered can be called")

    async def _finish(self, pending: OpenOrder) -> Receipt:
        receipt, session = await self.run.effects.finish(pending), self.run.session
        if session.record.state.open_orders:
            session.flush()  # other calls may run for long; the last one leaves with the next step's write
        return receipt

    def _find_denial(self, call: ToolCall) -> str | None:
        """Return why an operator refused the call; None: nobody did."""
        return self.run.memo.denied.get(f"{self.batch_id}.{call.call_id}")

    def _make_denied(self, call: ToolCall) -> Receipt:
        """Return the receipt of a call that an operator refused."""
        reason = self._find_denial(call) or ""
        return self._make_unmade(call, DENIED, f"the operator refused this call{reason and ': '}{reason}")

    def _make_unmade(self, call: ToolCall, code: str, message: str) -> Receipt:
        """Return the receipt of a call for which no order was made."""
        wo_id, session = work_order_id(self.context.step_id, call.call_id), self.run.session
        return pool.make_failed_receipt(
            wo_id, self.context.fence, code, message,
            was="planned", cost=Cost(), by=self.run.resources.bus.instance, at=session.now(),
        )  # fmt: skip
