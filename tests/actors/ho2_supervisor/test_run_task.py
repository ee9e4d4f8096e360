"""One run's task: a cancelled run is closed in it, a stopped one never, and whoever waits hears of every change."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from hobus.actors.ho2_supervisor.attention.engine import Engine
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.resources import Resources
from hobus.actors.ho2_supervisor.run_queue import RunQueue, RunTicket
from hobus.actors.ho2_supervisor.run_task import RunTask
from hobus.actors.ho2_supervisor.session.state import Reduced, SessionState
from hobus.actors.ho2_supervisor.turn.history import HistoryLimits
from hobus.bus.errors import SessionFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ids import format_iso
from hobus.bus.record.session_facts import RunRequested
from hobus.bus.sim.world import World
from hobus.bus.streaming import Draft
from tests.actors.ho2_supervisor.rig import SESSION, snapshot

CANCELLED = Reduced(SessionState(session_id=SESSION), ("run_stops",))
GIVEN_UP = SessionFault("moved", "somebody else drives it", retryable=True)


class Driven:
    """A run that is never answered; `closed` when its task was told that the run is cancelled."""

    def __init__(self) -> None:
        self.closed = False

    async def drive(self, task: RunTask) -> None:
        task.is_begun = True
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            if not task.is_cancellation():
                raise
            self.closed = True


def played(story: Any) -> None:
    """The story of one run, in virtual time."""
    config = snapshot().config

    async def told(driven: Driven) -> None:
        bus = world.client("ho2")
        limits = HistoryLimits(budget_tokens=1, turns_max=1, digest_chars=1, chars_per_token=4, known_max=1)
        engine = Engine.of(snapshot(), now=bus.clock.monotonic)
        resources = Resources(bus, LedgerClient(bus, config.ledger), snapshot(), config, limits, {}, engine)
        session = OwnedSession(SESSION, resources)
        requested = RunRequested(
            input_ref="in",
            input_id="in-1",
            input_digest="",
            deadline_at=format_iso(1.0),
            config_digest="",
            at=format_iso(0.0),
        )
        run = RunTask(
            session, requested, bodies=(), trace="", draft=Draft(), ticket=RunTicket(RunQueue(wait_max_s=1.0, unwritten=lambda: 0), "client/1"),
            drive=driven.drive,
        )  # fmt: skip
        await story(run, driven)

    world = World(config.bus)
    try:
        world.run(told(Driven()))
    finally:
        world.close()


async def ended(task: asyncio.Task[None]) -> None:
    """Returns once the task is over, however it ended."""
    await asyncio.gather(task, return_exceptions=True)


def test_cancelled_run_is_closed_in_its_own_task() -> None:
    """The task outlives its cancellation."""

    async def story(run: RunTask, driven: Driven) -> None:
        await asyncio.sleep(0)
        run.notice(CANCELLED)
        await ended(run.task)
        assert driven.closed
        assert not run.task.cancelled()

    played(story)


@pytest.mark.parametrize("is_stopped_first", [True, False])
def test_run_that_is_stopped_and_cancelled_at_the_same_moment_is_not_closed_here(is_stopped_first: bool) -> None:
    """Somebody else drives it, so that its end is that one's to record; its requesters have heard."""

    async def story(run: RunTask, driven: Driven) -> None:
        await asyncio.sleep(0)
        if is_stopped_first:
            run.stop(GIVEN_UP)
        run.notice(CANCELLED)
        run.stop(GIVEN_UP)
        await ended(run.task)
        assert not driven.closed
        assert run.task.cancelled()
        assert run.answer.exception() is GIVEN_UP

    played(story)


def test_run_that_is_cancelled_before_its_first_step_begins_and_can_be_stopped_all_the_same() -> None:
    """A task that is cancelled before it began runs never, and nothing of it would be closed."""

    async def story(run: RunTask, driven: Driven) -> None:
        run.notice(CANCELLED)
        await asyncio.sleep(0)
        assert run.is_begun
        run.stop(GIVEN_UP)
        await ended(run.task)
        assert not driven.closed

    played(story)


@pytest.mark.parametrize("times", [1, 2])
def test_everybody_who_waits_is_woken_by_the_end_of_the_run(times: int) -> None:
    """Also where nobody asks for the fault that it ended with."""

    async def story(run: RunTask, driven: Driven) -> None:
        async with asyncio.TaskGroup() as group:
            waiting: list[Coroutine[Any, Any, None]] = [run.change() for _ in range(times)]
            for one in waiting:
                group.create_task(one)
            await asyncio.sleep(0)
            run.stop(GIVEN_UP)
        await ended(run.task)

    played(story)
