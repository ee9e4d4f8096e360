"""What a dead launcher left behind: its processes, known by their start marks, and its run files."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from hobus.launch.cluster import identity
from hobus.launch.cluster.home import Home, sweep
from hobus.launch.cluster.run_file import ChildRow, RunFile, read
from hobus.launch.console.errors import CommandError

_LOOK_INTERVAL_S = 0.01
_LOOKS = 500


async def clean_up(home: Home) -> list[str]:
    """Nothing of an earlier run is left; names the orphans that were ended. The caller holds the home's lock.

    Raises CommandError when one of them does not die.
    """
    try:
        run = read(home.run_file)
    except CommandError:
        run = None  # a run file of another version or a torn one: its processes have their liveness pipes
    orphans = living(run)
    for row in orphans:
        identity.end(row.pid, row.mark, signal.SIGKILL)
    await _gone(orphans)
    sweep(home, Path(run.sockets) if run is not None else None)
    return [f"{row.actor} (pid {row.pid})" for row in orphans]


def living(run: RunFile | None) -> list[ChildRow]:
    """The processes of that run that are still there."""
    return [] if run is None else [row for row in run.children if identity.is_alive(row.pid, row.mark)]


async def _gone(orphans: list[ChildRow]) -> None:
    for _ in range(_LOOKS):
        orphans = [row for row in orphans if identity.is_alive(row.pid, row.mark)]
        if not orphans:
            return
        await asyncio.sleep(_LOOK_INTERVAL_S)
    names = ", ".join(f"{row.actor} (pid {row.pid})" for row in orphans)
    raise CommandError(f"processes of an earlier run do not end: {names}", hint="end them by hand, then run up again")
