"""Consolidations of this instance: re-check the gate, ask the pool for one line, log it with HO3 or log that it failed.

Outside every session's order and in nobody's way: the turn that named the signal was delivered before this began. One
agent's messages come one at a time (the catalog's mode `ordered`). Whatever is lost on the way leaves the gate crossed,
and the next turn that logs the signal names it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import structlog

from hobus.actors.ho2_supervisor.attention.context import AssembledContext, AttentionRequest, Fragment
from hobus.actors.ho2_supervisor.attention.pipeline import Room
from hobus.actors.ho2_supervisor.learning import consolidation
from hobus.actors.ho2_supervisor.learning.consolidation import Crossing, Judged
from hobus.actors.ho2_supervisor.learning.learning import HO3, get_code
from hobus.actors.ho2_supervisor.limits import EXCERPT_MAX_CHARS, RECENT_EVENTS_MAX
from hobus.actors.ho2_supervisor.ownership.history_lookup import read_turn_of_run
from hobus.actors.ho2_supervisor.resources import Resources
from hobus.actors.ho2_supervisor.turn import chain, order_codec, pool, work_orders
from hobus.actors.ho2_supervisor.turn.blocks import compile_unsafe, make_whole_harmless
from hobus.actors.ho2_supervisor.turn.history import DeliveredTurn
from hobus.bus.errors import LedgerError, MemoryFault, RuntimeFault, WorkOrderFault
from hobus.bus.messages.ids import (
    derive_completed_id,
    derive_dispatched_id,
    derive_signal_event_id,
    end_key,
    format_iso,
)
from hobus.bus.messages.ledger import Provenance
from hobus.bus.messages.memory import (
    Artifact,
    CheckGate,
    ConsolidationFailureLogged,
    GateChecked,
    LogConsolidationFailure,
    LogOverlay,
    OverlayLogged,
)
from hobus.bus.messages.session import Consolidate
from hobus.bus.messages.work_order import Receipt, WorkOrder
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.orders import ConsolidationDispatched, QualityGate
from hobus.bus.record.payloads.prompts import PromptReceived
from hobus.config.assets import AgentFile
from hobus.config.attention_rules import get_tokens
from hobus.config.attention_template import OfTurn
from hobus.config.prompt_contracts import get_contract_id
from hobus.config.sections.record import Ho3Config

_log = structlog.get_logger("ho2_supervisor")


class LineRefused(WorkOrderFault):
    """Say that a model's line may not stand; it goes into quarantine."""

    def __init__(self, code: str, reason: str, line: str) -> None:
        super().__init__(code, reason)
        self.line = line


