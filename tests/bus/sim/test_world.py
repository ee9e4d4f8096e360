"""The simulated cluster as its users see it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import BusError
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.session import ReadSession, SessionView
from hobus.bus.port import Bus
from hobus.bus.sim.world import SimulationFailed, World
from tests.conformance.clusters import bus_settings
from tests.conformance.desk import Desk, prompt

SETTINGS = bus_settings()


async def turn_of_many(world: World) -> list[str]:
    """A busy second: concurrent requests, a kill, a cancel, drawn ids."""
    desks = [world.start(Desk(), role="gateway", slots=2) for _ in range(3)]
    workers = [world.client("ho1") for _ in range(3)]
    await world.settled()

    async def ask(number: int) -> str:
        bus = workers[number % 3]
        script = f"sleep {bus.clock.random():.3f}"
        try:
            reply = await bus.request(
                "gateway", prompt(script), expect=PromptResponse, timeout_s=3, key=f"k{number % 4}", trace=bus.new_id()
            )
        except BusError as fault:
            return fault.code
        return reply.content

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(number)) for number in range(12)]
        await asyncio.sleep(0.4)
        world.kill(desks[1].instance)
        doomed = group.create_task(ask(99))
        await asyncio.sleep(0.05)
        doomed.cancel()
    return [task.result() for task in tasks]


def digest_of(seed: int) -> str:
    """Trace digest of one run."""
    with World(SETTINGS, seed=seed) as world:
        world.run(turn_of_many(world))
        return world.trace_digest()


def test_same_seed_same_bytes() -> None:
    assert digest_of(1) == digest_of(1)
    assert digest_of(1) != digest_of(2)


@pytest.mark.slow
def test_same_seed_same_bytes_under_any_hash_seed() -> None:
    script = "from tests.bus.sim.test_world import digest_of; print(digest_of(7))"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": "."},
        )
        for hash_seed in ("1", "31337")
    ]
    digests = [process.communicate(timeout=30)[0].strip() for process in running]
    assert digests[0] == digests[1] == digest_of(7)


def test_an_error_in_a_process_fails_the_run() -> None:
    async def scenario(world: World) -> None:
        def fail() -> None:
            raise ValueError("in a callback")

        world.loop.call_soon(fail)
        await asyncio.sleep(1)

    with World(SETTINGS) as world, pytest.raises(SimulationFailed, match="in a callback"):
        world.run(scenario(world))


def test_a_run_that_does_not_end_fails() -> None:
    with World(SETTINGS) as world, pytest.raises(SimulationFailed, match="virtual seconds"):
        world.run(_never())


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


class Slow(Actor):
    """Has something to count only once it has started."""

    service = "ho3"

    async def start(self, bus: Bus) -> None:
        await bus.sleep(5 * SETTINGS.beat_interval_ms / 1000)
        self.done = 1

    def counters(self) -> dict[str, int]:
        return {"done": self.done}


def test_an_actor_is_not_asked_for_its_counters_before_it_has_started() -> None:
    """Its shell beats while it starts; what it counts comes with the first beat behind that."""
    with World(SETTINGS) as world:
        peer = world.start(Slow(), role="ho3", slots=1)
        world.run(asyncio.sleep(2 * SETTINGS.beat_interval_ms / 1000))
        assert "done" not in peer.counters()
        world.run(world.settled())
        assert peer.counters()["done"] == 1


class Broken(Actor):
    """Never ready, then refuses to start."""

    service = "ho2"

    async def start(self, bus) -> None:
        raise BusError("internal", "cannot start")

    async def on_read(self, message: ReadSession, call: Call) -> SessionView: ...


def test_an_actor_that_cannot_start_fails_the_run() -> None:
    with World(SETTINGS) as world:
        world.start(Broken(), role="ho2")
        with pytest.raises(SimulationFailed, match="cannot start"):
            world.run(world.settled())


def test_instances_are_counted_and_fresh() -> None:
    with World(SETTINGS) as world:
        first = world.client("ho1").instance
        world.kill(first)
        assert (first, world.client("ho1").instance) == ("ho1/1@s1", "ho1/2@s2")


def test_a_killed_process_cannot_use_its_disk_and_its_lock_is_free() -> None:
    """The next incarnation finds the bytes, synced or not: only a power cut loses those."""
    with World(SETTINGS) as world:
        disk = world.disk("ledger")
        peer = world.start(None, role="ledger", disk=disk)
        file = disk.open("a", create=True)
        file.append(b"written")
        assert disk.lock("lock") is not None
        world.kill(peer.instance)
        with pytest.raises(OSError, match="killed"):
            file.append(b"more")
        again = world.disk("ledger")
        assert again.lock("lock") is not None
        assert again.open("a").read_at(0, 99) == b"written"
