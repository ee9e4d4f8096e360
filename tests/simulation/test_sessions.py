"""The exit criteria of a session in the simulated cluster, and what else may happen to a session that is spoken to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.bus.messages.session import Cancel, SessionView, Steer, TurnResult
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot
from tests import sessions
from tests.journals import check_record
from tests.sessions import QUESTION, Person, answering, names, stands_still
from tests.simulated import SimulatedCluster
from tests.simulation.turns import AsksForTools, with_thinking, with_tools

NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
THINKING_MS = 100


def configured(thinking_ms: int = THINKING_MS, **sections: dict[str, Any]) -> Snapshot:
    """The shipped configuration with a model that takes its time, and with these settings."""
    snapshot = with_thinking(shipped_snapshot(), thinking_ms)
    values = snapshot.config.model_dump(mode="json")
    for section, changes in sections.items():
        values[section] |= changes
    return replace(snapshot, config=AdminConfig.model_validate(values))


@contextmanager
def played(snapshot: Snapshot | None = None, **fields: Any) -> Iterator[tuple[SimulatedCluster, Person]]:
    """A cluster with a person; what stands in its record in the end is sound."""
    with SimulatedCluster(snapshot or configured(), **fields) as cluster:
        person = Person(cluster.world.client("operator"), cluster.snapshot.config)
        cluster.world.run(cluster.world.settled())
        yield cluster, person
        cluster.world.run(asyncio.sleep(0.3))
        check_record(cluster.entries())
        assert cluster.verify().ok


STORIES: list[Callable[[Person], Awaitable[None]]] = [
    sessions.a_run_without_tools,
    sessions.a_steer_at_the_boundary,
    sessions.a_follow_up_after_the_run,
    sessions.calls_side_by_side,
    sessions.a_cancelled_run,
    sessions.the_same_journal_twice,
    sessions.commands_that_do_not_fit,
]


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[SimulatedCluster, Person]]:
    """A cluster for all stories of one person, and a person in it."""
    with played() as (cluster, person):
        yield cluster, person


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_exit_criterion(story: Callable[[Person], Awaitable[None]], shared: tuple[SimulatedCluster, Person]) -> None:
    """What the story says."""
    cluster, somebody = shared
    cluster.world.run(story(Person(somebody.bus, somebody.config)))


@pytest.mark.parametrize("is_killed", [False, True])
def test_lease_is_renewed_while_its_requester_waits_and_over_when_that_is_gone(is_killed: bool) -> None:
    """It takes its request back, and the host's handler ends; or it is killed, and the host asks on in its name."""
    with played(configured(sessions={"lease_heartbeat_timeout_s": 3})) as (cluster, person):
        bus = cluster.world.client("door")
        somebody = Person(bus, person.config)
        cluster.world.run(cluster.world.settled())

        def go_away(asked: asyncio.Task[TurnResult]) -> None:
            if is_killed:
                cluster.world.kill(bus.instance)
            else:
                asked.cancel()

        cluster.world.run(sessions.a_lease_renewed_and_over(person, somebody, go_away))


@pytest.mark.parametrize("ho2", [1, 2])
def test_paused_run_outlives_its_owner(ho2: int) -> None:
    """With another supervisor at hand, or once a new one is there."""
    with played(ho2=ho2) as (cluster, person):

        def kill(view: SessionView) -> None:
            cluster.world.kill(view.owner)
            cluster.start("ho2")

        cluster.world.run(sessions.a_pause_that_outlives_its_owner(person, kill))


def test_approval_and_denial() -> None:
    """What the story says."""
    with played(configured(tools={"approval": ["list_*", "verify_ledger"]})) as (cluster, person):
        cluster.world.run(sessions.an_approval_and_a_denial(person))


def test_batch_is_the_same_in_every_arrival_order() -> None:
    """The results stand in call order, and the answer is byte for byte the same."""
    order: tuple[int, ...] = ()
    arrived: list[int] = []

    def tool(number: int) -> ToolDefinition:
        async def run(_arguments: dict[str, Any], _host: Any) -> dict[str, int]:
            await asyncio.sleep(0.02 * (order.index(number) + 1))
            arrived.append(number)
            return {"number": number}

        return ToolDefinition(f"tool_{number}", "Tells its number.", NOTHING, idempotent=True, run=run)

    tools = [tool(number) for number in range(3)]
    snapshot = with_tools(configured(), *tools)
    with played(snapshot, providers={"offline": AsksForTools()}, tools={t.tool_id: t for t in tools}) as (
        cluster,
        person,
    ):

        async def story() -> str:
            await person.begin()
            return (await person.say("all of them", f"in-{order[0]}{order[1]}")).response

        for order in permutations(range(3)):
            arrived.clear()
            assert cluster.world.run(story()) == 'done: {"number": 0}; {"number": 1}; {"number": 2}', order
            assert tuple(arrived) == order
            assert names(cluster.world.run(person.journal())).count("OrderEnded") == 3 + 3, order


