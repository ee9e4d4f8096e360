"""HO1, the executor: one order in, one receipt out. Stateless; what it holds are caches and the orders at work.

An order is one model call under a contract or one tool call; the tool loop is HO2's. An order that was delivered before
is answered from the record; what a tool did once is never done again unless doing it again is harmless. Every way that
an order can go wrong is a receipt with a closed code; only a record that cannot be reached is a fault of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext

import structlog

from hobus.actors.ho1_executor import limits as own_limits
from hobus.actors.ho1_executor.ends import EndWritten, OrderEnds
from hobus.actors.ho1_executor.file_reads import FileReads
from hobus.actors.ho1_executor.held_state import HeldState
from hobus.actors.ho1_executor.job import Job, make_job
from hobus.actors.ho1_executor.known_tools import KnownTools
from hobus.actors.ho1_executor.model_step import ModelStep, Outage
from hobus.actors.ho1_executor.receipts import end_id, make_completed, make_failed
from hobus.actors.ho1_executor.tool_step import StartUnsettled, ToolStep
from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.bus import limits
from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import ConfigError, GatewayError, RuntimeFault, WorkOrderFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.limits import SPOOL_RETRY_MS
from hobus.bus.messages.files import FileText, ReadFile
from hobus.bus.messages.gateway import Breakers, ReadBreakers
from hobus.bus.messages.ids import derive_dispatched_id
from hobus.bus.messages.work_order import ExecuteWorkOrder, OutputResult, Receipt, move_state
from hobus.bus.port import Bus, ToolRunner
from hobus.config import limits as config_limits
from hobus.config import recorded
from hobus.config.snapshot import Snapshot


class OrderSnapshots(recorded.Snapshots):
    """Cache the snapshots that orders name."""

    async def get(self, digest: str) -> Snapshot:
        """Return the snapshot with this digest. Raises WorkOrderFault(execution_error) when there is none."""
        try:
            return await super().get(digest)
        except ConfigError as fault:
            raise WorkOrderFault("execution_error", fault.detail) from None


class Executor(Actor):
    """Answer `ExecuteWorkOrder`, and on the cluster's own machine `ReadFile`."""

    service = "ho1"
    needs = ("gateway",)  # without one, tool calls are still taken

    def __init__(
        self,
        snapshot: Snapshot,
        tools: ToolRunner,
        tool_specs: Mapping[str, ToolDefinition],
        files: FileReads | None = None,
    ) -> None:
        """Build an executor.

        `files`: those of the cluster's own machine; None: a worker elsewhere, which reads none.
        """
        self._snapshot = snapshot
        self._files = files
        self._config = snapshot.config
        self._tools = tools
        self._specs = tool_specs
        self._at_work: dict[str, asyncio.Future[Receipt | None]] = {}  # None: it failed to give one
        self._begun: set[str] = set()
        self._is_stopping = False
        self._counters = {"completed": 0, "failed": 0, "replayed": 0}

    async def start(self, bus: Bus) -> None:
        self._bus = bus
        self._log = structlog.get_logger("ho1_executor").bind()  # once: each line of an unbound one binds it anew
        self._ledger = LedgerClient(bus, self._config.ledger)
        self._ends = OrderEnds(self._ledger, retry_s=SPOOL_RETRY_MS / 1000)
        self._snapshots = OrderSnapshots(self._snapshot, self._ledger, kept_max=config_limits.SNAPSHOTS_KEPT)
        known = KnownTools(bus, self._specs, self._config)
        outage = Outage(own_limits.GATEWAY_WAIT_MS / 1000)
        self._model_step = ModelStep(bus=bus, tools=known, config=self._config, outage=outage)
        self._tool_step = ToolStep(
            bus=bus,
            ledger=self._ledger,
            ends=self._ends,
            runner=self._tools,
            specs=self._specs,
            config=self._config,
            held=HeldState(self._ledger, bus.instance, page=limits.PAGE_ENTRIES_MAX),
            begun=self._begun,
            read_file=self._read,
            own_digest=self._snapshot.digest,
        )

    async def ready(self) -> str:
        """Report ready once the gateway was reached."""
        timeout_s = self._config.bus.peer_timeout_ms / 1000
        try:
            await self._bus.request("gateway", ReadBreakers(), expect=Breakers, timeout_s=timeout_s)
        except RuntimeFault as fault:
            return f"gateway: {fault.code}"
        return ""

    async def reconfigure(self, digest: str) -> None:
        """Fetch the new snapshot before the first order that names it; each order names its own."""
        await self._snapshots.get(digest)

    async def drain(self) -> None:
        """Answer every order and record every end; give back what does not end in time."""
        self._is_stopping = True
        while self._at_work:
            await asyncio.shield(next(iter(self._at_work.values())))
        await self._ledger.flush()
        self._ends.submit_kept()  # once: a disk that stays full keeps nobody from stopping
        await self._ledger.flush()

    def counters(self) -> dict[str, int]:
        """Return how many orders ended since start, by how they ended, and how many are in progress."""
        return {**self._counters, "at_work": len(self._at_work)}

    async def execute(self, message: ExecuteWorkOrder, call: Call) -> Receipt:
        """Return the one receipt of an order, however often it is delivered.

        Raises WorkOrderFault(rejected) for an order that was not dispatched, LedgerError(unavailable, retryable) when
        the record cannot be reached, or disk_full: no receipt exists that the record does not hold or has been handed.
        """
        order = message.order
        move_state(order.wo_id, order.state, "executing", "ho1")
        is_repeat = message.attempt > 1 or call.attempt > 1
        while order.wo_id in self._at_work:
            if (given := await asyncio.shield(self._at_work[order.wo_id])) is not None:
                return given
            is_repeat = True
        # Not everybody who delivers an order again says so: an end of it may be on its way from here, or kept.
        is_repeat = is_repeat or order.wo_id in self._begun or self._ends.keeps(order.wo_id)
        at_work: asyncio.Future[Receipt | None] = asyncio.get_running_loop().create_future()
        self._at_work[order.wo_id], receipt = at_work, None
        try:
            reserve_s = own_limits.END_RESERVE_MS / 1000
            job = make_job(self._bus, message, call, is_repeat=is_repeat, reserve_s=reserve_s)
            call.on_attached(job.draft.repeat)
            with job.draft.watched(call.stream) if message.stream else nullcontext():
                receipt = await self._answer(job)
                return receipt
        finally:
            del self._at_work[order.wo_id]
            at_work.set_result(receipt)

    async def read_file(self, message: ReadFile, _call: Call) -> FileText:
        """Read a file below an agent's roots, or say why not. Raises WorkOrderFault for an unknown configuration."""
        return await self._read(message)

    async def _read(self, message: ReadFile) -> FileText:
        if self._files is None:
            return FileText(refused="not_permitted", warning="this worker reads no files of the cluster's machine")
        agent = (await self._snapshots.get(message.config_digest)).agents.get(message.agent_id)
        roots = () if agent is None else agent.permissions.paths
        return self._files.read(message.path, roots, min(message.max_bytes, limits.READ_FILE_MAX_BYTES))

    async def _answer(self, job: Job) -> Receipt:  # noqa: C901
        if job.is_repeat and (recorded := await self._find_recorded(job)) is not None:
            self._counters["replayed"] += 1
            return recorded
        limit = asyncio.timeout(job.remaining_s)
        try:
            async with limit:
                outcome = await self._carry_out(job)
        except asyncio.CancelledError:
            if not self._is_stopping:  # else the order is given back, and its next worker goes by the record
                self._submit_failed(job, "cancelled", "the request was cancelled")
            raise
        except TimeoutError:
            if not limit.expired():
                raise
            receipt = self._make_failed(job, "deadline_exceeded", "the order was not done by its deadline")
        except (WorkOrderFault, GatewayError) as fault:
            if job.is_dispatching and fault.code == "UNAVAILABLE":  # it did nothing, and may not have been dispatched
                raise GatewayError("UNAVAILABLE", fault.detail, retryable=True) from None
            receipt = self._make_failed(job, fault.code, fault.detail)
        except StartUnsettled as fault:
            # Nothing was run, but a start may stand: whoever is asked next must find an end, not a start alone.
            self._submit_failed(job, "execution_error", f"the record did not answer: {fault.code}")
            raise
        else:
            if isinstance(outcome, Receipt):
                self._counters["replayed"] += 1
                return outcome
            receipt = make_completed(job.order, outcome, job.usage, job.stamp())
        receipt = await self._record(job, receipt)
        self._counters[receipt.state] += 1
        self._log_end(job, receipt)
        return receipt

    async def _find_recorded(self, job: Job) -> Receipt | None:
        """Return the recorded receipt; an end of this worker may be on its way, or not yet taken by the ledger."""
        await self._ledger.flush()
        return await self._ends.record_kept(job.order) or await self._ends.find(job.order)

    async def _record(self, job: Job, receipt: Receipt) -> Receipt:
        """Record the end and return the receipt to answer with: this one at once, or the one that won."""
        is_completed, is_models = receipt.state == "completed", job.order.tool_call is None
        if not (is_completed and (is_models or self._is_pipelined(job))):
            return await self._ends.record(self._end_of(job, receipt))
        self._begun.discard(job.order.wo_id)
        if job.order.wo_type == "consolidate" or not self._is_journaled(job):
            self._ends.submit(self._end_of(job, receipt))
        return receipt

    def _is_journaled(self, job: Job) -> bool:
        """Whether the OrderEnded of its supervisor, which a consolidation has not, says all that the order brought."""
        return not job.said.files and not job.said.named() and self._is_free(job)

    def _is_free(self, job: Job) -> bool:
        tools = (self._specs.get(tool_id) for tool_id in job.usage.tool_ids)
        return all(tool is not None and tool.is_free for tool in tools)

    def _is_pipelined(self, job: Job) -> bool:
        """Whether a tool's output is answered while its end is still on its way into the record.

        A model's answer always is: all of it stands in the gateway's records already, whoever executes its order again
        gets it by its call key, and its end is OrderEnded, its supervisor's. So is the first output of an idempotent
        tool, and each of one that only reads, which the supervisor records with the receipt that it takes, but for
        files, which stand in this end alone; of any other tool nobody may act on an output that a crash could take
        back. Another end can only stand if this delivery was given up; then the supervisor has, or gets, another
        receipt, the broker drops this one as late, and this end is kept as WO_LATE. A repeat may have lost to an end
        that was answered.
        """
        is_first = not job.is_repeat and all(map(self._is_idempotent, job.usage.tool_ids))
        return not job.said.files and (is_first or self._is_free(job))

    def _is_idempotent(self, tool_id: str) -> bool:
        tool = self._specs.get(tool_id)  # of a server it may be gone again
        return tool is not None and tool.idempotent

    async def _carry_out(self, job: Job) -> OutputResult | Receipt:
        snapshot = await self._snapshots.get(job.order.config_digest)
        if job.order.wo_type == "tool_call":
            return await self._tool_step.run(job, snapshot)
        return await self._model_step.run(job, snapshot)

    def _make_failed(self, job: Job, code: str, message: str) -> Receipt:
        return make_failed(job.order, code, message, job.usage, job.stamp())

    def _submit_failed(self, job: Job, code: str, message: str) -> None:
        self._counters["failed"] += 1
        receipt = self._make_failed(job, code, message)
        self._log_end(job, receipt)
        self._ends.submit(self._end_of(job, receipt))

    def _end_of(self, job: Job, receipt: Receipt) -> EndWritten:
        wo_id = job.order.wo_id
        return EndWritten(
            job.order, receipt, job.stamp(), self._find_parents(job), lambda: self._begun.discard(wo_id), job.said
        )

    def _find_parents(self, job: Job) -> list[str]:
        """Return what an end rests on: the answers it was made from, the start of its tool, or the dispatch alone."""
        if job.usage.received_ids:
            return list(job.usage.received_ids)
        if job.usage.tool_ids and not self._is_free(job):
            return [end_id("TOOL_STARTED", job.order.wo_id, job.bus.instance)]
        return [derive_dispatched_id(job.order.wo_id)]

    def _log_end(self, job: Job, receipt: Receipt) -> None:
        """Log how an order ended here, without its texts."""
        self._log.info(
            "work_order_ended",
            turn=job.draft.run,
            work_order=job.order.wo_id,
            type=job.order.wo_type,
            state=receipt.state,
            elapsed_ms=receipt.cost.elapsed_ms,
        )
