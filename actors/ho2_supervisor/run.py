"""One run as its turn sees it: `step` (journal + reduce), `order` and `calls` (memo, dispatch, receipt).

Driven again after a crash or a take-over, the same calls in the same order answer from the journal at once: a recorded
step is not recorded again, an ended order gives its recorded receipt, an order without end is sent again with the same
bytes under the next attempt.
Source: spec pages "Session contracts" (Where it lives, and how a turn survives) and "Work orders".
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from actors.ho2_supervisor import chain, composed, pool, recorded_form, work_orders
from actors.ho2_supervisor.composed import Shown
from actors.ho2_supervisor.history import History
from actors.ho2_supervisor.learning import Learning
from actors.ho2_supervisor.own_entries import OwnEntries
from actors.ho2_supervisor.owner import BodyMissing, OwnedSession
from actors.ho2_supervisor.session.commands import DENIED
from actors.ho2_supervisor.session.leases import FIRST
from actors.ho2_supervisor.session.record import RunMemo, step_key
from actors.ho2_supervisor.waiting import Waiting, standstill_of
from actors.ho2_supervisor.work_orders import OrderContext
from bus.errors import LedgerError, RuntimeFault, WorkOrderFault
from bus.messages.base import pack
from bus.messages.ids import (
    RunId,
    StepId,
    ToolBatchId,
    TurnId,
    body_ref,
    dispatched_id,
    iso,
    lease_id_of,
    parse_iso,
    work_order_id,
)
from bus.messages.session import (
    BatchSettled,
    LeaseIssued,
    LifecycleChanged,
    OrderDispatched,
    OrderEnded,
    RunConfig,
    RunRequested,
    RunStarted,
    SessionEventKind,
    StepStarted,
    ToolBatchIssued,
    ToolReceipt,
)
from bus.messages.work_order import Cost, Receipt, Segment, ToolCall, WorkOrder, WorkOrderError
from bus.port import Bus
from bus.streaming import Draft
from bus.turnstile import Ticket
from config.approvals import needs_approval
from config.assets import Agent
from config.schema import AdminConfig


@dataclass(slots=True)
class _Pending:
    """An order on its way: what to send under which attempt, or the receipt that the journal holds."""

    order: WorkOrder
    attempt: int
    receipt: Receipt | None = None


class Run:
    """The active run of one session, at one attempt to drive it."""

    def __init__(  # noqa: PLR0913 - what a run stands on
        self,
        *,
        session: OwnedSession,
        memo: RunMemo,
        bus: Bus,
        config: AdminConfig,
        agent: Agent,
        own_entries: OwnEntries,
        learning: Learning | None,
        trace: str,
        draft: Draft,
        waiting: Waiting,
        ticket: Ticket,
    ) -> None:
        if memo.input_text is None:
            raise LedgerError("erased", f"the text of input {memo.requested.input_id} is erased")
        self.session = session
        self.config = config
        self.agent = agent
        self.own_entries = own_entries
        self.learning = learning  # None: memory is off
        self.trace = trace
        self.draft = draft
        draft.run = str(memo.run_id)
        self.input_text: str = memo.input_text
        self.input_id = memo.requested.input_id
        self.input_ref = memo.requested.input_ref
        self.requested_at = memo.requested.at  # the turn's event time
        self.receipts: dict[str, Receipt] = {}
        self.round_count = 0
        self.steers: list[Segment] = []  # what operators said to the run and its rounds have observed, in order
        self._waiting = waiting
        self._ticket = ticket
        self._memo = memo
        self._bus = bus
        self._step_seq = 0
        self._text_refs: dict[str, str] = {}
        self._steps: dict[tuple[int, int], StepId] = {}  # by round and step
        self._composed: dict[str, Sequence[Shown]] = {}  # text -> its parts

    # --- facts --------------------------------------------------------------------------------------------------------

    @property
    def run_id(self) -> RunId:
        """Which run this is."""
        return self._memo.run_id

    @property
    def history(self) -> History:
        """What was said before this run."""
        return self.session.record.history

    @property
    def run_config(self) -> RunConfig:
        """The configuration frozen at RunStarted."""
        run = self.session.record.state.run
        if run is None or run.config is None:
            raise AssertionError(f"run {self.run_id} has not started")
        return run.config

    @property
    def budget_tokens(self) -> int:
        """What the run's answer may use, prompts and answers of all its rounds."""
        return self.agent.budget_tokens("synthesize", self.config.budget)

    @property
    def requested(self) -> RunRequested:
        """How the run began."""
        return self._memo.requested

    @property
    def given(self) -> tuple[str | None, ...]:
        """The results of calls that its input brings, in order; None where one was erased."""
        return self._memo.results

    @property
    def is_classified(self) -> bool:
        """Whether its first round is a classification: as the journal has it, else as it is configured.

        Results of calls are no message that could be classified.
        """
        if self.requested.continues is not None:
            return False
        first = self._memo.orders.get(work_order_id(self._step(1, 1)))
        return self.config.ho2.classify if first is None else first["wo_type"] == "classify"

    @property
    def elapsed_ms(self) -> int:
        """Since the run was requested, by the wall clock (a run may outlive its process)."""
        return max(0, round((self._bus.now() - parse_iso(self._memo.requested.at)) * 1000))

    def remaining_s(self) -> float:
        """Until the run's deadline, which an attached request may have moved; never negative. Waiting uses none."""
        run = self.session.record.state.run
        if run is None:
            return 0.0
        now = self._bus.now() if run.waiting_since is None else parse_iso(run.waiting_since)
        return max(0.0, parse_iso(run.deadline_at) - now)

    def timeout_s(self, limit_ms: int) -> float:
        """An order's own time-out. Raises WorkOrderFault when the run has no time left.

        The run's deadline is not in it: an attached request may move that while the order is on its way. When it
        passes, the drive is cancelled, and with it the request, wherever it is. Whoever shares the time out is told of
        the deadline as it stands (`due_at` of ExecuteWorkOrder).
        """
        if self.remaining_s() <= 0:
            raise WorkOrderFault("deadline_exceeded", f"run {self.run_id} is past its deadline")
        return limit_ms / 1000

    # --- steps --------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """RunStarted: the run's configuration is frozen; its lease begins, if its requester asked for one."""
        self.step(RunStarted(at=self.session.now()))
        terms = self._memo.requested.lease
        if terms is None:
            return
        issued_at = self.session.now()
        self.step(
            LeaseIssued(
                lease_id=lease_id_of(self.run_id, FIRST),
                issued_at=issued_at,
                expires_at=iso(parse_iso(issued_at) + terms.ttl_secs),
                heartbeat_timeout_secs=terms.heartbeat_timeout_secs,
                at=issued_at,
            )
        )

    async def new_round(self) -> OrderContext:
        """The first step of the next model round, once the run may go on; it observes the steers that are pending."""
        self.round_count += 1
        self._step_seq = 0
        return await self.new_step()

    async def new_step(self) -> OrderContext:
        """A step boundary, once the run may go on; what an order of this step carries."""
        self._step_seq += 1
        step_id = self._step(self.round_count, self._step_seq)
        now = self.session.now()
        if f"StepStarted:{step_id}" not in self._memo.steps:
            await self.boundary()
            now = self.session.now()
            is_new_round = self._step_seq == 1
            steers = list(self.session.record.state.pending_steer) if is_new_round else []
            self.step(StepStarted(step_id=step_id, new_round=is_new_round, steers=steers, at=now))
        context = OrderContext(
            step_id=step_id,
            fence=self.session.record.state.fence,
            agent=self.agent,
            package_id=self.session.package_id,
            config_digest=self._memo.requested.config_digest,
            planned_at=now,
            budget_mode=self.config.budget.budget_mode,
        )
        for ref in self._memo.steers.get(str(step_id), ()):
            text = self._memo.said.get(ref)
            self.steers.append(
                Segment(name="steer", ref=ref, text=await self.session.text(ref) if text is None else text)
            )
        return context

    async def boundary(self) -> None:
        """Returns once the run may issue effects: it is neither paused nor waits for approvals, and has its turn."""
        while True:
            has_stood_still = await self._stand_still()
            if self.receipts or has_stood_still:  # the turn of its first step was its beginning
                await self._ticket.turn()
            state = self.session.record.state
            is_paused = state.pause_requested and not state.open_orders
            if not is_paused and standstill_of(state.lifecycle) is None:
                return

    async def _stand_still(self) -> bool:
        """Returns once the run was resumed, or its held calls were decided: True; at once if it is at work: False.

        That it stands still is durable before anybody is told.
        """
        while True:
            state = self.session.record.state
            if state.pause_requested and not state.open_orders:
                self.step(LifecycleChanged(lifecycle="Paused", at=self.session.now()))
            elif (standstill := standstill_of(state.lifecycle)) is None:
                break
            elif self._waiting.standstill == standstill:
                await self._waiting.stand_still(standstill)
                continue
            await self.session.barrier()
            state = self.session.record.state
            if not state.pause_requested and (standstill := standstill_of(state.lifecycle)) is not None:
                await self._waiting.stand_still(standstill)
        if self._waiting.standstill is None:
            return False
        self._waiting.go_on(self._bus.clock.monotonic() + self.remaining_s())
        return True

    @property
    def is_steered(self) -> bool:
        """Whether somebody has said something that no round has observed; as the journal has it if it goes on."""
        step_id = self._step(self.round_count + 1, 1)
        if f"StepStarted:{step_id}" in self._memo.steps:
            return bool(self._memo.steers.get(str(step_id)))
        return bool(self.session.record.state.pending_steer)

    def step(self, event: SessionEventKind, *, bodies: Sequence[bytes] = ()) -> None:
        """The event is journaled, unless an earlier drive of this run did so."""
        if step_key(event) not in self._memo.steps:
            self.session.append(event, bodies=bodies, trace=self.trace)

    def is_round_recorded(self, number: int) -> bool:
        """Whether an earlier drive of this run began this round."""
        return f"StepStarted:{self._step(number, 1)}" in self._memo.steps

    async def recorded_inputs(self, round_number: int) -> list[Segment] | None:
        """The input_context of the order that an earlier drive of this run sent in this round; None: it sent none."""
        recorded = self._memo.orders.get(work_order_id(self._step(round_number, 1)))
        if recorded is None:
            return None
        order = recorded_form.recorded_order(recorded)
        texts = await self.session.texts(recorded_form.order_refs(order))
        return recorded_form.expand_order(order, texts).input_context

    def one_segment(self, name: str, parts: Sequence[Shown]) -> list[Segment]:
        """The parts as one text, which the order that shows it first records by naming them; none for no parts."""
        if len(parts) <= 1:
            return [Segment(name=name, ref=part.ref, text=part.text) for part in parts]
        segment = composed.whole(name, parts)
        self._composed[segment.text] = parts
        return [segment]

    # --- orders -------------------------------------------------------------------------------------------------------

    async def order(self, planned: WorkOrder) -> Receipt:
        """The receipt of this order, recorded once; dispatched only after that is durable."""
        pending = await self._pending(planned)
        await self._dispatch([pending])
        return await self._finish(pending)

    async def calls(self, asked: Sequence[ToolCall], *, invented: Collection[str], parent_wo_id: str) -> list[Receipt]:
        """One batch: every call as an order of its own, in parallel over the pool, settled; receipts in call order.

        Calls that need an approval run when they have it, after the others; a denied one runs never. One of a tool that
        the model made up (`invented`) is no order: whoever looked for it would wait for a worker that never comes.
        """
        context = await self.new_step()
        batch_id = ToolBatchId(step_id=context.step_id, batch_seq=1)
        call_ids = [call.call_id for call in asked]
        held = [
            call.call_id
            for call in asked
            if call.tool_id not in invented and needs_approval(self.config.tools, call.tool_id)
        ]
        self.step(ToolBatchIssued(tool_batch_id=batch_id, call_ids=call_ids, held=held, at=self.session.now()))
        ended = {
            call.call_id: self._settle(batch_id, call, self._unmade(context, call, *_not_found(call)))
            for call in asked
            if call.tool_id in invented
        }
        while left := [call for call in asked if call.call_id not in ended]:
            state = self.session.record.state
            batch = state.tool_batch
            waiting = batch.held if batch is not None and batch.tool_batch_id == batch_id else []
            ready = [call for call in left if call.call_id not in waiting]
            if ready:
                wave = ready[: state.max_in_flight_effects]
                receipts = await self._wave(context, batch_id, wave, parent_wo_id)
                ended |= dict(zip((call.call_id for call in wave), receipts, strict=True))
                continue
            if state.lifecycle == "Running" and not state.pause_requested:
                self.step(LifecycleChanged(lifecycle="WaitingInput", at=self.session.now()))
            await self.boundary()
        receipts = [ended[call.call_id] for call in asked]
        # Receipts arrive in any order; the chain has them in call order.
        for receipt in receipts:
            if receipt.wo_id in self.receipts:
                self.receipts[receipt.wo_id] = self.receipts.pop(receipt.wo_id)
        results = [
            [call.call_id, receipt.state, chain.failure_code(receipt)]
            for call, receipt in zip(asked, receipts, strict=True)
        ]
        results_ref = f"{self.session.new_id('BatchSettled')}/1"
        settled = BatchSettled(tool_batch_id=batch_id, results_ref=results_ref, at=self.session.now())
        self.step(settled, bodies=[pack(results)])
        return receipts

    async def _wave(
        self, context: OrderContext, batch_id: ToolBatchId, wave: Sequence[ToolCall], parent_wo_id: str
    ) -> list[Receipt]:
        """As many calls as may be in flight at once: dispatched in one write, sent together, all awaited."""
        timeout_s = self.timeout_s(self.config.ho2.order_timeout_ms)
        pending: dict[str, _Pending] = {}
        for call in wave:
            if f"{batch_id}.{call.call_id}" in self._memo.denied:
                continue
            planned = work_orders.tool_call(
                context, call, token_budget=self.budget_tokens, timeout_seconds=timeout_s, parent_wo_id=parent_wo_id
            )
            pending[call.call_id] = await self._pending(planned)
        await self._dispatch(list(pending.values()))
        async with asyncio.TaskGroup() as group:
            tasks = {
                call.call_id: group.create_task(self._call(batch_id, call, pending[call.call_id]))
                for call in wave
                if call.call_id in pending
            }
        return [
            tasks[call.call_id].result() if call.call_id in tasks else self._denied(context, batch_id, call)
            for call in wave
        ]

    def _denied(self, context: OrderContext, batch_id: ToolBatchId, call: ToolCall) -> Receipt:
        """What stands for a call that an operator refused."""
        reason = self._memo.denied[f"{batch_id}.{call.call_id}"]
        return self._unmade(context, call, DENIED, f"the operator refused this call{reason and ': '}{reason}")

    def _unmade(self, context: OrderContext, call: ToolCall, code: str, message: str) -> Receipt:
        """What stands for the order of a call of which none was made."""
        return Receipt(
            wo_id=work_order_id(context.step_id, call.call_id),
            fence=context.fence,
            state="failed",
            error=WorkOrderError(code=code, message=message),
            cost=Cost(),
            executed_by=self._bus.instance,
            completed_at=self.session.now(),
        )

    async def _call(self, batch_id: ToolBatchId, call: ToolCall, pending: _Pending) -> Receipt:
        receipt = self._settle(batch_id, call, await self._finish(pending))
        if self.session.record.state.open_orders:
            self.session.flush()  # other calls may run for long; the last one leaves with the next step's write
        return receipt

    def _settle(self, batch_id: ToolBatchId, call: ToolCall, receipt: Receipt) -> Receipt:
        """The call has its end in the batch; returns the receipt."""
        self.step(
            ToolReceipt(
                tool_batch_id=batch_id,
                call_id=call.call_id,
                status=chain.call_status(receipt),
                code=chain.failure_code(receipt),
                session_epoch=receipt.fence.session_epoch,
                step_epoch=receipt.fence.step_epoch,
                at=self.session.now(),
            )
        )
        return receipt

    async def _pending(self, planned: WorkOrder) -> _Pending:
        """What the journal holds of this order, else the planned one, journaled as dispatched."""
        recorded = self._memo.orders.get(planned.wo_id)
        if recorded is None:
            return self._planned(planned)
        order = recorded_form.recorded_order(recorded)
        ended = self._memo.receipts.get(planned.wo_id)
        if ended is not None:
            receipt = Receipt.model_validate(ended)
            return _Pending(order, 0, recorded_form.expand_receipt(receipt, await self._texts_of(receipt)))
        texts = await self.session.texts(recorded_form.order_refs(order))
        attempt = 2 + self.session.tenure - self._memo.dispatched_in[planned.wo_id]
        return _Pending(recorded_form.expand_order(order, texts), attempt)

    async def _texts_of(self, receipt: Receipt) -> dict[str, str]:
        """The texts that a recorded receipt leaves out.

        That of a classification may have died with its gateway, before the record had it: the run goes by the labels.
        """
        refs = recorded_form.receipt_refs(receipt)
        try:
            return await self.session.texts(refs)
        except BodyMissing:
            if receipt.output_result is None or receipt.output_result.parsed is None:
                raise
            return dict.fromkeys(refs, "")

    def _planned(self, planned: WorkOrder) -> _Pending:
        completed = {wo_id for wo_id, receipt in self.receipts.items() if receipt.state == "completed"}
        if wrong := work_orders.faults(planned, completed):
            raise WorkOrderFault("execution_error", f"{planned.wo_id} was not dispatched: {'; '.join(wrong)}")
        submission_id = dispatched_id(planned.wo_id)
        owned, brought = work_orders.with_own_texts(planned, submission_id, self._text_refs, self._composed)
        self._text_refs |= brought
        order = work_orders.advance(owned, "dispatched", "ho2")
        self.session.append(
            OrderDispatched(
                wo_id=order.wo_id,
                wo_type=order.wo_type,
                step_id=self._step_of(order),
                order=recorded_form.blank_order(order, self._memo.orders),
                at=self.session.now(),
            ),
            bodies=self._bodies(submission_id, list(brought)),
            work_order_id=order.wo_id,
            trace=self.trace,
        )
        return _Pending(order, 1)

    def _bodies(self, submission_id: str, brought: Sequence[str]) -> list[bytes]:
        """The texts that an order brings, a composed one as its parts; older lines only when much has been added."""
        bodies: list[bytes] = []
        fresh: list[bytes] = []
        for text in brought:
            parts = self._composed.get(text)
            if parts is None:
                bodies.append(text.encode())
                continue
            new_ref = body_ref(submission_id, len(brought) + len(fresh) + 1)
            body, kept = composed.shared(parts, self.session.older_lines, new_ref)
            bodies.append(body)
            if kept is not None:
                self.session.older_lines = kept
                fresh.append(kept.text.encode())
        return bodies + fresh

    def _step_of(self, order: WorkOrder) -> StepId:
        run = self.session.record.state.run
        if run is None or run.step_id is None:
            raise AssertionError(f"{order.wo_id} was planned before any step")
        return run.step_id

    async def _dispatch(self, pending: Sequence[_Pending]) -> None:
        """Barrier: WO_DISPATCHED is durable before anything is sent. Nothing to wait for if all were ended before."""
        if any(one.receipt is None for one in pending):
            await self.session.barrier()

    async def _finish(self, pending: _Pending) -> Receipt:
        receipt = pending.receipt
        if receipt is None:
            receipt, own_text = recorded_form.with_own_text(await self._sent(pending.order, pending.attempt))
            self.session.append(
                OrderEnded(wo_id=receipt.wo_id, receipt=recorded_form.blank_receipt(receipt), at=self.session.now()),
                bodies=own_text,
                work_order_id=receipt.wo_id,
                trace=self.trace,
            )
        self.receipts[receipt.wo_id] = receipt
        return receipt

    async def _sent(self, order: WorkOrder, first_attempt: int) -> Receipt:
        """The receipt of the pool; a failed one of our own making when nobody answers within the order's time-out."""
        draft = self.draft if order.wo_type == "synthesize" else None
        try:
            return await pool.receipt_of(
                self._bus, self.config.ho2, order, first_attempt=first_attempt, trace=self.trace, draft=draft,
                due_at=self.session.record.state.deadline_at,
            )  # fmt: skip
        except RuntimeFault as fault:
            receipt = pool.lost_receipt(order, fault, by=self._bus.instance, at=self.session.now())
        provenance = self.session.provenance(self.run_id, order.wo_id)
        self.session.also(
            self.own_entries.lost_order(receipt, provenance=provenance, at_us=self.session.at_us(), trace=self.trace)
        )
        return receipt

    @property
    def has_open_model_calls(self) -> bool:
        """Whether an order to a model was sent and has no receipt: nobody knows what it has cost."""
        return any(
            order["wo_type"] != "tool_call" and wo_id not in self.receipts for wo_id, order in self._memo.orders.items()
        )

    def _step(self, turn_seq: int, step_seq: int) -> StepId:
        """The same value however often it is asked for."""
        found = self._steps.get((turn_seq, step_seq))
        if found is None:
            turn = TurnId(run_id=self.run_id, turn_seq=turn_seq)
            found = self._steps[turn_seq, step_seq] = StepId(turn_id=turn, step_seq=step_seq)
        return found


def _not_found(call: ToolCall) -> tuple[str, str]:
    """Code and words for a call of a tool that its model was not told of."""
    return "tool_not_found", f"there is no tool {call.tool_id[:64]!r}; only the tools that were offered can be called"