@pytest.mark.parametrize("is_stubborn", [False, True])
def test_cancelled_tool_is_stopped_and_its_late_result_is_ignored(is_stubborn: bool) -> None:
    """A tool that can be stopped never finishes; one that goes on all the same is recorded late and changes nothing."""
    finished: list[float] = []

    async def run(_arguments: dict[str, Any], _host: Any) -> dict[str, str]:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            if not is_stubborn:
                raise
            await asyncio.sleep(2)
        finished.append(1)
        return {"done": "all the same"}

    tool = ToolDefinition("slow", "Takes its time.", NOTHING, idempotent=False, run=run)
    snapshot = with_tools(configured(), tool)
    with played(snapshot, providers={"offline": AsksForTools()}, tools={"slow": tool}) as (cluster, person):

        async def story() -> str:
            await person.begin()
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(person.say("go"))
                await person.until(
                    lambda view: view.run is not None and bool(view.run.calls) and view.run.in_flight == 1
                )
                await person.bus.sleep(0.2)
                await person.command(Cancel())
            await person.bus.sleep(6)  # longer than the tool takes, and than one that goes on
            return asked.result().code or ""

        assert cluster.world.run(story()) == "cancelled"
        journal = cluster.world.run(person.journal())
        record = sessions.folded(journal, person)
        assert record.state.lifecycle == "Idle"
        assert len(finished) == is_stubborn
        kinds = [e.event_type for e in cluster.entries() if e.stream == "ho1m"]
        assert kinds.count("WO_LATE") <= 1
        [end] = [one for one in sessions.facts(journal) if one.kind == "OrderEnded" and one.wo_id.endswith(".001")]
        assert end.receipt.state == "failed"


@pytest.mark.parametrize("during", ["Running", "Paused"])
def test_host_that_dies_ends_no_run(during: str) -> None:
    """The client asks its successor under the same input id, and gets the one answer."""
    with played() as (cluster, person):

        async def story() -> str:
            await person.begin()
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(person.say(QUESTION))
                await person.until(answering)
                if during == "Paused":
                    await person.command(sessions.Pause())
                    await person.until(stands_still)
                host = next(name for name in cluster.world.processes if name.startswith("host/"))
                cluster.world.kill(host)
                cluster.start("host")
                await person.bus.sleep(1)
                if during == "Paused":
                    assert (await person.view()).lifecycle == "Paused"
                    await person.command(sessions.Resume())
            return asked.result().outcome

        assert cluster.world.run(story()) == "success"


def test_drained_supervisor_hands_its_sessions_over() -> None:
    """A run at work is answered by the one that leaves; one that stands still waits on at the other."""
    with played(configured(300), ho2=2) as (cluster, person):
        other = Person(cluster.world.client("operator"), person.config)
        cluster.world.run(cluster.world.settled())

        async def story() -> tuple[str, str, int]:
            await person.begin()
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(person.say(QUESTION))
                await person.until(answering)
                await person.command(sessions.Pause())
                owner = (await person.until(stands_still)).owner
                while True:
                    await other.begin()
                    if (await other.view()).owner == owner:
                        break
                also = group.create_task(other.say(QUESTION))
                await other.until(answering)
                peer = cluster.world.processes[owner].peer
                await peer.stop(10.0)
                await person.until(lambda view: stands_still(view) and view.owner != owner)
                await person.command(sessions.Resume())
            return asked.result().outcome, also.result().outcome, (await person.view()).tenure

        assert cluster.world.run(story()) == ("success", "success", 2)


def test_zombie_cannot_speak_for_its_session() -> None:
    """A supervisor that stood still while another took over: its appends are refused, nothing of it reaches a model."""
    with played(ho2=2) as (cluster, person):

        async def story() -> str:
            await person.begin()
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(person.say(QUESTION))
                owner = (await person.until(answering)).owner
                cluster.world.freeze(owner)
                await person.until(lambda view: view.owner != owner)
                await person.command(Steer(text="and is the ledger intact?"))
                cluster.world.thaw(owner)
            return asked.result().outcome

        assert cluster.world.run(story()) == "success"
        cluster.world.run(asyncio.sleep(2))
        journal = cluster.world.run(person.journal())
        assert names(journal).count("RunCompleted") == 1
        fenced = [n for n, e in enumerate(journal) if e.event_type == "TookOver"][-1]
        assert len({e.origin for e in journal[fenced:]}) == 1


def test_queued_order_of_a_cancelled_run_leaves_the_queue() -> None:
    """The one executor is busy with somebody else: what was cancelled meanwhile never reaches it, or a model."""
    with played(configured(300, ho1={"orders_max": 1})) as (cluster, person):
        other = Person(cluster.world.client("operator"), person.config)
        cluster.world.run(cluster.world.settled())

        async def story() -> tuple[str | None, str]:
            await person.begin()
            await other.begin()
            async with asyncio.TaskGroup() as group:
                busy = group.create_task(person.say(QUESTION))
                await person.until(lambda view: view.run is not None and view.run.in_flight > 0)
                queued = group.create_task(other.say(QUESTION))
                await other.until(lambda view: view.run is not None and view.run.in_flight > 0)
                await other.command(Cancel())
            return queued.result().code, busy.result().outcome

        assert cluster.world.run(story()) == ("cancelled", "success")
        sent = [e for e in cluster.entries() if e.event_type == "PROMPT_SENT"]
        assert sent
        assert {e.provenance.session_id for e in sent} == {person.session_id}
