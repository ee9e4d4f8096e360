"""What a run does beyond itself, each of it once: its journal is the memo table.

Driven again after a crash or a take-over, the same calls in the same order answer from the journal at once: a recorded
step is not recorded again, an ended order gives its recorded receipt, an order without end is sent again with the same
bytes under the next attempt. A text is recorded with the order that shows it first, and named by ref from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.ownership.owner import BodyMissing, OwnedSession
from hobus.actors.ho2_supervisor.resources import Resources
from hobus.actors.ho2_supervisor.run_task import RunTask
from hobus.actors.ho2_supervisor.session.intents import has_own_words
from hobus.actors.ho2_supervisor.session.record import RunMemo, make_step_key
from hobus.actors.ho2_supervisor.turn import agent_calls, chain, order_codec, pool, work_orders
from hobus.bus.errors import RuntimeFault, WorkOrderFault
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import SEPARATOR
from hobus.bus.messages.ids import derive_body_ref, derive_dispatched_id, end_key, is_beside, start_key
from hobus.bus.messages.session import ToolCallSummary
from hobus.bus.messages.streams import StreamDelta
from hobus.bus.messages.transcript import NAME as HISTORY
from hobus.bus.messages.transcript import tell_transcript
from hobus.bus.messages.work_order import INSTRUCTIONS, Receipt, Segment, WorkOrder
from hobus.bus.record import text_parts
from hobus.bus.record.payloads.orders import read_receipt
from hobus.bus.record.session_facts import OrderDispatched, OrderEnded, SessionFact
from hobus.bus.record.text_parts import TextPart
from hobus.bus.spent import IN_DOUBT
from hobus.config.called_agents import may_call


class OpenOrder(Struct):
    """An order on its way: what to send under which attempt, or the receipt that the journal holds."""

    order: WorkOrder
    attempt: int
    receipt: Receipt | None = None
    is_dispatching: bool = False
    """Its WO_DISPATCHED is on its way into the record."""


First = Callable[[Receipt], None]
"""What is to stand in the journal before an order's end does."""
Finish = Callable[[OpenOrder], Coroutine[Any, Any, None]]
"""How an order that nothing waits for comes to its end."""


def append_end(session: OwnedSession, receipt: Receipt, *, bodies: Sequence[bytes] = (), trace: str) -> None:
    """Journal OrderEnded with the next write."""
    event = OrderEnded(wo_id=receipt.wo_id, receipt=order_codec.blank_receipt(receipt), at=session.now())
    session.append(event, bodies=bodies, work_order_id=receipt.wo_id, trace=trace)


async def end_lost(
    resources: Resources, session: OwnedSession, order: WorkOrder, fault: RuntimeFault | None, *, trace: str
) -> Receipt:
    """End an order that no executor answered, durably; the record decides how, whatever `fault` says (None: cancelled).

    An executor's own end stands; a call that was begun and may not run twice ends in doubt.
    """
    by, provenance = resources.bus.instance, session.provenance(order.fence.run_id.run_seq, order.wo_id)
    receipt = pool.make_lost_receipt(order, fault, by=by, at=session.now())
    ack = await session.write_beside(resources.order_end(receipt, provenance=provenance, trace=trace))
    if ack is not None and ack.event_type == "TOOL_STARTED":
        receipt = pool.make_lost_receipt(order, fault, by=by, at=session.now(), is_begun=True)
        ack = await session.write_beside(resources.order_end(receipt, provenance=provenance, trace=trace))
    if ack is None or ack.outcome != "lost":
        return receipt
    [winner] = await session.entries([], once=[end_key(order.wo_id)])
    return (winner and read_receipt(winner)) or receipt


