"""What the record may do at its worst: acks that come late, ends that it refuses, snapshots that are not there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from bench.builders import order, shipped_snapshot, tool_order
from hobus.actors.ho1_executor.actor import OrderSnapshots
from hobus.actors.ho1_executor.ends import EndWritten, OrderEnds
from hobus.actors.ho1_executor.held_state import HeldState
from hobus.actors.ho1_executor.job import Job
from hobus.actors.ho1_executor.receipts import OrderUsage, make_completed
from hobus.actors.ho1_executor.tool_step import ToolStep
from hobus.actors.ho1_executor.tools.definition import Bounds
from hobus.actors.ho1_executor.tools.in_process import InProcessToolRunner
from hobus.bus.errors import BusError, LedgerError, RuntimeFault, WorkOrderFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ledger import Ack, Entry, WriteEntry
from hobus.bus.messages.work_order import OutputResult, Receipt, Segment, WorkOrder
from hobus.bus.promise import Promise
from hobus.config.snapshot import Snapshot
from tests.actors.ho1_executor.rig import Effects, ScriptedGateway, cluster
from tests.actors.ho1_executor.test_receipts import HERE, stored

SAFE, ONCE = "list_packages", "show_config"


@dataclass
class LedgerOnPaper:
    """The executor's side of a ledger client, with the acks and delays that a test wants."""

    refused: Sequence[str] = ()  # event types
    entries: list[WriteEntry] = field(default_factory=list)
    under_way: list[Promise[list[Ack]]] = field(default_factory=list)
    unflushed: list[WriteEntry] = field(default_factory=list)  # become visible with the next flush
    bodies: dict[str, bytes] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)

    async def write(self, entries: Sequence[WriteEntry], *, trace: str = "", follows: str = "") -> list[Ack]:
        submitted = self.submit(entries, trace=trace)
        await self.flush()
        return submitted.result()

    def _arrive(self, entry: WriteEntry) -> list[Ack]:
        """First of its key wins."""
        if entry.event_type in self.refused:
            return [Ack(outcome="refused", sequence=-1, submission_id=entry.submission_id, code="too_large")]
        for earlier in self.entries:
            if earlier.submission_id == entry.submission_id:
                return [Ack(outcome="known", sequence=1, submission_id=earlier.submission_id, origin="ho1/1@a")]
        self.entries.append(entry)
        return [Ack(outcome="committed", sequence=1, submission_id=entry.submission_id, origin="ho1/1@a")]

    def submit(
        self,
        entries: Sequence[WriteEntry],
        *,
        trace: str = "",
        urgent: bool = False,
        at_once: bool = False,
        follows: str = "",
    ) -> Promise[list[Ack]]:
        promise: Promise[list[Ack]] = Promise()
        self.under_way.append(promise)
        asyncio.get_running_loop().call_soon(lambda: promise.settle(self._arrive(entries[0])))
        return promise

    async def flush(self) -> None:
        """What was under way arrives."""
        for promise in self.under_way:
            await promise
        self.entries += self.unflushed
        self.unflushed = []

    async def lookup(self, *, once: Sequence[str], with_bodies: bool = False) -> list[Entry | None]:
        by_key = {entry.once: stored(entry, origin="ho1/1@a") for entry in self.entries}
        return [by_key.get(key) for key in once]

    async def body(self, ref: str) -> bytes:
        self.fetched.append(ref)
        if ref not in self.bodies:
            raise BusError("not_found", ref)
        return self.bodies[ref]


class BusOnPaper:
    """The name and clock of one worker."""

    instance = "ho1/1@a"
    clock = property(lambda self: self)

    def monotonic(self) -> float:
        return 1.0

    def now(self) -> float:
        return 1.0


def as_client(ledger: LedgerOnPaper) -> LedgerClient:
    return cast("LedgerClient", ledger)


async def run_tool(ledger: LedgerOnPaper, effects: Effects, tool_id: str, begun: set[str]) -> OutputResult | Receipt:
    """A repeated tool order at a worker whose earlier start is in the record."""
    bus: Any = BusOnPaper()
    tools = effects.tools()
    step = ToolStep(
        bus=bus,
        ledger=as_client(ledger),
        ends=OrderEnds(as_client(ledger), retry_s=1.0),
        runner=InProcessToolRunner(tools=tools, view={}, bounds=Bounds(output=100, said=100, files=100)),
        specs=tools,
        config=shipped_snapshot().config,
        held=HeldState(as_client(ledger), "ho1/1@a", page=10),
        begun=begun,
    )
    job = Job(bus=bus, order=tool_order(tool_id), usage=OrderUsage(started=1.0), is_repeat=True, deadline=9.0, trace="")
    return await step.run(job, shipped_snapshot())


