"""No session stays Running undriven: runs and follow-ups that nobody waits for, when broker, owner or both are gone."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus.actors.ho1_executor.actor import Executor
from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.actors.ho2_supervisor.actor import SLOTS, Supervisor
from hobus.bus.dispatch import Call
from hobus.bus.messages.ids import derive_session_id, format_iso
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import CommandVerdict, FollowUp, HostCommand, ProcessTurn, SessionCommand, TurnResult
from hobus.bus.messages.work_order import ExecuteWorkOrder, Receipt
from hobus.launch.lab.simulated import BROKER
from tests.journals import check_record, count_of
from tests.sessions import Person
from tests.simulated import SimulatedCluster
from tests.simulation.turns import AsksForTools, with_thinking, with_tools

QUESTION = "what packages are installed?"
SESSION = derive_session_id("door", "in-1")
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


async def charge(_arguments: Mapping[str, Any], _host: Any) -> dict[str, bool]:
    """Takes a while."""
    await asyncio.sleep(3)
    return {"charged": True}


CHARGE = ToolDefinition("charge", "Charges the card.", NOTHING, idempotent=False, run=charge)


async def taken_back(cluster: SimulatedCluster, timeout_s: float = 30) -> None:
    """Somebody asks and takes the request back a little later, and the host with it what it asked the supervisor."""
    door = cluster.world.client("door", lanes=())
    turn = ProcessTurn(session_id=None, input_id="in-1", text=QUESTION)
    try:
        async with asyncio.timeout(0.3):
            await door.request("host", turn, expect=TurnResult, timeout_s=timeout_s)
    except TimeoutError:
        pass


@pytest.mark.parametrize("dead", [("ho2",), ("ho2", BROKER), ("ho2", BROKER, "host"), ("ho2", "ledger")])
def test_a_run_whose_client_took_its_request_back_outlives_its_owner(dead: tuple[str, ...]):
    """Whoever dies with the owner, the next one finds the run in the record, and it is completed."""
    with SimulatedCluster(with_thinking(shipped_snapshot(), 400)) as cluster:
        for role in dead:
            cluster.strike(role, after_s=0.5, back_after_s=0.4)
        cluster.world.run(taken_back(cluster))
        cluster.world.run(asyncio.sleep(3))
        is_completed_by(cluster, owners=2)


@pytest.mark.parametrize("is_frozen", [False, True])
def test_an_owner_that_nobody_replaces_is_missed_by_the_others(is_frozen: bool):
    """Given up by its launcher, or standing still: within a look or two the run has another owner; a thaw changes nothing."""
    with SimulatedCluster(with_thinking(shipped_snapshot(), 400), ho2=2) as cluster:
        cluster.world.run(taken_back(cluster))
        [taken] = [entry for entry in cluster.entries() if entry.event_type == "TookOver"]
        (cluster.world.freeze if is_frozen else cluster.world.kill)(taken.origin)
        cluster.world.run(asyncio.sleep(4))
        if is_frozen:
            cluster.world.thaw(taken.origin)
            cluster.world.run(asyncio.sleep(2))
        is_completed_by(cluster, owners=2)


def is_completed_by(cluster: SimulatedCluster, *, owners: int) -> None:
    """The one run is over, and so many supervisors had its session."""
    entries = cluster.entries()
    assert count_of(entries, "RunRequested") == count_of(entries, "RunCompleted") == 1
    assert count_of(entries, "TookOver") == owners
    check_record(entries)


def test_a_cluster_that_was_away_past_the_deadline_fails_what_it_left():
    """Nobody asks, and much later everything starts anew: the run is over, by its deadline."""
    with SimulatedCluster(with_thinking(shipped_snapshot(), 400)) as cluster:
        for role in ("ho2", BROKER, "host"):
            cluster.strike(role, after_s=0.5, back_after_s=6)
        cluster.world.run(taken_back(cluster, timeout_s=5))
        cluster.world.run(asyncio.sleep(9))
        [failed] = [entry for entry in cluster.entries() if entry.event_type == "RunFailed"]
        assert b"deadline_exceeded" in (failed.bodies[0] or b"")


def test_a_full_disk_in_the_middle_of_a_tool_leaves_no_run_behind():
    """The end of the call is lost, the answer names the disk; once there is space the run is over without being asked for."""
    with SimulatedCluster(
        with_tools(shipped_snapshot(), CHARGE), providers={"offline": AsksForTools()}, tools={"charge": CHARGE}
    ) as cluster:
        medium = cluster.world.disk("ledger").medium
        capacity = medium.capacity_bytes
        cluster.world.loop.call_later(1.0, setattr, medium, "capacity_bytes", medium.used_bytes() + (5 << 20))
        cluster.world.loop.call_later(10.0, setattr, medium, "capacity_bytes", capacity)
        assert cluster.ask("charge", input_id="in-1", timeout_s=8).outcome in ("error", "degraded")
        cluster.world.run(asyncio.sleep(9))
        entries = cluster.entries()
        assert count_of(entries, "RunRequested") == 1
        assert (
            count_of(entries, "RunCompleted") + count_of(entries, "RunFailed") + count_of(entries, "TurnDegraded") == 1
        )
        check_record(entries)


@pytest.mark.parametrize("ho1", [1, 2])
def test_what_a_tool_said_while_the_disk_was_full_is_recorded_once_there_is_space(ho1: int):
    """It has charged: asked again, also at another executor, the turn goes on with what it said; it is not run again."""
    with SimulatedCluster(
        with_tools(shipped_snapshot(), CHARGE),
        providers={"offline": AsksForTools()},
        tools={"charge": CHARGE},
        ho1=ho1,
    ) as cluster:
        medium = cluster.world.disk("ledger").medium
        capacity = medium.capacity_bytes

        def fill() -> None:
            medium.capacity_bytes = medium.used_bytes() + (5 << 20)

        cluster.world.loop.call_later(1.0, fill)
        cluster.world.loop.call_later(6.0, setattr, medium, "capacity_bytes", capacity)
        assert cluster.ask("charge", input_id="in-1", timeout_s=40).code == "disk_full"
        cluster.world.run(asyncio.sleep(5))
        answer = cluster.ask("charge", input_id="in-1", timeout_s=40)
        assert (answer.outcome, [call.status for call in answer.tool_calls]) == ("success", ["Succeeded"])
        entries = cluster.entries()
        assert [entry.reason for entry in entries if entry.event_type == "WO_FAILED"] == []
        assert count_of(entries, "TOOL_STARTED") == 1
        check_record(entries)


@pytest.mark.parametrize("after_s", [0.4, 1.9])
def test_a_follow_up_outlives_broker_and_owner(after_s: float):
    """Behind a run, and in the middle of its own."""

    async def said(cluster: SimulatedCluster) -> None:
        operator = cluster.world.client("operator")
        command = HostCommand(command_id="f1", issued_at=format_iso(0.0), command=FollowUp(text=QUESTION))
        question = SessionCommand(session_id=SESSION, command=command)
        await operator.request("ho2", question, expect=CommandVerdict, timeout_s=5, key=SESSION)

    with SimulatedCluster(with_thinking(shipped_snapshot(), 400)) as cluster:
        for role in ("ho2", BROKER):
            cluster.strike(role, after_s=after_s + 0.3, back_after_s=0.4)
        cluster.world.run(taken_back(cluster))
        cluster.world.run(said(cluster))
        cluster.world.run(asyncio.sleep(5))
        entries = cluster.entries()
        assert count_of(entries, "RunRequested") == count_of(entries, "RunCompleted") == 2
        check_record(entries)


def struck_at(moment_s: float, *, is_replaced: bool) -> list[Entry]:
    """A turn, a follow-up behind it or after it, small snapshots; at this moment the owner of the session is killed."""
    snapshot = shipped_snapshot()
    with SimulatedCluster(snapshot, ho2=0) as cluster:
        world = cluster.world

        def supervise() -> None:
            world.start(Supervisor(snapshot=snapshot, snapshot_entries=5), role="ho2", slots=SLOTS)

        supervise()
        supervise()
        person = Person(world.client("operator"), snapshot.config)
        world.run(world.settled())

        async def kill() -> None:
            await asyncio.sleep(moment_s)
            [owner] = {entry.origin for entry in cluster.entries() if entry.event_type == "TookOver"}
            world.kill(owner)
            if is_replaced:
                world.loop.call_later(0.05, supervise)

        async def story() -> None:
            await person.begin()
            async with asyncio.TaskGroup() as group:
                group.create_task(kill())
                group.create_task(person.say(QUESTION))
                await person.bus.sleep(0.002)
                await person.command(FollowUp(text=QUESTION), "f1")

        world.run(story())
        world.run(asyncio.sleep(4))
        return cluster.entries()


def test_a_follow_up_outlives_its_owner_at_any_moment():
    """Also between the end of a run and its own begin, while a snapshot is written: nobody asks for it, and it is driven."""
    for number in range(10):
        moment_s = 0.001 + number * 0.003
        entries = struck_at(moment_s, is_replaced=number % 2 == 0)
        told = (moment_s, [entry.event_type for entry in entries if entry.stream.startswith("session:")])
        assert count_of(entries, "RunRequested") == count_of(entries, "RunCompleted") == 2, told
        check_record(entries)


def test_whoever_lives_is_seen_on_whatever_page_of_the_brokers_answer() -> None:
    """A supervisor that starts asks for no session of one that is at work, however many others are connected."""
    snapshot = shipped_snapshot()
    bus = snapshot.config.bus.model_copy(update={"page_max_bytes": 1})  # a row is a page
    config = snapshot.config.model_copy(update={"bus": bus})
    with SimulatedCluster(with_thinking(dataclasses.replace(snapshot, config=config), 2000)) as cluster:
        cluster.world.run(taken_back(cluster))
        second = cluster.start("ho2")
        cluster.world.run(asyncio.sleep(1.5))
        assert cluster.world.processes[second].peer.counters()["unowned_found"] == 0


def test_a_run_that_nobody_asked_for_again_keeps_its_clients_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its new owner orders for it counts as the client's, in every queue; not as the supervisor's own."""
    seen: list[tuple[str, str]] = []
    execute = Executor.execute

    @functools.wraps(execute)
    async def noted(self: Any, message: ExecuteWorkOrder, call: Call) -> Receipt:
        seen.append((call.sender, self._bus.principal))
        return await execute(self, message, call)

    monkeypatch.setattr(Executor, "execute", noted)
    with SimulatedCluster(with_thinking(shipped_snapshot(), 400)) as cluster:
        cluster.strike("ho2", after_s=0.2, back_after_s=0.4)
        cluster.strike(BROKER, after_s=0.2, back_after_s=0.4)
        cluster.world.run(taken_back(cluster))
        cluster.world.run(asyncio.sleep(3))
        is_completed_by(cluster, owners=2)
    assert len({sender for sender, _ in seen}) == 2
    [principal] = {principal for _, principal in seen}
    assert principal.startswith("client/")
