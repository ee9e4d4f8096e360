"""Another configuration while turns run: each ends under the one that it began with, new ones begin under the new one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import cache

import pytest

from bench.builders import shipped_snapshot, shipped_with
from hobus.bus.messages.base import unpack
from hobus.bus.messages.control import Done, Peers, ReadPeers, UseSnapshot
from hobus.bus.messages.ledger import Entry, Write, Written
from hobus.bus.messages.session import FollowUp, Pause, ProcessTurn, Resume, TurnResult
from hobus.bus.port import Bus
from hobus.bus.record.journal import read_event
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.prompts import PromptSent
from hobus.bus.record.session_facts import RunRequested
from hobus.config.load import Governed
from hobus.config.snapshot import Snapshot
from hobus.launch.cli.turn_reading import evidence_of
from hobus.launch.cli.turn_view import WHY
from hobus.launch.console.view import lines_of
from hobus.launch.launcher.recording import make_snapshot_entry
from hobus.launch.sessions.account import make_account
from hobus.launch.sessions.history import list_turns
from tests.journals import check_record
from tests.sessions import Person, answering, stands_still
from tests.simulated import SimulatedCluster

QUESTION = "what packages are installed?"


@cache
def slow() -> Snapshot:
    """A configuration whose model takes its time, so that there is a middle to strike in."""
    return renamed(shipped_with(("gateway.providers.offline.latency_ms", 400)))


@cache
def in_the_new_way() -> Snapshot:
    """The same with other words, and one agent more."""
    return renamed(slow(), ADMIN="You answer in the new way.", CLERK="You are the clerk.")


def renamed(snapshot: Snapshot, **agents: str | None) -> Snapshot:
    """With other words for an agent, or without it; one that is not there is a copy of ADMIN."""
    governed = Governed.model_validate(unpack(snapshot.to_bytes()))
    known = dict(governed.agents)
    for agent_id, words in agents.items():
        if words is None:
            del known[agent_id]
        else:
            agent = known.get(agent_id, known["ADMIN"])
            known[agent_id] = agent.model_copy(update={"agent_id": agent_id, "system_prompt": words})
    return Snapshot.from_bytes(governed.model_copy(update={"agents": known}).to_bytes())


async def recorded(bus: Bus, *snapshots: Snapshot) -> None:
    """They stand in the record, as the launcher puts them there."""
    entries = [make_snapshot_entry(one, bus.now()) for one in snapshots]
    await bus.request("ledger", Write(entries=entries), expect=Written, timeout_s=5)


async def reloaded(bus: Bus, snapshot: Snapshot) -> None:
    """Every process begins new work under it."""
    await recorded(bus, snapshot)
    await bus.request("broker", UseSnapshot(config_digest=snapshot.digest), expect=Done, timeout_s=5)
    while True:
        peers = (await bus.request("broker", ReadPeers(), expect=Peers, timeout_s=5)).peers
        if all(row.config_digest == snapshot.digest for row in peers if row.offers):
            return
        await bus.sleep(0.05)


def digests(entries: Sequence[Entry]) -> dict[str, set[str]]:
    """Run -> the configurations that its request and its prompts name."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        about = f"{entry.provenance.session_id}-{entry.provenance.run_seq}"
        if entry.event_type == "RunRequested":
            event = read_event(entry).event
            assert isinstance(event, RunRequested)
            found.setdefault(about, set()).add(event.config_digest)
        elif entry.event_type == "PROMPT_SENT" and entry.provenance.work_order_id.startswith("WO-CONS"):
            continue  # begins once the turn is over
        elif entry.event_type == "PROMPT_SENT" and (said := read_payload(PromptSent, entry)) is not None:
            found.setdefault(about, set()).add(said.config_digest)
    return found


