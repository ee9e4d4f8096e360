"""Time, randomness and fresh ids come from the ports: what a simulation or a replay depends on."""

from __future__ import annotations

import pytest

from tests.architecture.source import modules, uses

DRAWN = (
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns",
    "time.sleep", "time.localtime", "time.gmtime", "time.strftime", "datetime.datetime.now", "datetime.datetime.utcnow",
    "datetime.datetime.today", "datetime.date.today", "random", "secrets", "uuid.uuid1", "uuid.uuid4", "os.urandom",
    "os.getrandom",
)  # fmt: skip
"""What nobody but the clock may name; a module name bans everything in it."""

EXCEPTIONS: dict[str, str] = {
    "bus.clock": "the one place that reads clocks and draws values",
    "bus.sim.clock": "draws from its seed",
}
"""Module -> reason."""


def is_drawn(name: str) -> bool:
    """True for a banned name and everything below it."""
    return any(name == banned or name.startswith(f"{banned}.") for banned in DRAWN)


@pytest.mark.parametrize("module", sorted(set(modules()) - set(EXCEPTIONS)))
def test_no_clock_randomness_or_fresh_id_outside_the_clock(module: str) -> None:
    """One read of the machine's clock in a rule, and the same journal no longer gives the same bytes."""
    found = sorted({f"{name} (line {line})" for name, line in uses(modules()[module]) if is_drawn(name)})
    assert found == []


def test_the_check_sees_the_one_place_that_reads_clocks() -> None:
    """The check above can fail: it finds what bus/clock.py does."""
    found = {name for name, _ in uses(modules()["bus.clock"]) if is_drawn(name)}
    assert {"time.time", "time.monotonic", "uuid.uuid4", "random.SystemRandom"} <= found


UNORDERED = ("asyncio.wait", "asyncio.as_completed", "asyncio.gather")
THREADS = ("threading", "concurrent.futures", "multiprocessing", "asyncio.to_thread", "asyncio.Lock", "asyncio.sleep")
ACTORS = sorted(name for name in modules() if name.startswith(("actors.", "ledger_service.", "gateway_service.")))
ACTOR_EXCEPTIONS: dict[str, str] = {}
"""Module -> why it may (a tool runner that owns processes, a disk that must not block the loop)."""


@pytest.mark.parametrize("module", [name for name in ACTORS if name not in ACTOR_EXCEPTIONS])
def test_actors_wait_through_the_bus_and_task_groups_only(module: str) -> None:
    """No unordered results, no threads, no locks, no sleep that the simulation does not see."""
    banned = UNORDERED + THREADS
    found = sorted(
        {
            f"{name} (line {line})"
            for name, line in uses(modules()[module])
            if any(name == item or name.startswith(f"{item}.") for item in banned)
        }
    )
    assert found == []