async def started(tool_id: str) -> tuple[LedgerOnPaper, Effects]:
    """A record with this worker's start of the order, and no run that anybody remembers."""
    ledger = LedgerOnPaper()
    await run_tool(ledger, Effects(), tool_id, set())
    assert [entry.event_type for entry in ledger.entries] == ["TOOL_STARTED"]
    return ledger, Effects()


@pytest.mark.parametrize("tool_id", [SAFE, ONCE])
async def test_an_own_start_that_never_ran_is_run(tool_id: str) -> None:
    """Its ack was lost and the first delivery gave up before the tool: nothing happened, so it may."""
    ledger, effects = await started(tool_id)
    begun: set[str] = set()
    assert isinstance(await run_tool(ledger, effects, tool_id, begun), OutputResult)
    assert len(effects.runs) == 1
    assert len(ledger.entries) == 1
    assert begun == {tool_order().wo_id}


async def test_an_own_run_without_an_end_is_in_doubt() -> None:
    """It began here, and its end was neither recorded nor is it on its way."""
    ledger, effects = await started(ONCE)
    with pytest.raises(WorkOrderFault) as caught:
        await run_tool(ledger, effects, ONCE, {tool_order().wo_id})
    assert (caught.value.code, effects.runs) == ("unknown_outcome", [])


async def test_an_own_run_of_a_safe_tool_is_simply_repeated() -> None:
    """That is what idempotent means."""
    ledger, effects = await started(SAFE)
    assert isinstance(await run_tool(ledger, effects, SAFE, {tool_order().wo_id}), OutputResult)


@pytest.mark.parametrize("tool_id", [SAFE, ONCE])
async def test_an_end_that_is_on_its_way_is_waited_for(tool_id: str) -> None:
    """The tool ran, its end is submitted and not acknowledged: the repeat answers with it."""
    ledger, effects = await started(tool_id)
    given = tool_order(tool_id)
    receipt = make_completed(given, OutputResult(text=Segment(name="001", text="out")), OrderUsage(started=0.0), HERE)
    await OrderEnds(as_client(ledger), retry_s=1.0).record(EndWritten(given, receipt, HERE, []))
    ledger.unflushed = [ledger.entries.pop()]
    assert await run_tool(ledger, effects, tool_id, {given.wo_id}) == receipt
    assert effects.runs == []


@pytest.mark.parametrize(("given", "code"), [(order(), "execution_error"), (tool_order(ONCE), "unknown_outcome")])
async def test_an_end_that_the_record_refuses_becomes_a_failure_that_says_so(given: WorkOrder, code: str) -> None:
    """Too large, say: the order still gets its one end, with its cost; a tool that ran is in doubt, and not failed."""
    ledger = LedgerOnPaper(refused=["WO_COMPLETED"])
    tally = OrderUsage(started=0.0, tokens=Counter(input_tokens=7))
    receipt = make_completed(given, OutputResult(text=Segment(text="out")), tally, HERE)
    answered = await OrderEnds(as_client(ledger), retry_s=1.0).record(EndWritten(given, receipt, HERE, ["p"]))
    assert answered.error is not None
    assert (answered.error.code, answered.cost) == (code, receipt.cost)
    assert "too_large" in answered.error.message
    assert [(entry.event_type, entry.parents) for entry in ledger.entries] == [("WO_FAILED", ["p"])]


async def test_an_end_that_is_refused_after_its_answer_becomes_a_failure_too() -> None:
    ledger = LedgerOnPaper(refused=["WO_COMPLETED"])
    receipt = make_completed(order(), OutputResult(text=Segment(text="out")), OrderUsage(started=0.0), HERE)
    OrderEnds(as_client(ledger), retry_s=1.0).submit(EndWritten(order(), receipt, HERE, ["p"]))
    for _ in range(10):
        await asyncio.sleep(0)
    assert [(entry.event_type, entry.parents) for entry in ledger.entries] == [("WO_FAILED", ["p"])]


async def test_a_record_that_refuses_every_end_is_a_fault() -> None:
    ledger = LedgerOnPaper(refused=["WO_COMPLETED", "WO_FAILED"])
    receipt = make_completed(order(), OutputResult(text=Segment(text="out")), OrderUsage(started=0.0), HERE)
    durable: list[str] = []
    with pytest.raises(LedgerError) as caught:
        await OrderEnds(as_client(ledger), retry_s=1.0).record(
            EndWritten(order(), receipt, HERE, [], lambda: durable.append("an end"))
        )
    assert (caught.value.code, caught.value.retryable, durable) == ("rejected", False, [])