class Effects:
    """Steps and orders of one run, at one attempt to drive it."""

    def __init__(self, task: RunTask, memo: RunMemo, resources: Resources) -> None:
        self.receipts: dict[str, Receipt] = {}  # of the orders that have ended so far, in order
        self._refs = {**task.session.instructions}  # text that an order has brought -> where it stands
        self._composed: dict[str, Sequence[TextPart]] = {}  # text -> its parts
        self._told: set[str] = set()  # those of them that begin with the lines of older turns
        self._is_admitted = False  # an order of this drive stands in the record
        self._session = task.session
        self._task = task
        self._memo = memo
        self._resources = resources

    def step(self, event: SessionFact, *, bodies: Sequence[bytes] = ()) -> None:
        """Journal the event, unless an earlier drive of this run did so."""
        if make_step_key(event) not in self._memo.steps:
            self._session.append(event, bodies=bodies, trace=self._task.trace)

    async def order(self, planned: WorkOrder) -> Receipt:
        """Return the receipt of this order, recorded once; nothing comes of it before that is durable."""
        pending = await self.pending(planned)
        await self.dispatch([pending])
        return await self.finish(pending)

    async def run_order_beside(self, planned: WorkOrder, aside: WorkOrder, finish: Finish) -> Receipt:
        """Return the first order's receipt; dispatch the other order in the same write, and end it when it ends.

        Beside an answer that is streamed to somebody and calls no tool before its first word, the other order is asked
        at that word: one model's server would else work at both.
        """
        answer, other = [await self.pending(one) for one in (planned, aside)]
        await self.dispatch([answer, other])
        if other.receipt is not None:
            await finish(other)
            return await self.finish(answer)
        draft, begins, bounds = self._task.draft, asyncio.Event(), answer.order.constraints
        if not draft.is_watched or bounds.tools_allowed or bounds.caller_tools:
            begins.set()

        async def begun() -> None:
            await begins.wait()
            await finish(other)

        def hear(said: Message) -> None:
            if isinstance(said, StreamDelta):
                begins.set()

        self._task.go_beside(begun())
        try:
            with draft.watched(None if begins.is_set() else hear):
                return await self.finish(answer)
        finally:
            begins.set()

    def recall(self) -> None:
        """Take in receipts of the journal that no drive of this run has met."""
        self.receipts = {**self._memo.receipts}

    async def pending(self, planned: WorkOrder) -> OpenOrder:
        """Return what the journal holds of this order, else the planned one, journaled as dispatched."""
        return await self.recorded(planned.wo_id) or self._open_planned(planned)

    async def recorded(self, wo_id: str) -> OpenOrder | None:
        """Return what the journal holds of this order; None: it was never dispatched."""
        order = self._memo.orders.get(wo_id)
        if order is None:
            return None
        receipt = self._memo.receipts.get(wo_id)
        if receipt is not None:
            return OpenOrder(order, 0, order_codec.expand_receipt(receipt, await self._read_texts(receipt)))
        attempt = 2 + self._session.tenure - self._memo.dispatched_in[wo_id]
        return OpenOrder(await self._expand(order), attempt)

    async def dispatch(self, pending: Sequence[OpenOrder]) -> None:
        """Send WO_DISPATCHED before the order itself; what the order does is recorded behind that.

        The run's first one is made durable, and with it that the run was requested and is this owner's, since another
        owner may have answered. Nothing is recorded if all were ended before.
        """
        if None not in [one.receipt for one in pending]:
            return
        if self._is_admitted and self._session.leave():
            for one in pending:
                one.is_dispatching = True
        else:
            await self._session.barrier()
            self._is_admitted = True

    async def finish(self, pending: OpenOrder, first: First | None = None) -> Receipt:
        """Return the order's receipt and journal it with the next write."""
        receipt, own_text = pending.receipt, list[bytes]()
        if receipt is None:
            receipt, own_text = order_codec.with_own_text(await self._send(pending))
        if first is not None:
            first(receipt)
        if pending.receipt is None:
            append_end(self._session, receipt, bodies=own_text, trace=self._task.trace)
        self.receipts[receipt.wo_id] = receipt
        return receipt

    async def find_recorded_segments(self, wo_id: str, names: Collection[str]) -> list[Segment] | None:
        """Return the segments of these names of an order as an earlier drive sent it; None: it was not sent.

        Texts said in the session, and its objectives, are in memory; others are read.
        """
        recorded = self._memo.orders.get(wo_id)
        if recorded is None:
            return None
        segments = [one for one in recorded.input_context if one.name in names]
        record = self._session.record
        known = {ref: words for ref, words in record.objectives.items() if has_own_words(ref)} | record.history.texts()
        texts = await self._session.texts([one.ref for one in segments if one.ref is not None], known)
        return [one if one.ref is None else one.model_copy(update={"text": texts[one.ref]}) for one in segments]

    def make_one_segment(self, name: str, parts: Sequence[TextPart]) -> list[Segment]:
        """Return the parts as one text, which the first order that shows it records by naming them, if any."""
        if len(parts) <= 1 and not any(part.stretch for part in parts):
            return [Segment(name=name, ref=part.ref, text=part.text) for part in parts]
        segment = text_parts.join_parts(name, parts)
        self._composed[segment.text] = parts
        if name == HISTORY:
            self._told.add(segment.text)
        return [segment]

    def segments(self, name: str, parts: Sequence[TextPart]) -> list[Segment]:
        """Return the parts one by one, which is less to record where they are few; as one text if one is a stretch."""
        if any(part.stretch for part in parts):
            return self.make_one_segment(name, parts)
        return [Segment(name=name, ref=part.ref, text=part.text) for part in parts]

    def show_stretch(self, shown: Segment, start: int, end: int) -> TextPart:
        """Return a stretch of a text that an order of this run has shown, by its ref where it has one."""
        ref = shown.ref or self._refs.get(shown.text)
        return TextPart(ref, shown.text[start:end], f"{start}:{end}" if ref else "")

    @property
    def has_open_model_calls(self) -> bool:
        """Return whether an order to a model was sent and has no receipt: its cost is unknown."""
        return any(
            order.wo_type != "tool_call" and wo_id not in self.receipts for wo_id, order in self._memo.orders.items()
        )

    async def list_calls(self) -> list[ToolCallSummary]:
        """Return the run's tool calls that ended, and as in doubt those that began, may not run twice and did not."""
        orders = self._memo.orders.items()
        calls = {wo_id: order.tool_call.tool_id for wo_id, order in orders if order.tool_call is not None}
        starts = {start_key(wo_id): wo_id for wo_id in calls if wo_id not in self.receipts}
        begun = set(starts.values())
        with suppress(TimeoutError, RuntimeFault):  # else nobody knows
            async with asyncio.timeout(limits.CANCEL_GRACE_MS / 1000):
                found = await self._session.entries([], once=list(starts)) if starts else []
                begun = {wo_id for wo_id, entry in zip(starts.values(), found, strict=True) if entry}
        return [
            ToolCallSummary(tool_id=tool_id, status="Failed", code=IN_DOUBT)
            if wo_id in begun
            else chain.summarise_call(tool_id, self.receipts[wo_id])
            for wo_id, tool_id in calls.items()
            if wo_id in begun or wo_id in self.receipts
        ]

    async def _expand(self, order: WorkOrder) -> WorkOrder:
        return order_codec.expand_order(order, await self._session.texts(order_codec.list_order_refs(order)))

    async def _read_texts(self, receipt: Receipt) -> dict[str, str]:
        """Return the texts that a recorded receipt leaves out.

        A classification's text may have died with its gateway before the record had it: the run goes by the labels.
        """
        refs = order_codec.list_receipt_refs(receipt)
        try:
            return await self._session.texts(refs)
        except BodyMissing:
            if receipt.output_result is None or receipt.output_result.parsed is None:
                raise
            return dict.fromkeys(refs, "")

    def _open_planned(self, planned: WorkOrder) -> OpenOrder:
        completed = {wo_id for wo_id, receipt in self.receipts.items() if receipt.state == "completed"}
        if wrong := work_orders.find_faults(planned, completed):
            raise WorkOrderFault("execution_error", f"{planned.wo_id} was not dispatched: {'; '.join(wrong)}")
        run = self._session.record.state.run
        if run is None or run.step_id is None:
            raise AssertionError(f"{planned.wo_id} was planned before any step")
        order, bodies = self._dispatch(planned, derive_dispatched_id(planned.wo_id))
        self._session.append(
            OrderDispatched(
                wo_id=order.wo_id,
                wo_type=order.wo_type,
                step_id=run.step_id,
                order=order_codec.blank_order(order),
                at=self._session.now(),
            ),
            bodies=bodies,
            work_order_id=order.wo_id,
            trace=self._task.trace,
        )
        return OpenOrder(order, 1)

    async def _send(self, pending: OpenOrder) -> Receipt:
        """Return the pool's receipt, or what the record allows when nobody answers within the order's time-out."""
        order, first_attempt = pending.order, pending.attempt
        self._task.ticket.works()
        session, task, bus = self._session, self._task, self._resources.bus
        call, agents = order.tool_call, self._resources.snapshot.agents
        if call is not None and may_call(agents[order.agent_id], call.tool_id, agents):
            await session.barrier()  # the other session does not know of it
            receipt = await agent_calls.call_agent(
                bus, order, call, session.record.state, attempt=first_attempt, trace=task.trace
            )
            return self._end_here(receipt)
        draft = None if order.wo_type == "tool_call" or is_beside(order.wo_id) else task.draft
        sent = pool.ask_for_receipt(
            bus, order, first_attempt=first_attempt, trace=task.trace, draft=draft,
            holder=self._find_holder(order), due_at=session.record.state.deadline_at, told=session.told,
            dispatched=session.barrier if pending.is_dispatching else None,
        )  # fmt: skip
        try:
            receipt = await (self._wait_in_time(sent) if is_beside(order.wo_id) else sent)
        except RuntimeFault as fault:
            if call is None:
                return self._end_here(pool.make_lost_receipt(order, fault, by=bus.instance, at=session.now()))
            await session.barrier()  # of a session that another owns by now nothing is ended
            receipt = await end_lost(self._resources, session, order, fault, trace=task.trace)
            return order_codec.expand_receipt(receipt, await self._read_texts(receipt))
        session.told = tell_transcript(order) or session.told
        return receipt

    async def _wait_in_time(self, sent: Coroutine[Any, Any, Receipt]) -> Receipt:
        """Return the receipt of an order that may outlast the answer, while the next requester waits for it."""
        try:
            async with asyncio.timeout_at(self._task.beside_until) as self._task.beside_scope:
                return await sent
        except TimeoutError:
            raise RuntimeFault("expired", "the session's next message did not wait for it any longer") from None
        finally:
            self._task.beside_scope = None

    def _end_here(self, receipt: Receipt) -> Receipt:
        """Return the receipt, whose end is recorded with the journal's next write."""
        provenance = self._session.provenance(self._memo.run_id.run_seq, receipt.wo_id)
        self._session.also(self._resources.order_end(receipt, provenance=provenance, trace=self._task.trace))
        return receipt

    def _find_holder(self, order: WorkOrder) -> str:
        """Return for whom the server of the order's tool keeps state."""
        server = "" if order.tool_call is None else order.tool_call.tool_id.partition(SEPARATOR)[0]
        config = self._resources.config.tools.mcp_servers.get(server)
        is_personal = config is not None and config.per == "principal"
        return self._session.record.state.principal if is_personal else order.session_id

    def _dispatch(self, planned: WorkOrder, submission_id: str) -> tuple[WorkOrder, list[bytes]]:
        """Return the order with refs for longer texts, and the bodies of those that are new.

        A composed text is brought as its parts; older lines only when much has been added.
        """
        order, brought = work_orders.prepare_dispatch(planned, submission_id, self._refs, self._composed)
        self._refs |= brought
        for one in order.input_context:
            if one.name == INSTRUCTIONS and one.text in brought:
                self._session.instructions = {one.text: brought[one.text]}
        bodies: list[bytes] = []
        fresh: list[bytes] = []
        for text in brought:
            parts = self._composed.get(text)
            if parts is None:
                bodies.append(text.encode())
                continue
            if text not in self._told:
                bodies.append(text_parts.pack_body(parts))
                continue
            new_ref = derive_body_ref(submission_id, len(brought) + len(fresh) + 1)
            body, kept = text_parts.share_text(parts, self._session.older_lines, new_ref)
            bodies.append(body)
            if kept is not None:
                self._session.older_lines = kept
                fresh.append(kept.text.encode())
        return order, bodies + fresh
