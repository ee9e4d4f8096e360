"""Lanes beside the broker, on both transports: who goes by them, and that nothing depends on them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from hobus.bus import limits
from hobus.bus.dispatch import Actor
from hobus.bus.errors import BusError
from hobus.bus.messages.control import Done, Drain, PeerRow, ReadPeer
from hobus.bus.messages.gateway import PromptResponse
from tests.conformance.clusters import Cluster, RealCluster, SimCluster, bus_settings
from tests.conformance.desk import Desk, prompt

SETTINGS = bus_settings(service_grace_ms=400, peer_timeout_ms=400, beat_interval_ms=100, attempts_max=2)


class Executor(Actor):
    """It asks, and answers nobody."""

    service = "ho1"


@pytest.fixture(params=["simulated", pytest.param("zeromq", marks=pytest.mark.process)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One transport."""
    made = SimCluster(SETTINGS) if request.param == "simulated" else RealCluster(SETTINGS)
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


def ask(peer, script: str, **options):
    """The gateway is asked to do what the script says, from now on."""
    options = {"timeout_s": 5, "message_id": f"WO-{script}#1", **options}
    return asyncio.ensure_future(peer.request("gateway", prompt(script), expect=PromptResponse, **options))


def test_an_executors_prompts_go_by_the_lane_for_its_orders_principal_and_the_tap_has_them_all(cluster):
    """In the broker's one sequence, with their times; its row and its queue show what is at work there."""

    async def scenario() -> None:
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

    cluster.run(scenario())


def test_a_prompt_whose_gateway_is_killed_is_the_next_ones_by_the_broker(cluster):
    """Once by the lane, then within the broker's attempts."""

    async def scenario() -> None:
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

    cluster.run(scenario())


def test_without_a_gateway_the_broker_says_so_and_nobody_waits_for_a_lane(cluster):
    """A worker that knew the lane, and one that never did."""

    async def scenario() -> None:
        gateway = await cluster.start(Desk(), role="gateway", slots=1)
        worker = await executor(cluster)
        asked = ask(worker, "hold")
        await asyncio.sleep(0.05)
        cluster.kill(gateway)
        for one in (asked, ask(worker, "echo x")):
            with pytest.raises(BusError) as caught:
                await one
            assert caught.value.code == "no_route"

    cluster.run(scenario())


def test_a_gateway_that_is_drained_takes_nothing_new_by_its_lane_and_ends_what_it_has(cluster):
    """What comes meanwhile is its successor's, by the broker."""

    async def scenario() -> None:
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

    cluster.run(scenario())


def test_prompts_go_on_while_the_broker_is_away(cluster):
    """What is at work by the lane is answered, and what is new goes by it; the tap misses them."""

    async def scenario() -> None:
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

    cluster.run(scenario())


def test_who_asked_first_is_answered_too_when_another_one_asks_the_same_by_the_lane(cluster):
    """An order that went on to another executor, whose first one lives: neither waits for its deadline."""

    async def scenario() -> None:
        desk = Desk()
        await cluster.start(desk, role="gateway", slots=1)
        workers = [await executor(cluster) for _ in range(2)]
        asked = [ask(worker, "hold") for worker in workers]
        await asyncio.sleep(0.05)
        assert len(desk.begun) == 1
        desk.go.set()
        assert [(await one).content for one in asked] == [desk.instance] * 2

    cluster.run(scenario())


def test_a_gateway_that_stood_still_answers_what_it_was_asked_by_the_lane(cluster):
    """Its clients ask again by the broker, which finds the request at work."""

    async def scenario() -> None:
        desk = Desk()
        gateway = await cluster.start(desk, role="gateway", slots=1)
        worker = await executor(cluster)
        asked = ask(worker, "hold")
        await until(lambda: desk.begun)
        gateway._servers[0].unbind_all()
        await until(lambda: desk.go.set() or not worker._outbox._pending.of("gateway"))
        assert (await asked).content == desk.instance
        assert len(desk.begun) == 1

    cluster.run(scenario())


def test_a_full_mailbox_says_busy_at_a_lane_too(cluster, monkeypatch):
    """A lane gives no credit: of one principal only so many, and of all."""
    monkeypatch.setattr(limits, "OPEN_MAX", 2)

    async def scenario() -> None:
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

    cluster.run(scenario())
