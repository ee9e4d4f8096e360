"""Lanes beside the broker, on both transports: who goes by them, and that nothing depends on them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bench.builders import order
from hobus.bus import limits
from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import BusError
from hobus.bus.messages.control import AnnounceTools, Done, Drain, PeerRow, ReadPeer, ToolWord
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.streams import StreamDelta
from hobus.bus.messages.work_order import Cost, ExecuteWorkOrder, Receipt
from tests.conformance.clusters import Cluster, RealCluster, SimCluster, bus_settings
from tests.conformance.desk import Desk, prompt
from tests.played import played

SETTINGS = bus_settings(service_grace_ms=400, peer_timeout_ms=400, beat_interval_ms=100)
PATIENT = bus_settings(service_grace_ms=400, peer_timeout_ms=3000)
"""Where time is the machine's: a busy one stands still for a second."""


class Executor(Actor):
    """It asks the gateway, and takes orders, which it holds."""

    service = "ho1"

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.calls: list[Call] = []
        self.go = asyncio.Event()
        self.is_cancelled = False

    async def on_order(self, message: ExecuteWorkOrder, call: Call) -> Receipt:
        self.begun.append(call.message_id)
        self.calls.append(call)
        call.stream(StreamDelta(step=message.order.wo_id, attempt=1, index=0, text="piece"))
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        order = message.order
        return Receipt(
            wo_id=order.wo_id, fence=order.fence, state="completed", cost=Cost(), executed_by=call.sender,
            completed_at="2026-01-01T00:00:00.000000Z",
        )  # fmt: skip


class Supervisor(Actor):
    """It gives orders."""

    service = "ho2"


