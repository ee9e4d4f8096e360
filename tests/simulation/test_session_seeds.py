"""Random words to running sessions while processes die and stand still: whatever was said, everything is answered once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.session import Approve, Cancel, Command, Deny, FollowUp, Pause, Resume, SessionView, Steer
from hobus.bus.record.ends import ENDS
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot
from tests.journals import check_record
from tests.sessions import Person, folded, names
from tests.simulated import SimulatedCluster
from tests.simulation.turns import with_thinking

QUESTIONS = ("what packages are installed?", "hello there", "is the ledger intact, and which tools do you have?")
STEERS = ("and is the ledger intact?", "which tools do you have?", "be brief")
STRUCK = ("ho1", "ho2", "ho2", "host", "gateway", "ledger")
BACK_S = (0.01, 0.3)
FREEZE_S = (0.5, 4.0)


def drawn(draw: random.Random) -> Snapshot:
    """A configuration in which there is time to speak, and, now and then, something to approve."""
    snapshot = with_thinking(shipped_snapshot(), draw.choice((50, 200)))
    values = snapshot.config.model_dump(mode="json")
    values["tools"]["approval"] = draw.choice(([], ["list_*"], ["verify_ledger"]))
    return replace(snapshot, config=AdminConfig.model_validate(values))


def next_command(draw: random.Random, view: SessionView) -> Command:
    """Something that an operator might say now, sensible or not."""
    calls = [] if view.run is None else [call.call_id for call in view.run.calls if call.held]
    call_id = draw.choice(calls or ["001"])
    words: list[Command] = [
        Steer(text=draw.choice(STEERS)), Pause(), Resume(), Resume(), Approve(call_id=call_id), Approve(call_id=call_id),
        Deny(call_id=call_id, reason="no"), FollowUp(text=draw.choice(QUESTIONS)),
    ]  # fmt: skip
    return Cancel(reason="enough") if draw.random() < 0.06 else draw.choice(words)


async def talk(person: Person, draw: random.Random, name: str) -> None:
    """One of two operators: a dozen commands, some of them sent twice at the same moment."""
    for number in range(draw.randint(4, 12)):
        await person.bus.sleep(draw.random() * draw.choice((0.02, 0.3)))
        command = next_command(draw, await person.view())
        command_id = f"{name}-{number}"
        if draw.random() < 0.15:
            async with asyncio.TaskGroup() as group:
                twice = [group.create_task(person.command(command, command_id)) for _ in range(2)]
            assert twice[0].result().outcome == twice[1].result().outcome
        else:
            await person.command(command, command_id)


async def ask(person: Person, text: str, input_id: str) -> None:
    """A client that does not give up."""
    while True:
        try:
            result = await person.say(text, input_id, timeout_s=20)
        except RuntimeFault:
            await person.bus.sleep(0.2)
            continue
        if result.code not in ("run_waiting", "run_active"):
            return
        await person.bus.sleep(0.2)


async def bring_to_rest(person: Person) -> SessionView:
    """Whatever waits is let go on until nothing runs any more."""
    number = 0
    while True:
        view = await person.view()
        if view.run is None and not view.pending_follow_ups:
            return view
        number += 1
        assert number < 2000, view
        if view.lifecycle == "Paused" or (view.run is not None and view.run.pause_requested):
            await person.command(Resume(), f"rest-{number}")
        elif view.lifecycle == "WaitingInput" and view.run is not None:
            for call in view.run.calls:
                if call.held:
                    await person.command(Approve(call_id=call.call_id), f"rest-{number}-{call.call_id}")
        elif view.run is None or number % 20 == 0:  # whoever owns it now has to be asked
            await person.command(Resume(), f"rest-{number}")
        await person.bus.sleep(0.1)


def drill(seed: int) -> None:
    """One session, two clients, two operators, and a few strikes."""
    draw = random.Random(seed)
    with SimulatedCluster(drawn(draw), seed=seed, ho1=draw.randint(1, 2), ho2=draw.randint(1, 2)) as cluster:
        people = [
            Person(cluster.world.client(role), cluster.snapshot.config) for role in ("door", "operator", "operator")
        ]
        cluster.world.run(cluster.world.settled())
        client, *operators = people
        strikes: list[Any] = []
        cluster.world.run(client.begin())
        for _ in range(draw.randint(0, 3)):
            role, after_s, is_freeze = draw.choice(STRUCK), draw.random() * 2, draw.random() < 0.3
            for_s = draw.choice(FREEZE_S if is_freeze else BACK_S)
            (cluster.freeze(role, after_s=after_s, for_s=for_s)) if is_freeze else (
                cluster.strike(role, after_s=after_s, back_after_s=for_s)
            )
            strikes.append((role, round(after_s, 3), is_freeze, for_s))
        for operator in operators:
            operator.session_id = client.session_id

        async def story() -> SessionView:
            async with asyncio.TaskGroup() as group:
                speaking = [group.create_task(talk(operator, draw, f"op{n}")) for n, operator in enumerate(operators)]
                asking = group.create_task(ask(client, draw.choice(QUESTIONS), "in-1"))
                for task in speaking:
                    await task
                while not asking.done():
                    await bring_to_rest(operators[0])
                    await operators[0].bus.sleep(0.3)
            return await bring_to_rest(operators[0])

        view = cluster.world.run(story())
        cluster.world.run(asyncio.sleep(max(FREEZE_S) + 1))
        journal = cluster.world.run(operators[0].journal())
        entries = cluster.entries()
        assert cluster.verify().ok
    told = (seed, strikes, names(journal))
    record = folded(journal, operators[0])
    assert record.state.lifecycle == view.lifecycle == "Idle", told
    ends = Counter(known.became for known in record.inputs.values())
    assert ends["running"] == 0, told
    check_record(entries)
    received = names(journal).count("HostCommandReceived")
    assert received == names(journal).count("HostCommandApplied") + names(journal).count("HostCommandRejected"), told
    requested = names(journal).count("RunRequested")
    assert sum(names(journal).count(kind) for kind in ENDS) >= requested, told
    applied = [e for e in journal if e.event_type == "HostCommandApplied"]
    assert len({e.submission_id for e in applied}) == len(applied), told


@pytest.mark.parametrize("seed", [0, 1])
def test_everything_that_was_asked_is_answered_whatever_was_said(seed: int) -> None:
    """A few seeds."""
    drill(seed)


def test_more_words_to_more_sessions() -> None:
    """Four further seeds."""
    for seed in range(100, 104):
        drill(seed)
