"""One command at moment after moment of a turn: there is none at which it is lost, doubled or harmful."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.builders import shipped_with
from hobus.bus.messages.session import Cancel, Command, CommandVerdict, FollowUp, Pause, Resume, Steer, TurnResult
from tests.journals import check_record
from tests.sessions import QUESTION, Person, facts, folded, names
from tests.simulated import SimulatedCluster

STEP_S = 0.0008


def struck(
    cluster: SimulatedCluster, person: Person, moment_s: float, command: Command, *, kills: bool = False
) -> tuple[CommandVerdict, TurnResult, list[Any]]:
    """A turn of a session of its own with this command at this moment, resumed if it was paused; its journal."""

    async def story() -> tuple[CommandVerdict, TurnResult]:
        await person.begin()
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(person.say(QUESTION))
            await person.bus.sleep(moment_s)
            verdict = await person.command(command, "struck")
            if kills:
                cluster.world.kill(next(name for name in cluster.world.processes if name.startswith("ho2/")))
                cluster.start("ho2")
            if isinstance(command, Pause):
                await person.bus.sleep(0.2)
                await person.command(Resume(), "on")
        if verdict.input_id is not None:
            assert (await person.say("hello", verdict.input_id)).outcome == "success", moment_s
        return verdict, asked.result()

    verdict, result = cluster.world.run(story())
    cluster.world.run(asyncio.sleep(1 if kills else 0.2))
    journal = cluster.world.run(person.journal())
    assert folded(journal, person).state.lifecycle == "Idle", moment_s
    return verdict, result, journal


@pytest.mark.parametrize("kills", [False, True])
@pytest.mark.parametrize("command", [Cancel(), Steer(text="is the ledger intact?"), Pause(), FollowUp(text="hello")])
def test_command_at_any_moment_of_a_turn(command: Command, kills: bool) -> None:
    """Applied it shows: cancelled, observed, paused, followed up; rejected it changed nothing. One answer either way."""
    with SimulatedCluster(shipped_with(("ho3.gate_high", 1000.0))) as cluster:  # nothing is learned: only turns run
        assert applied_at_moments(cluster, command, kills=kills) >= 3
        check_record(cluster.entries())


def applied_at_moments(cluster: SimulatedCluster, command: Command, *, kills: bool) -> int:
    """How often the command was applied, at moment after moment until the turn was over before it came."""
    person = Person(cluster.world.client("operator"), cluster.snapshot.config)
    cluster.world.run(cluster.world.settled())
    moment_s, applied, is_over = 0.0, 0, False
    while not is_over:
        verdict, result, journal = struck(cluster, person, moment_s, command, kills=kills)
        told = (moment_s, verdict, result.code, names(journal))
        events = facts(journal)
        is_over = any(e.kind == "RunCompleted" for e in events[: _position(events, "HostCommandReceived")])
        assert result.outcome in ("success", "degraded", "error"), told
        assert names(journal).count("HostCommandReceived") == 1 + isinstance(command, Pause), told
        if verdict.outcome == "rejected":
            assert verdict.reason.startswith(("no_active_run", "cancelling")), told
            assert result.outcome == "success", told
        elif isinstance(command, Cancel):
            assert result.code == "cancelled", told
        elif isinstance(command, Steer):
            observed = [ref for e in events if e.kind == "StepStarted" for ref in e.steers]
            assert len(observed) == 1, told
            assert "verify_ledger" in [call.tool_id for call in result.tool_calls], told
        elif isinstance(command, FollowUp):
            assert names(journal).count("RunRequested") == 2, told
        else:
            assert result.outcome == "success", told
        applied += verdict.outcome == "applied"
        moment_s += STEP_S
    return applied


def _position(events: list[Any], kind: str) -> int:
    return next((number for number, event in enumerate(events) if event.kind == kind), len(events))