@pytest.mark.parametrize(
    ("strike", "turns"),
    [
        *((role, 4) for role in ("", "ho2", "host", "gateway", "ho1", "broker")),
        *((role, 32) for role in ("", "ho2")),
    ],
)
def test_turns_in_flight_end_under_their_own_and_new_ones_begin_under_the_new(strike: str, turns: int) -> None:
    """Many turns, another configuration in their middle, a process killed right after: all answered, none degraded."""
    first, second = slow(), in_the_new_way()
    with SimulatedCluster(first, ho1=max(2, turns // 8)) as cluster:
        launcher = cluster.world.client("launcher")
        cluster.world.run(cluster.world.settled())

        async def story() -> list[TurnResult]:
            await recorded(launcher, first)
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(_ask(cluster, f"in-{number}")) for number in range(turns)]
                await launcher.sleep(0.6)
                change = group.create_task(reloaded(launcher, second))
                if strike:
                    cluster.snapshot = second
                    cluster.strike(strike, after_s=0.05, back_after_s=0.05)
                await change
                later = [group.create_task(_ask(cluster, f"new-{number}", "CLERK")) for number in range(2)]
            return [task.result() for task in [*asked, *later]]

        results = cluster.world.run(story())
        cluster.world.run(asyncio.sleep(1))  # what the turns taught is consolidated
        entries = cluster.entries()
        named = digests(entries)
    assert [(one.outcome, one.code, one.reason) for one in results if one.outcome != "success"] == []
    runs = [str(result.run_id) for result in results]
    assert [named[run] for run in runs[:turns]] == [{first.digest}] * turns
    assert [named[run] for run in runs[turns:]] == [{second.digest}] * 2
    check_record(entries)


async def _ask(cluster: SimulatedCluster, input_id: str, agent_id: str | None = None) -> TurnResult:
    turn = ProcessTurn(input_id=input_id, text=QUESTION, agent_id=agent_id)
    return await cluster.door.request("host", turn, expect=TurnResult, timeout_s=60)


def told(first: Snapshot, story: Callable[[SimulatedCluster, Person, Bus], object]) -> list[Entry]:
    """A story of a person, and of a launcher that changes the configuration; the record."""
    with SimulatedCluster(first) as cluster:
        launcher = cluster.world.client("launcher")
        person = Person(cluster.world.client("operator"), first.config)
        cluster.world.run(cluster.world.settled())
        cluster.world.run(recorded(launcher, first))
        cluster.world.run(story(cluster, person, launcher))  # type: ignore[arg-type]
        entries = cluster.entries()
    check_record(entries)
    return entries


def test_a_turn_that_stands_still_goes_on_under_its_own_after_a_change_and_a_kill() -> None:
    """Paused under the first, its supervisor killed under the second: resumed, its later prompts are of the first."""
    first = slow()
    second = renamed(first, ADMIN="You answer in the new way.")

    async def story(cluster: SimulatedCluster, person: Person, launcher: Bus) -> None:
        await person.begin()
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(person.say(QUESTION))
            await person.until(answering)
            await person.command(Pause())
            await person.until(stands_still)
            await reloaded(launcher, second)
            cluster.snapshot = second
            victim = cluster.oldest("ho2")
            assert victim is not None
            cluster.kill_now(victim)
            cluster.start("ho2")
            await person.command(Resume())
        assert asked.result().outcome == "success"

    [run] = digests(told(first, story)).values()
    assert run == {first.digest}


def test_the_next_turn_of_a_session_is_of_the_new_one_and_of_a_removed_agent_refused_with_the_mend() -> None:
    """One session goes on under the new configuration; the other's agent is gone: a verdict, no degraded answer."""
    first = renamed(shipped_snapshot(), CLERK="You are the clerk.")
    second = renamed(first, ADMIN="You answer in the new way.", CLERK=None)
    refused: list[TurnResult] = []

    async def story(cluster: SimulatedCluster, person: Person, launcher: Bus) -> None:
        clerk = ProcessTurn(input_id="clerk-1", text="hello there", agent_id="CLERK")
        begun = await cluster.door.request("host", clerk, expect=TurnResult, timeout_s=60)
        await person.begin()
        assert (await person.say("hello there")).outcome == "success"
        await reloaded(launcher, second)
        assert (await person.say("what packages are installed?", "in-2")).outcome == "success"
        again = ProcessTurn(input_id="clerk-2", text="hello there", session_id=begun.session_id)
        refused.append(await cluster.door.request("host", again, expect=TurnResult, timeout_s=60))

    named = digests(told(first, story))
    assert sorted(len(one) for one in named.values()) == [1, 1, 1]
    assert sum(one == {second.digest} for one in named.values()) == 1
    [result] = refused
    assert (result.outcome, result.code) == ("error", "invalid_input")
    assert "CLERK" in result.response and "hobus reload" in result.response


def test_a_follow_up_to_a_removed_agent_is_refused_and_one_that_was_queued_says_why_it_failed() -> None:
    """Both with the mend; the one that was queued before is told to whoever waits for it, and stands in its turn."""
    first = renamed(slow(), CLERK="You are the clerk.")
    second = renamed(first, CLERK=None)
    told_to: list[TurnResult] = []
    journal: list[Entry] = []
    name = ""

    async def story(cluster: SimulatedCluster, person: Person, launcher: Bus) -> None:
        nonlocal name
        await person.begin("CLERK")
        name = person.session_id
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(person.say(QUESTION))
            await person.until(answering)
            assert (await person.command(FollowUp(text=QUESTION), "before")).outcome == "applied"
            await reloaded(launcher, second)
            refused = await person.command(FollowUp(text=QUESTION), "after")
            assert (refused.outcome, refused.input_id) == ("rejected", None)
            assert refused.reason.startswith("agent_removed: agent CLERK") and "hobus reload" in refused.reason
        assert asked.result().outcome == "success"
        told_to.append(await person.say(QUESTION, "followup:before"))
        journal.extend(await person.journal())

    told(first, story)
    assert [(one.outcome, one.code) for one in told_to] == [("error", "invalid_input")]
    assert "agent CLERK" in told_to[0].response and "hobus reload" in told_to[0].response
    before, after = list_turns(journal)
    assert before.outcome == "success" and (after.outcome, after.code) == ("failed", "invalid_input")
    assert "agent CLERK" in (after.reply or "") and "hobus reload" in (after.reply or "")
    account = make_account(name, after, evidence_of(journal, after))
    assert "call hobus reload, or begin" in "\n".join(lines_of(WHY, account))  # not cut


def test_a_tool_answers_from_the_configuration_of_its_turn() -> None:
    """`show_config`'s world is that of the order: the next turn sees what the change brought, without a new worker."""
    first = shipped_snapshot()
    second = renamed(first, ADMIN="You answer in the new way.", CLERK="You are the clerk.")

    async def story(cluster: SimulatedCluster, person: Person, launcher: Bus) -> None:
        workers = [name for name in cluster.world.processes if name.startswith("ho1/")]
        await reloaded(launcher, second)
        turn = ProcessTurn(input_id="clerk-1", text="which tools do you have?", agent_id="CLERK")
        result = await cluster.door.request("host", turn, expect=TurnResult, timeout_s=60)
        assert [(call.tool_id, call.status) for call in result.tool_calls] == [("list_tools", "Succeeded")]
        assert "verify_ledger" in result.response  # of an agent that its worker did not know no tool is told
        assert workers == [name for name in cluster.world.processes if name.startswith("ho1/")]

    told(first, story)
