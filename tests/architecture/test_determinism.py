"""Time, randomness and fresh ids come from the ports: what a simulation or a replay depends on."""

from __future__ import annotations

from tests.architecture.source import files, modules, uses

DRAWN = (
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns",
    "time.sleep", "time.localtime", "time.gmtime", "time.strftime", "datetime.datetime.now", "datetime.datetime.utcnow",
    "datetime.datetime.today", "datetime.date.today", "random", "secrets", "uuid.uuid1", "uuid.uuid4", "os.urandom",
    "os.getrandom",
)  # fmt: skip
"""What nobody but the clock may name; a module name bans everything in it."""

EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "hobus.bus.clock": DRAWN,  # the one place that reads clocks and draws values
    "hobus.bus.sim.clock": ("random.Random",),  # draws from its seed
    "hobus.launch.launcher.stop": ("time.sleep",),  # waits for other processes to end, without a loop or a bus
    "hobus.launch.cli.commands.logs": ("time.sleep",),  # waits for files to grow
    "hobus.launch.launcher.operate": ("time.sleep",),  # the same, for what a command asked of them
    "hobus.launch.launcher.reload": ("time.sleep",),  # the same, for another configuration
    "hobus.launch.launcher.up_already": ("time.sleep",),  # the same, for those of a start that somebody else asked for
    "hobus.launch.cli.commands.cell": ("time.sleep",),  # the same, for another command
    "hobus.launch.cli.commands.ps": ("time.sleep",),  # between two looks
}
"""Module -> what it may name all the same."""


def is_any(name: str, listed: tuple[str, ...]) -> bool:
    """True for a listed name and everything below it."""
    return any(name == item or name.startswith(f"{item}.") for item in listed)


def is_drawn(name: str) -> bool:
    """True for what only the clock may name."""
    return is_any(name, DRAWN)


def test_no_clock_randomness_or_fresh_id_outside_the_clock() -> None:
    """One read of the machine's clock in a rule, and the same journal no longer gives the same bytes."""
    found = {
        f"{module}: {name} (line {line})"
        for module, tree in modules().items()
        for name, line in uses(tree)
        if is_drawn(name) and not is_any(name, EXCEPTIONS.get(module, ()))
    }
    assert sorted(found) == []


def test_the_check_sees_the_one_place_that_reads_clocks() -> None:
    """The check above can fail: it finds what bus/clock.py does."""
    found = {name for name, _ in uses(modules()["hobus.bus.clock"]) if is_drawn(name)}
    assert {"time.time", "time.monotonic", "uuid.uuid4", "random.SystemRandom"} <= found


UNORDERED = ("asyncio.wait", "asyncio.as_completed")
THREADS = ("threading", "concurrent.futures", "multiprocessing", "asyncio.to_thread", "asyncio.Lock", "asyncio.sleep")
TOOL_PROCESS = "hobus.actors.ho1_executor.tools.standard_streams"
"""Runs in no actor: it tells threads of tools apart."""
ACTORS = sorted(
    name for name in files() if name.startswith(("hobus.actors.", "hobus.ledger_service.", "hobus.gateway_service."))
)


def test_actors_wait_through_the_bus_and_task_groups_only() -> None:
    """No unordered results, no threads, no locks, no sleep that the simulation does not see."""
    found = {
        f"{module}: {name} (line {line})"
        for module in ACTORS
        for name, line in uses(modules()[module])
        if is_any(name, UNORDERED + THREADS) and module != TOOL_PROCESS
    }
    assert sorted(found) == []
