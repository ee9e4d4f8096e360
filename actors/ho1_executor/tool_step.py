"""A `tool_call` order: one tool call, run at most once if once is all it may run. No model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from hobus.actors.ho1_executor.contracts import list_schema_faults
from hobus.actors.ho1_executor.ends import OrderEnds
from hobus.actors.ho1_executor.held_state import HeldState
from hobus.actors.ho1_executor.job import Job
from hobus.actors.ho1_executor.receipts import decide_step, is_claimed, start_entry, start_keys
from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.actors.ho1_executor.tools.outside import ReadText, make_request_way
from hobus.actors.ho1_executor.tools.table import make_builtin_view
from hobus.bus.errors import GatewayError, LedgerError, WorkOrderFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ledger import Ack, Entry
from hobus.bus.messages.work_order import OutputResult, Receipt, Segment, ToolCall, ToolFile, WorkOrder
from hobus.bus.paging import is_held
from hobus.bus.port import Bus, ToolRunner
from hobus.config.assets import AgentFile, explain_withheld, names
from hobus.config.json_schema import get_validator
from hobus.config.schema import AdminConfig
from hobus.config.schema_defaults import with_defaults
from hobus.config.snapshot import Snapshot


class StartUnsettled(LedgerError):
    """Say that a start was submitted and nobody said whether it stands; nothing was run."""


class ToolStep(Struct, frozen=True):
    """Run tool calls of this worker."""

    bus: Bus
    ledger: LedgerClient
    ends: OrderEnds
    runner: ToolRunner
    specs: Mapping[str, ToolDefinition]
    config: AdminConfig  # of this worker: its limits
    held: HeldState
    begun: set[str]  # orders whose tool this incarnation began to run and whose end is not durable yet
    own_digest: str = ""  # of the snapshot that its tool processes know
    read_file: ReadText | None = None

    async def run(self, job: Job, snapshot: Snapshot) -> OutputResult | Receipt:
        """Return the tool's output, or the receipt of the worker that ran it.

        Raises WorkOrderFault with a closed code; StartUnsettled when the record did not answer.
        """
        order = job.order
        call, tool, agent = self._check_call(order, snapshot)
        recorded = await self._claim(job, tool)
        if recorded is not None:
            return recorded
        self.begun.add(order.wo_id)
        job.usage.tool_ids.append(tool.tool_id)
        timeout_s = min(tool.timeout_s or self.config.tools.timeout_ms / 1000, job.remaining_s)
        about = {"session_id": order.session_id, "agent_id": order.agent_id, "config_digest": snapshot.digest}
        output = await self.runner.run(
            call,
            context={
                **about,
                "wo_id": order.wo_id,
                "idempotency_key": order.wo_id,
                "more_tools": self._list_more_tools(agent),
                "holder": job.holder,
                "remaining_s": job.remaining_s,
                "request": make_request_way(self.bus, timeout_s=timeout_s, about=about, read_file=self.read_file),
                **(
                    {}
                    if snapshot.digest == (self.own_digest or snapshot.digest)
                    else {"view": make_builtin_view(snapshot)}
                ),
            },
            timeout_s=timeout_s,
        )
        job.said.printed, job.said.traceback = output.printed, output.traceback
        if output.held_by:
            output.text = await self.held.word(order.session_id, tool.source, output.held_by) + output.text
        if output.ok:
            job.said.files = [data for _name, _type, data in output.files]
            files = [ToolFile(name=name, media_type=kind, size_bytes=len(data)) for name, kind, data in output.files]
            return OutputResult(
                text=Segment(name=call.call_id, text=output.text, files=files), truncated=output.truncated
            )
        # Nothing is unknown about a call that may simply be made again.
        code = "tool_failed" if tool.idempotent and output.code == "unknown_outcome" else output.code
        raise WorkOrderFault(code, output.text)

    def _check_call(self, order: WorkOrder, snapshot: Snapshot) -> tuple[ToolCall, ToolDefinition, AgentFile]:
        call = order.tool_call
        if call is None:
            raise WorkOrderFault("tool_invalid_args", f"{order.wo_id} is a tool_call order without a call")
        tool = self.specs.get(call.tool_id)
        if tool is None or call.tool_id not in self.runner.available():
            raise WorkOrderFault("tool_not_found", f"no tool {call.tool_id[:64]!r} at {self.bus.instance}")
        agent = snapshot.agents.get(order.agent_id)
        is_rule = not tool.writes and call.tool_id in [rule for _, rule in snapshot.config.tools.approval_rules]
        if is_rule:
            known = {name: one for name, one in call.arguments.items() if name in tool.parameters["properties"]}
            call = call.model_copy(update={"arguments": known})
        elif not names(order.constraints.tools_allowed, call.tool_id):
            raise WorkOrderFault("tool_not_permitted", f"{call.tool_id} is not in this order's tools_allowed")
        if agent is None or not (is_rule or agent.may_use(call.tool_id, writes=tool.writes)):
            raise WorkOrderFault("tool_not_permitted", _describe_refusal(order.agent_id, agent, tool))
        if (arguments := with_defaults(tool.parameters, call.arguments)) is not call.arguments:
            call = call.model_copy(update={"arguments": arguments})
        if faults := list_schema_faults(get_validator(tool.parameters), call.arguments):
            raise WorkOrderFault("tool_invalid_args", f"{call.tool_id}: {'; '.join(faults)}")
        return call, tool, agent

    def _list_more_tools(self, agent: AgentFile) -> list[dict[str, Any]]:
        """Return what the agent may use beyond the built-in tools, which tool processes know by themselves."""
        return [
            {"tool_id": tool_id, "description": tool.description, "idempotent": tool.idempotent}
            for tool_id, tool in self.specs.items()
            if tool.source != "builtin" and agent.may_use(tool_id, writes=tool.writes)
        ]

    async def _claim(self, job: Job, tool: ToolDefinition) -> Receipt | None:
        """Nothing once this worker holds the durable start, or the receipt of the one that ended the order.

        A tool that only reads and may run again needs none: nothing of it leaves the cluster, and its call stands in
        the order.
        """
        order = job.order
        if tool.is_free:
            return None
        starts = await self._starts_of(order.wo_id, tool) if job.is_repeat else []
        while True:
            step = decide_step(starts, self.bus.instance)
            if step == "ours":
                return await self._resume_ours(order, tool)
            if step == "ask" and (receipt := await self._end_of_other(order, tool, starts[-1])) is not None:
                return receipt
            ack = await self._write_start(job, tool, number=len(starts) + 1)
            if ack.outcome == "committed":
                return None
            if ack.event_type != "TOOL_STARTED" and (receipt := await self.ends.find(order)) is not None:
                return receipt  # the order was given up before its tool began
            if is_claimed(ack, self.bus.instance):  # a lost ack, or a repeat that nobody announced as one
                return await self._resume_ours(order, tool)
            starts = await self._starts_of(order.wo_id, tool)

    async def _write_start(self, job: Job, tool: ToolDefinition, *, number: int) -> Ack:
        """Record durably whose this try is; a barrier."""
        entry = start_entry(job.order, tool, job.stamp(), number=number)
        try:
            ack = (await self.ledger.write([entry], trace=job.trace, follows=job.follows))[0]
        except LedgerError as fault:
            raise StartUnsettled(fault.code, fault.detail, retryable=fault.retryable) from None
        if ack.code == "unfounded":  # nothing stands, and nothing was run
            raise GatewayError("UNAVAILABLE", f"{job.order.wo_id} is not in the record")
        if ack.outcome == "refused":
            raise StartUnsettled("rejected", f"the ledger refused TOOL_STARTED of {job.order.wo_id}: {ack.code}")
        return ack

    async def _end_of_other(self, order: WorkOrder, tool: ToolDefinition, start: Entry) -> Receipt | None:
        """Return the receipt of the worker that started, waiting while it lives.

        None: it is gone without an end, and the tool may run again. Raises WorkOrderFault(unknown_outcome) if it may
        not.
        """
        while True:
            is_there = await is_held(self.bus, start.origin, timeout_s=self.config.bus.peer_timeout_ms / 1000)
            # Looked up after the broker was asked: an end that stood before its worker went is never overlooked.
            if (receipt := await self.ends.find(order)) is not None:
                return receipt
            if not is_there:
                break
            await self.bus.sleep(self.config.bus.beat_interval_ms / 1000)
        if not tool.idempotent:
            raise WorkOrderFault(
                "unknown_outcome",
                f"{tool.tool_id} was started by {start.origin}, which is gone without an end; it must not run twice",
            )
        return None

    async def _resume_ours(self, order: WorkOrder, tool: ToolDefinition) -> Receipt | None:
        """Resume a start of this incarnation without an end that is not in progress: interrupted around its record."""
        await self.ledger.flush()  # its end may have been submitted and not acknowledged
        if (receipt := await self.ends.find(order)) is not None:
            return receipt
        if order.wo_id in self.begun and not tool.idempotent:
            raise WorkOrderFault("unknown_outcome", f"{tool.tool_id} was interrupted here; it must not run twice")
        return None

    async def _starts_of(self, wo_id: str, tool: ToolDefinition) -> list[Entry]:
        """Return the starts so far, in order of their tries."""
        starts: list[Entry] = []
        page = self.config.bus.attempts_max
        while keys := start_keys(wo_id, len(starts), page, idempotent=tool.idempotent):
            found = await self.ledger.lookup(once=keys)
            for entry in found:
                if entry is None:
                    return starts
                starts.append(entry)
        return starts


def _describe_refusal(agent_id: str, agent: AgentFile | None, tool: ToolDefinition) -> str:
    """Return which permission is missing, and where it would stand."""
    if agent is not None and agent.is_withheld(tool.tool_id, writes=tool.writes):
        return explain_withheld(agent_id, tool.tool_id)
    return f"agent {agent_id} may not use {tool.tool_id}: it needs it in tools and in permissions.tools"
