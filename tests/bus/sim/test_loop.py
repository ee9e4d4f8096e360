"""Virtual time, determinism, and what a kill means."""

from __future__ import annotations

import asyncio

import pytest

from hobus.bus.sim.loop import Deadlock, VirtualLoop
from hobus.bus.sim.process import SimProcess


@pytest.fixture
def loop():
    made = VirtualLoop()
    yield made
    made.close()


def test_waiting_costs_nothing_and_time_begins_at_zero(loop: VirtualLoop) -> None:
    async def scenario() -> float:
        assert loop.time() == 0.0
        await asyncio.sleep(3600)
        return loop.time()

    assert loop.run_until_complete(scenario()) == pytest.approx(3600, abs=1e-6)


def test_waiting_for_what_can_never_come_raises(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        loop.run_until_complete(scenario())


def test_a_task_group_cancels_in_the_order_of_creation(loop: VirtualLoop) -> None:
    """The library cancels in the order of a set; here that order does not depend on addresses."""
    cancelled: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.sleep(9)
        finally:
            cancelled.append(number)

    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError

    async def scenario() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(wait(number))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        loop.run_until_complete(scenario())
    assert cancelled == sorted(cancelled)
    assert len(cancelled) == 50


def test_threads_are_refused(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        loop.run_until_complete(scenario())


def test_a_killed_process_never_steps_again(loop: VirtualLoop) -> None:
    """No `finally`, no child task, no timer of it runs, as with SIGKILL; others go on."""
    said: list[str] = []
    process = SimProcess("ho1/1@a")

    async def child() -> None:
        await asyncio.sleep(2)
        said.append("child")

    async def victim() -> None:
        loop.call_later(2, said.append, "timer")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(child())
                await asyncio.sleep(2)
                said.append("victim")
        finally:
            said.append("finally")

    async def scenario() -> None:
        loop.create_task(victim(), context=process.context)
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(5)
        said.append("survivor")

    loop.run_until_complete(scenario())
    assert said == ["survivor"]
    process.bury()


def test_a_process_that_awaits_in_its_finally_is_buried_quietly(loop: VirtualLoop) -> None:
    """Letting go of a dead coroutine neither hangs nor complains, whatever its `finally` wants."""
    process = SimProcess("ho1/1@a")

    async def stubborn() -> None:
        try:
            await asyncio.sleep(9)
        finally:
            await asyncio.sleep(9)

    async def scenario() -> None:
        loop.create_task(stubborn(), context=process.context)
        await asyncio.sleep(1)
        process.kill()

    loop.run_until_complete(scenario())
    process.bury()