@pytest.fixture(params=["simulated", pytest.param("zeromq", marks=pytest.mark.process)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One transport."""
    made = SimCluster(SETTINGS) if request.param == "simulated" else RealCluster(PATIENT)
    yield made
    made.close()


async def until(condition) -> None:
    """Waits for what must come soon; pytest's time-out is the limit."""
    while not condition():
        await asyncio.sleep(0.005)


async def executor(cluster: Cluster):
    """One whose lane is up."""
    worker = await cluster.start(Executor(), role="ho1", slots=1)
    await until(lambda: worker._connections["gateway"].is_bound)
    return worker


async def pool(cluster: Cluster, count: int = 2, slots: int = 8):
    """So many executors, and a supervisor that has a lease of half of each one's slots."""
    executors = [Executor() for _ in range(count)]
    workers = [await cluster.start(one, role="ho1", slots=slots) for one in executors]
    supervisor = await cluster.start(Supervisor(), role="ho2")
    await until(lambda: sum(lane.is_bound and lane.slots > 0 for lane in supervisor._outbox.leases) == count)
    return executors, workers, supervisor


def give(supervisor, number: int, **options):
    """An order of this number is given to the pool, from now on."""
    wo_id = f"WO-{number}"
    message = ExecuteWorkOrder(order=order(wo_id=wo_id), attempt=1)
    options = {"timeout_s": 15, "message_id": wo_id, **options}
    return asyncio.ensure_future(supervisor.request("ho1", message, expect=Receipt, **options))


def ask(peer, script: str, **options):
    """The gateway is asked to do what the script says, from now on."""
    options = {"timeout_s": 15, "message_id": f"WO-{script}#1", **options}
    return asyncio.ensure_future(peer.request("gateway", prompt(script), expect=PromptResponse, **options))


@played
async def test_an_executors_prompts_go_by_the_lane_for_its_orders_principal_and_the_tap_has_them_all(cluster):
    """In the broker's one sequence, with their times; its row and its queue show what is at work there."""
    desk = Desk()
    gateway = await cluster.start(desk, role="gateway", slots=1)
    worker = await executor(cluster)
    operator = await cluster.start(None, role="operator")
    tapped = await cluster.tap()
    with worker.on_behalf_of("client/7"):
        held, told = ask(worker, "hold"), ask(worker, "echo a", trace="t-1")
    assert (await told).content == "a"
    assert {call.lane for call in desk.calls} == {"gateway"}
    assert {running.principal for running in gateway._inbox._running.values()} == {"client/7"}
    row = None
    while row is None or not row.in_flight:
        await asyncio.sleep(0.01)
        row = await operator.request("broker", ReadPeer(instance=gateway.instance), expect=PeerRow, timeout_s=5)
    desk.go.set()
    await held
    await until(lambda: sum(one.lane == "direct" for one in tapped) == 4)
    frames = [one for one in tapped if one.lane == "direct"]
    assert [(one.kind, one.verdict, one.sensitive) for one in frames] == [
        ("request", "delivered", True), ("request", "delivered", True), ("reply", "delivered", True),
        ("reply", "delivered", True),
    ]  # fmt: skip
    assert [one.at for one in frames] == sorted(one.at for one in frames)
    assert {one.worker for one in frames if one.kind == "request"} == {gateway.instance}
    numbers = [one.sequence for one in tapped]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


@played
async def test_a_prompt_whose_gateway_is_killed_is_the_next_ones_by_the_broker(cluster):
    """Once by the lane, then within the broker's attempts."""
    first = Desk()
    gateway = await cluster.start(first, role="gateway", slots=1)
    worker = await executor(cluster)
    asked = ask(worker, "hold")
    await until(lambda: first.begun)
    cluster.kill(gateway)
    second = Desk()
    second.go.set()
    await cluster.start(second, role="gateway", slots=1)
    assert (await asked).content == second.instance
    assert [call.lane for call in second.calls] == [""]
    await until(lambda: worker._connections["gateway"].is_bound)
    assert (await ask(worker, "echo on")).content == "on"
    assert second.calls[-1].lane == "gateway"


@played
async def test_without_a_gateway_the_broker_says_so_and_nobody_waits_for_a_lane(cluster):
    """A worker that knew the lane, and one that never did."""
    gateway = await cluster.start(Desk(), role="gateway", slots=1)
    worker = await executor(cluster)
    asked = ask(worker, "hold")
    await asyncio.sleep(0.05)
    cluster.kill(gateway)
    for one in (asked, ask(worker, "echo x")):
        with pytest.raises(BusError) as caught:
            await one
        assert caught.value.code == "no_route"


@played
async def test_a_gateway_that_is_drained_takes_nothing_new_by_its_lane_and_ends_what_it_has(cluster):
    """What comes meanwhile is its successor's, by the broker."""
    desk = Desk()
    gateway = await cluster.start(desk, role="gateway", slots=1)
    worker = await executor(cluster)
    operator = await cluster.start(None, role="operator")
    held = ask(worker, "hold")
    await until(lambda: desk.begun)
    await operator.request("broker", Drain(instance=gateway.instance), expect=Done, timeout_s=5)
    await until(lambda: worker._connections["gateway"].is_resting)
    later = ask(worker, "echo later")
    await asyncio.sleep(0.05)
    desk.go.set()
    assert (await held).content == desk.instance
    assert len(desk.calls) == 1
    await gateway.stop(1.0)
    cluster.kill(gateway)
    await cluster.start(Desk(), role="gateway", slots=1)
    assert (await later).content == "later"


@played
async def test_prompts_go_on_while_the_broker_is_away(cluster):
    """What is at work by the lane is answered, and what is new goes by it; the tap misses them."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=1)
    worker = await executor(cluster)
    held = ask(worker, "hold")
    await until(lambda: desk.begun)
    await cluster.restart_broker()
    assert (await ask(worker, "echo on")).content == "on"
    desk.go.set()
    assert (await held).content == desk.instance
    assert {call.lane for call in desk.calls} == {"gateway"}


@played
async def test_who_asked_first_is_answered_too_when_another_one_asks_the_same_by_the_lane(cluster):
    """An order that went on to another executor, whose first one lives: neither waits for its deadline."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=1)
    workers = [await executor(cluster) for _ in range(2)]
    asked = [ask(worker, "hold") for worker in workers]
    await asyncio.sleep(0.05)
    assert len(desk.begun) == 1
    desk.go.set()
    assert [(await one).content for one in asked] == [desk.instance] * 2


@played
async def test_a_gateway_that_stood_still_answers_what_it_was_asked_by_the_lane(cluster):
    """Its clients ask again by the broker, which finds the request at work."""
    desk = Desk()
    gateway = await cluster.start(desk, role="gateway", slots=1)
    worker = await executor(cluster)
    asked = ask(worker, "hold")
    await until(lambda: desk.begun)
    gateway._servers[0].unbind_all()
    await until(lambda: desk.go.set() or not worker._outbox._pending.of("gateway"))
    assert (await asked).content == desk.instance
    assert len(desk.begun) == 1


@played
async def test_a_full_mailbox_says_busy_at_a_lane_too(cluster, monkeypatch):
    """A lane gives no credit: of one principal only so many, and of all."""
    monkeypatch.setattr(limits, "OPEN_MAX", 2)
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=9)
    worker = await executor(cluster)
    with worker.on_behalf_of("client/7"):
        asked = [ask(worker, f"hold {n}") for n in range(3)]
    with worker.on_behalf_of("client/8"):
        other = ask(worker, "echo other")
    assert (await other).content == "other"
    with pytest.raises(BusError) as caught:
        await asked[2]
    assert (caught.value.code, caught.value.retryable) == ("busy", True)
    desk.go.set()
    await asyncio.gather(*asked[:2])


# --- leases of executors ----------------------------------------------------------------------------------------------


@played
async def test_orders_for_nobody_in_particular_go_by_the_lanes_of_leased_executors_to_whoever_has_fewest(cluster):
    """With what is streamed before their receipts; the tap has each frame; one that needs a tool is the broker's."""
    executors, workers, supervisor = await pool(cluster)
    tapped, pieces = await cluster.tap(), []
    with supervisor.on_behalf_of("client/7"):
        asked = [give(supervisor, number, on_stream=pieces.append) for number in range(4)]
    await until(lambda: sum(len(one.begun) for one in executors) == 4)
    assert [len(one.begun) for one in executors] == [2, 2]
    assert {call.lane for one in executors for call in one.calls} == {"ho1"}
    assert {call.sender for one in executors for call in one.calls} == {supervisor.instance}
    principals = {one.principal for worker in workers for one in worker._inbox._running.values()}
    assert principals == {"client/7"}
    for one in executors:
        one.go.set()
    assert {(await one).state for one in asked} == {"completed"}
    assert [piece.text for piece in pieces] == ["piece"] * 4
    await until(lambda: sum(one.lane == "direct" for one in tapped) == 12)
    numbers = [one.sequence for one in tapped]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert not any(one.type == ExecuteWorkOrder.TYPE for one in tapped if one.lane == "broker")
    held = give(supervisor, 9, key="a_tool", timeout_s=1)
    await until(lambda: any(one.type == ExecuteWorkOrder.TYPE for one in tapped if one.lane == "broker"))
    held.cancel()


@played
async def test_a_call_of_a_tool_that_may_run_twice_goes_by_the_lane_of_one_that_has_it(cluster):
    """However many orders that has; another tool's call is placed by the broker."""
    (_, able), (_, worker), supervisor = await pool(cluster)
    words = [
        ToolWord(tool_id=name, source="s", description="d", parameters="{}", idempotent=True, writes=name == "sends")
        for name in ("reads", "sends")
    ]
    worker.announce(AnnounceTools(tools=words, sources=[]))
    await until(lambda: any("reads" in lane.tools for lane in supervisor._outbox.leases))
    asked = [give(supervisor, number, key="reads") for number in range(3)] + [give(supervisor, 3, key="sends")]
    await until(lambda: len(able.calls) == 4)
    assert [call.lane for call in able.calls] == ["ho1", "ho1", "ho1", ""]
    able.go.set()
    assert {(await one).state for one in asked} == {"completed"}


@played
async def test_beyond_its_lease_a_supervisors_orders_are_placed_by_the_broker(cluster):
    """Half of eight slots are leased, the rest is the broker's; never more than all at once."""
    (executor,), _, supervisor = await pool(cluster, 1)
    asked = [give(supervisor, number) for number in range(9)]
    await until(lambda: len(executor.begun) == 8)
    await asyncio.sleep(0.05)
    lanes = [call.lane for call in executor.calls]
    assert (lanes.count("ho1"), lanes.count("")) == (4, 4)
    executor.go.set()
    assert {(await one).state for one in asked} == {"completed"}


@played
async def test_orders_of_an_executor_that_is_killed_go_to_another_one(cluster):
    """At the broker's word, or at the lane's silence, whichever comes first."""
    executors, workers, supervisor = await pool(cluster)
    asked = [give(supervisor, number) for number in range(2)]
    await until(lambda: all(one.begun for one in executors))
    cluster.kill(workers[0])
    await until(lambda: len(executors[1].begun) == 2)
    assert {lane.name for lane in supervisor._outbox.leases} <= {one.instance for one in workers}
    executors[1].go.set()
    assert {(await one).state for one in asked} == {"completed"}
    await until(lambda: [lane.name for lane in supervisor._outbox.leases] == [workers[1].instance])


@played
async def test_a_cancel_by_a_lane_stops_the_handler_there(cluster):
    """As through the broker."""
    (executor,), _, supervisor = await pool(cluster, 1)
    asked = give(supervisor, 1)
    await until(lambda: executor.begun)
    asked.cancel()
    await until(lambda: executor.is_cancelled)


@played
async def test_an_executor_that_drains_ends_what_it_has_and_gets_nothing_new(cluster):
    """Its successor is told of as soon as it is there."""
    executors, workers, supervisor = await pool(cluster)
    first = give(supervisor, 0)
    await until(lambda: executors[0].begun or executors[1].begun)
    at, other = (0, 1) if executors[0].begun else (1, 0)
    operator = await cluster.start(None, role="operator")
    await operator.request("broker", Drain(instance=workers[at].instance), expect=Done, timeout_s=5)
    await until(lambda: 0 in [lane.slots for lane in supervisor._outbox.leases])
    rest = [give(supervisor, number) for number in range(1, 4)]
    await until(lambda: len(executors[other].begun) == 3)
    for one in executors:
        one.go.set()
    assert {(await one).state for one in (first, *rest)} == {"completed"}
    assert len(executors[at].begun) == 1


@played
async def test_a_restart_of_the_broker_ends_leases_and_nothing_that_is_under_way(cluster):
    """What is new waits for the new broker; afterwards lanes are used again."""
    (executor,), _, supervisor = await pool(cluster, 1)
    asked = give(supervisor, 1)
    await until(lambda: executor.begun)
    await cluster.restart_broker()
    await until(lambda: supervisor._outbox.leases[0].slots == 0)
    executor.go.set()
    assert (await asked).state == "completed"
    await until(lambda: supervisor._outbox.leases[0].slots > 0)
    assert (await give(supervisor, 2)).state == "completed"
    assert [call.lane for call in executor.calls] == ["ho1", "ho1"]