@pytest.mark.parametrize(
    ("refused", "events"),
    [([], ["WO_COMPLETED"]), (["WO_COMPLETED"], ["WO_FAILED"]), (["WO_COMPLETED", "WO_FAILED"], [])],
)
async def test_what_becomes_of_an_end_does_not_depend_on_who_waits_for_it(
    refused: list[str], events: list[str]
) -> None:
    """Its order was cancelled while the record had not answered: it stands and that is known, or a failure does."""
    ledger = LedgerOnPaper(refused=refused)
    receipt = make_completed(order(), OutputResult(text=Segment(text="out")), OrderUsage(started=0.0), HERE)
    durable: list[str] = []
    recording = asyncio.ensure_future(
        OrderEnds(as_client(ledger), retry_s=1.0).record(
            EndWritten(order(), receipt, HERE, [], lambda: durable.append("an end"))
        )
    )
    await asyncio.sleep(0)
    recording.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert recording.cancelled()
    assert [entry.event_type for entry in ledger.entries] == events
    assert durable == ["an end"] * len(events)


# --- snapshots --------------------------------------------------------------------------------------------------------


def other(number: int) -> Snapshot:
    """A snapshot with another digest."""
    packs = {**shipped_snapshot().prompt_packs, "PRM-OTHER-001": f"[[user]]\n{number}"}
    made = Snapshot(
        **{**{name: getattr(shipped_snapshot(), name) for name in vars(shipped_snapshot())}, "prompt_packs": packs}
    )
    return Snapshot.from_bytes(made.to_bytes())


async def test_an_order_under_another_snapshot_gets_that_one() -> None:
    made = other(1)
    ledger = LedgerOnPaper(bodies={f"CONFIG_SNAPSHOT:{made.digest}/0": made.to_bytes()})
    snapshots = OrderSnapshots(shipped_snapshot(), as_client(ledger), kept_max=2)
    for _ in range(2):
        assert (await snapshots.get(made.digest)).prompt_packs == made.prompt_packs
    assert await snapshots.get(shipped_snapshot().digest) is shipped_snapshot()
    assert len(ledger.fetched) == 1


async def test_only_the_last_few_are_kept() -> None:
    made = [other(number) for number in range(3)]
    ledger = LedgerOnPaper(bodies={f"CONFIG_SNAPSHOT:{one.digest}/0": one.to_bytes() for one in made})
    snapshots = OrderSnapshots(shipped_snapshot(), as_client(ledger), kept_max=2)
    for index in (0, 1, 0, 2, 0, 1):
        await snapshots.get(made[index].digest)
    assert [ref.split("/")[0][-10:] for ref in ledger.fetched] == [made[index].digest[-10:] for index in (0, 1, 2, 1)]


@pytest.mark.parametrize("data", [b"\xc1", b"\x80", None, "other"])
async def test_a_snapshot_that_is_not_there_or_not_that_one_fails_the_order(data: Any) -> None:
    bodies = {} if data is None else {"CONFIG_SNAPSHOT:sha256:x/0": other(1).to_bytes() if data == "other" else data}
    snapshots = OrderSnapshots(shipped_snapshot(), as_client(LedgerOnPaper(bodies=bodies)), kept_max=2)
    with pytest.raises(WorkOrderFault) as caught:
        await snapshots.get("sha256:x")
    assert caught.value.code == "execution_error"


async def test_a_record_that_is_away_is_no_fault_of_the_order() -> None:
    class Away(LedgerOnPaper):
        async def body(self, ref: str) -> bytes:
            raise LedgerError("unavailable", "away")

    with pytest.raises(RuntimeFault) as caught:
        await OrderSnapshots(shipped_snapshot(), as_client(Away()), kept_max=2).get("sha256:x")
    assert caught.value.retryable


def test_an_order_under_a_recorded_snapshot_is_executed_under_it() -> None:
    made_snapshot = other(1)
    gateway = ScriptedGateway()
    with cluster(gateway) as made:
        entry = WriteEntry(
            submission_id=f"CONFIG_SNAPSHOT:{made_snapshot.digest}", stream="governance",
            event_type="CONFIG_SNAPSHOT", at_us=0, bodies=[made_snapshot.to_bytes()],
        )  # fmt: skip
        made.world.run(made.record_snapshot(entry))
        given = order(config_digest=made_snapshot.digest, constraints={"prompt_contract_id": "PRC-NONE-001"})
        receipt = made.world.run(made.execute(given))
        assert receipt.error is not None
        assert receipt.error.code == "contract_not_found"  # the snapshot was found; a missing one is execution_error
