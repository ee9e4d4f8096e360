"""A cluster is taken down: its launcher drains it, or what a dead launcher left is ended, known by start marks."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

from hobus.bus.clock import SystemClock
from hobus.bus.errors import RuntimeFault
from hobus.config.sections.processes import LauncherConfig
from hobus.config.snapshot import Snapshot, load_snapshot
from hobus.launch.cluster import identity, run_file
from hobus.launch.cluster.home import Home, find_lock_holder, remove_run, sweep
from hobus.launch.cluster.run_file import ChildRow, RunFile, RunningProcess, find_stall
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UnreachableFault, format_next_command, format_next_here
from hobus.launch.console.output import note, say
from hobus.launch.launcher.supervision import drain_bound_s
from hobus.launch.limits import COMMAND_POLL_MS

_LOOK_INTERVAL_S = 0.01
_LOOKS = 500


def stop(home: Home, *, quiet: bool = False) -> int:
    """Stop the cluster of this home; return the exit code. Raises CommandError when its launcher does not end."""
    run, held = _read_run_file(home), find_lock_holder(home)
    if held is None:
        return _stop_after_dead_launcher(home, run, quiet=quiet)
    if not held.pid:
        raise CommandError(
            f"the launcher in {home.root} is just starting and has not written its pid yet",
            hint="try again in a moment",
        )
    launcher = RunningProcess("launcher", "", held.pid, held.mark)
    if not identity.end(launcher.pid, launcher.mark, signal.SIGTERM) and find_lock_holder(home) == held:
        raise UnreachableFault(
            f"the launcher of {home.root} (pid {held.pid}) is not among the processes here",
            hint="it runs on another machine or in another container: run the command there",
        )
    bound_s = run.drain_bound_s if run is not None else drain_bound_s(_read_settings(home))
    if (fault := find_stall(launcher.pid)) is not None:
        goes_on = f"it ends once it continues (kill -CONT {launcher.pid}), and is killed in {bound_s:.0f} s otherwise"
        note(f"{fault.message}; {goes_on}")
    seen, blocked = _follow(home, launcher, bound_s=bound_s, poll_s=COMMAND_POLL_MS / 1000)
    if home.run.exists() and find_lock_holder(home) is None:
        remove_run(home)  # of a home that was moved while it ran: its launcher removes where it began
    for line in blocked:
        note(line)
    if not quiet:
        last = run or seen
        say(f"stopped {len(last.children) if last is not None else 'the'} processes of {home.root}")
    return exit_codes.OK


def _read_run_file(home: Home) -> RunFile | None:
    """Return the run file, if there is a whole one: the lock alone says whether a launcher lives, and who it is."""
    try:
        return run_file.read(home.run_file)
    except CommandError:
        return None


def _read_settings(home: Home) -> LauncherConfig:
    """Return the configuration that this cluster runs under, else the shipped one."""
    try:
        snapshot = Snapshot.from_bytes(home.snapshot.read_bytes())
    except (OSError, RuntimeFault):
        snapshot = load_snapshot()
    return snapshot.config.launcher


def _follow(home: Home, launcher: RunningProcess, *, bound_s: float, poll_s: float) -> tuple[RunFile | None, list[str]]:
    """Wait until the launcher is gone; return the last run file that it wrote, and who had to be killed."""
    blocked: dict[str, str] = {}
    seen: RunFile | None = None
    clock = SystemClock()
    deadline = clock.monotonic() + bound_s
    while identity.is_alive(launcher.pid, launcher.mark):
        now = _read_run_file(home)
        seen = now or seen
        for row in now.children if now is not None else ():
            if "killed (launcher.drain_ms)" in row.note:
                blocked[row.actor] = f"{row.actor} {row.note}"
        if clock.monotonic() > deadline:
            identity.end(launcher.pid, launcher.mark, signal.SIGKILL)
            raise CommandError(
                f"the launcher (pid {launcher.pid}) did not end: killed; its processes end by themselves",
                hint=format_next_command("down", home.root),
            )
        time.sleep(poll_s)  # noqa: TID251 - waits for another process, without a loop or a bus
    return seen, list(blocked.values())


def _stop_after_dead_launcher(home: Home, run: RunFile | None, *, quiet: bool) -> int:
    if run is None and home.run_file.exists():
        said = "the launcher was dead and its run file damaged; whatever it left ends by itself"
        if run_file.is_of_elsewhere(home.run_file):
            said = f"no cluster runs here, and no process was ended: {run_file.OF_ELSEWHERE}"
        sweep(home, None)
        remove_run(home)
        say(f"{said} ({home.root})")
        return exit_codes.OK
    if run is None:
        if not quiet:
            say(f"no cluster runs in {home.root}: nothing to stop")
        return exit_codes.OK
    orphans = _end_all(run)
    sweep(home, Path(run.sockets))
    remove_run(home)
    if not quiet:
        say(f"the launcher was dead; ended {len(orphans)} orphans of {home.root}")
    return exit_codes.OK


async def clean_up(home: Home) -> list[str]:
    """End what an earlier run left; return the names of those orphans. The caller holds the home's lock.

    Raises CommandError when one of them does not die.
    """
    run = _read_run_file(home)  # of another version or torn: its processes have their liveness pipes
    orphans = _end_all(run)
    await _wait_gone(orphans)
    sweep(home, Path(run.sockets) if run is not None else None)
    return [f"{row.actor} (pid {row.pid})" for row in orphans]


def list_living(run: RunFile | None) -> list[ChildRow]:
    return [] if run is None else [row for row in run.children if identity.is_alive(row.pid, row.mark)]


def _end_all(run: RunFile | None) -> list[ChildRow]:
    """Kill the processes of that run that are still there with SIGKILL, and return them."""
    return [row for row in list_living(run) if identity.end(row.pid, row.mark, signal.SIGKILL)]


async def _wait_gone(orphans: list[ChildRow]) -> None:
    for _ in range(_LOOKS):
        orphans = [row for row in orphans if identity.is_alive(row.pid, row.mark)]
        if not orphans:
            return
        await asyncio.sleep(_LOOK_INTERVAL_S)
    names = ", ".join(f"{row.actor} (pid {row.pid})" for row in orphans)
    hint = f"end them by hand, then: {format_next_here('up')}"
    raise CommandError(f"processes of an earlier run do not end: {names}", hint=hint)