class Consolidations:
    """Consolidate what one `Consolidate` names, signal by signal, under one configuration."""

    def __init__(self, resources: Resources, memory: Ho3Config) -> None:
        self._bus = resources.bus
        self._client = resources.client
        self._config = resources.config
        self._memory = memory
        self._timeout_s = memory.consolidation_timeout_ms / 1000
        self._resources = resources

    async def run(self, message: Consolidate, *, trace: str) -> None:
        """Treat each signal once: consolidate it, record the failure, or leave it for the next turn that names it."""
        for signal_id in dict.fromkeys(message.signal_ids):
            try:
                await self._consolidate_signal(message, signal_id, trace)
            except RuntimeFault as fault:
                _log.warning("consolidation_put_off", signal_id=signal_id, code=fault.code, detail=fault.detail)

    async def _consolidate_signal(self, message: Consolidate, signal_id: str, trace: str) -> None:
        agent = await self._find_agent(message)
        crossing = await self._find_crossing(message, agent, signal_id, trace)
        if crossing is None:
            return
        order: WorkOrder | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                order = await self._dispatch(crossing, await self._choose_next_id(crossing), trace)
                artifact = await self._learn(crossing, order, trace)
                await self._log_artifact(agent.agent_id, artifact, trace)
        except (TimeoutError, RuntimeFault) as fault:
            if order is not None:  # before that nothing was tried, and the gate may as well stay open
                await self._log_failure(crossing, order.wo_id, fault, trace)
            raise WorkOrderFault(get_code(fault), f"{order.wo_id if order else signal_id}: {fault}") from None

    async def _log_artifact(self, agent_id: str, artifact: Artifact, trace: str) -> None:
        """Log the artifact with HO3. Raises LineRefused with what HO3 has against it."""
        message = LogOverlay(agent_id=agent_id, overlay=artifact)
        try:
            await self._bus.request(HO3, message, expect=OverlayLogged, timeout_s=self._timeout_s, trace=trace)
        except MemoryFault as fault:
            reason = fault.detail.removeprefix(f"{artifact.artifact_id}: ")
            raise LineRefused(fault.code, reason, artifact.context_line) from None

    async def _find_agent(self, message: Consolidate) -> AgentFile:
        """Return the agent of the session as the record has it; the message's word only routes."""
        [completed] = await self._client.lookup([derive_completed_id(message.run_id)])
        agent = None if completed is None else self._resources.snapshot.agents.get(completed.provenance.agent_id)
        if agent is None:
            raise RuntimeFault("not_found", f"run {message.run_id} was not completed for an agent that is configured")
        return agent

    async def _find_crossing(
        self, message: Consolidate, agent: AgentFile, signal_id: str, trace: str
    ) -> Crossing | None:
        """Check the gate as it is now; return None when there is nothing to do (any more)."""
        now, run = format_iso(self._bus.now()), message.run_id
        event_id = derive_signal_event_id(run.session_id, run.run_seq, signal_id)  # memory knows whose it is
        question = CheckGate(agent_id=agent.agent_id, signal_id=signal_id, event_id=event_id, as_of_ts=now)
        checked = await self._bus.request(HO3, question, expect=GateChecked, timeout_s=self._timeout_s, trace=trace)
        if not checked.gate.crossed or checked.accumulator is None:
            return None
        as_of = checked.as_of
        return Crossing(agent, run, checked.gate, checked.accumulator, as_of.as_of_ts, as_of.as_of_seq)

    async def _choose_next_id(self, crossing: Crossing) -> str:
        """Return the first unused order id of this signal and window; end an order that a crash left open."""
        number, before = 1, ""
        while True:
            wo_id = consolidation.derive_order_id(crossing, number, self._memory)
            [taken] = await self._client.lookup([derive_dispatched_id(wo_id)])
            if taken is None:
                break
            number, before = number + 1, wo_id
        if before:
            await self._end_if_open(before)
        return wo_id

    async def _end_if_open(self, wo_id: str) -> None:
        dispatched, ended = await self._client.lookup([derive_dispatched_id(wo_id)], [end_key(wo_id)], with_bodies=True)
        known = None if dispatched is None else read_payload(ConsolidationDispatched, dispatched)
        if ended is not None or dispatched is None or known is None:
            return
        self._end_lost(known.order, RuntimeFault("peer_lost", "its supervisor was lost"), dispatched.trace)

    async def _dispatch(self, crossing: Crossing, wo_id: str, trace: str) -> WorkOrder:
        """Make the order durable in stream ho2m, then return it."""
        context = await self._assemble_context(crossing, wo_id)
        if not context.of("history"):  # erased, or asked of a provider that no other one may hear of
            raise RuntimeFault("not_found", f"{crossing.signal_id}: no turn behind it may be shown")
        package_id = self._resources.packages.get(crossing.agent.agent_id, "")
        planned = consolidation.make_order(
            crossing, wo_id, consolidation.make_segments(context.of("history")),
            config=self._config, memory=self._memory, package_id=package_id,
            digest=self._resources.snapshot.digest, planned_at=format_iso(self._bus.now()),
            model=self._resources.snapshot.choose_model_for(crossing.agent, "consolidate"),
        )  # fmt: skip
        if wrong := work_orders.find_faults(planned, ()):
            raise WorkOrderFault("execution_error", f"{wo_id} was not dispatched: {'; '.join(wrong)}")
        order, brought = work_orders.prepare_dispatch(planned, derive_dispatched_id(wo_id), {})
        form, gate = order_codec.blank_order(order), crossing.gate.model_dump()
        entry = self._resources.entry(
            "WO_DISPATCHED", ConsolidationDispatched(form, gate, crossing.as_of_ts, crossing.as_of_seq),
            texts=brought, submission_id=derive_dispatched_id(wo_id), provenance=_get_provenance(order),
            parents=[derive_completed_id(crossing.run_id)], trace=trace,
        )  # fmt: skip
        [ack] = await self._client.write([entry], trace=trace)
        if not ack.is_first:
            raise LedgerError("conflict", f"{wo_id} was dispatched by another supervisor meanwhile")
        assembled = self._resources.entry(
            "CONTEXT_ASSEMBLED", consolidation.record_of(crossing, context), stream="ho2_context_authority",
            provenance=_get_provenance(order), parents=[derive_dispatched_id(wo_id)], trace=trace,
        )  # fmt: skip
        self._client.submit([assembled], trace=trace)
        return order

    async def _assemble_context(self, crossing: Crossing, wo_id: str) -> AssembledContext:
        """Assemble the turns behind the events by the template of consolidations."""
        attention = self._resources.attention
        contract_id = get_contract_id(crossing.agent, "consolidate")
        request = AttentionRequest(
            agent=crossing.agent, contract=self._resources.snapshot.contracts[contract_id],
            session_id=crossing.run_id.session_id, work_order_id=wo_id, at=crossing.as_of_ts, user_input="",
        )  # fmt: skip
        room = consolidation.compute_excerpts_room(crossing.agent, self._config)
        unsafe = compile_unsafe(self._resources.snapshot.prompt_packs)

        async def read_said(config: OfTurn, _room: Room) -> AsyncGenerator[Fragment, None]:
            chars = room
            if config.max_tokens is not None:
                tokens = get_tokens(config.max_tokens, self._config.budget)
                chars = min(room, tokens * self._config.attention.chars_per_token)
            turns = await self._read_turns_behind(crossing)
            for fragment in consolidation.cut_excerpts(turns, EXCERPT_MAX_CHARS, room=chars):
                yield make_whole_harmless(fragment, unsafe)

        return await attention.assemble(request, attention.choose_template(request), {"history": read_said})

    async def _read_turns_behind(self, crossing: Crossing) -> list[DeliveredTurn]:
        """Read the turns behind the events, newest first.

        Left out: turns whose texts were erased, that were never answered, or that were asked of another provider by
        name, since no other provider gets to see those.
        """
        events, provider = (
            reversed(crossing.evidence.event_ids),
            self._resources.snapshot.choose_model_for(crossing.agent, "consolidate").provider,
        )
        newest = [run for event_id in events if (run := consolidation.run_of(event_id)) is not None]
        turns = [await read_turn_of_run(self._client, run, provider) for run in newest[:RECENT_EVENTS_MAX]]
        return [turn for turn in turns if turn is not None]

    async def _learn(self, crossing: Crossing, order: WorkOrder, trace: str) -> Artifact:
        """Return the artifact that the pool's answer gives. Raises WorkOrderFault or LineRefused if unusable."""
        try:
            receipt = await pool.ask_for_receipt(self._bus, order, first_attempt=1, trace=trace)
        except RuntimeFault as fault:
            receipt = self._end_lost(order, fault, trace)
        except asyncio.CancelledError:  # out of time, or this process stops: nobody will take a receipt any more
            self._end_lost(order, RuntimeFault("expired", "its consolidation was given up"), trace)
            raise
        if receipt.state == "failed" or receipt.output_result is None:
            raise WorkOrderFault(chain.get_failure_code(receipt) or "execution_error", f"{order.wo_id} failed")
        judged = consolidation.judge(receipt.output_result.parsed, self._config.classify_labels, self._memory)
        self._note_judgement(order, judged, trace)
        if judged.lesson is None:
            raise LineRefused("output_schema_invalid", "; ".join(judged.faults), judged.line)
        return consolidation.make_artifact(
            crossing, judged.lesson, model=await self._find_model(receipt),
            pack_version=consolidation.pack_version(self._resources.snapshot, crossing.agent), memory=self._memory,
        )  # fmt: skip

    async def _find_model(self, receipt: Receipt) -> str:
        """Return the model that wrote the line, as the gateway recorded it, perhaps a little late."""
        await self._bus.sleep(self._config.ledger.lazy_commit_ms / 1000)
        found = await self._client.lookup(receipt.prompt_received_ids[-1:], with_bodies=True)
        answered = None if not found or found[0] is None else read_payload(PromptReceived, found[0])
        return "unknown" if answered is None else answered.model_id or "unknown"

    async def _log_failure(
        self, crossing: Crossing, wo_id: str, fault: TimeoutError | RuntimeFault, trace: str
    ) -> None:
        """Log the failure with HO3, so that the gate cools down; if HO3 is away the gate stays as it is."""
        reason, line = (fault.detail, fault.line) if isinstance(fault, LineRefused) and fault.line else ("", "")
        message = LogConsolidationFailure(
            agent_id=crossing.agent.agent_id, signal_id=crossing.signal_id, principal=crossing.principal, wo_id=wo_id,
            code=get_code(fault), reason=reason, line=line, at=format_iso(self._bus.now()),
        )  # fmt: skip
        await self._bus.request(
            HO3, message, expect=ConsolidationFailureLogged, timeout_s=self._memory.log_timeout_ms / 1000, trace=trace
        )

    # --- records ------------------------------------------------------------------------------------------------------

    def _end_lost(self, order: WorkOrder, fault: RuntimeFault, trace: str) -> Receipt:
        """Record an end for an order that nobody answered; an end that HO1 recorded comes first."""
        receipt = pool.make_lost_receipt(order, fault, by=self._bus.instance, at=format_iso(self._bus.now()))
        entry = self._resources.order_end(receipt, provenance=_get_provenance(order), trace=trace)
        self._client.submit([entry], trace=trace)
        return receipt

    def _note_judgement(self, order: WorkOrder, judged: Judged, trace: str) -> None:
        entry = self._resources.entry(
            "WO_QUALITY_GATE",
            QualityGate(tuple(judged.faults), tuple(judged.dropped)),
            provenance=_get_provenance(order), parents=[derive_dispatched_id(order.wo_id)],
            decision="REJECTED" if judged.lesson is None else "ACCEPTED", trace=trace,
        )  # fmt: skip
        self._client.submit([entry], trace=trace)


def _get_provenance(order: WorkOrder) -> Provenance:
    about = order.agent_id, order.agent_class, order.framework_id, order.package_id, order.session_id
    return Provenance(*about, run_seq=order.fence.run_id.run_seq, work_order_id=order.wo_id, tier="ho2")
