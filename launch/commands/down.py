"""`hobus down`: drain and stop the cluster of a home."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import click

from bus.clock import SystemClock
from launch import exit_codes, identity, run_file
from launch.commands.options import with_home
from launch.errors import CommandError
from launch.home import Home, holder, remove_run, sweep
from launch.output import note, say
from launch.run_file import RunFile
from launch.stale import living

_LOOK_INTERVAL_S = 0.02


@click.command()
@with_home
def down(*, home: Home) -> int:
    """Drain and stop the cluster of a home; the record and the logs stay."""
    return stop(home)


def stop(home: Home, *, quiet: bool = False) -> int:
    """Nothing of the cluster runs any more. Raises CommandError when there is none."""
    run = run_file.read(home.run_file)
    if holder(home) is None:
        return _after_a_dead_launcher(home, run)
    if run is None:
        raise CommandError(
            f"the launcher in {home.root} has not written its run file yet", hint="try again in a moment"
        )
    identity.end(run.launcher_pid, run.launcher_mark, signal.SIGTERM)
    blocked = _follow(home, run)
    for line in blocked:
        note(line)
    if not quiet:
        say(f"stopped {len(run.children)} processes of {home.root}")
    return exit_codes.OK


def _follow(home: Home, run: RunFile) -> list[str]:
    """Waits until the launcher is gone; the answer names the processes that had to be killed."""
    blocked: dict[str, str] = {}
    clock = SystemClock()
    deadline = clock.monotonic() + run.drain_bound_s
    while identity.is_alive(run.launcher_pid, run.launcher_mark):
        now = run_file.read(home.run_file)
        for row in now.children if now is not None else ():
            if "killed (launcher.drain_ms)" in row.note:
                blocked[row.actor] = f"{row.actor} {row.note}"
        if clock.monotonic() > deadline:
            identity.end(run.launcher_pid, run.launcher_mark, signal.SIGKILL)
            raise CommandError(
                f"the launcher (pid {run.launcher_pid}) did not end: killed; its processes end by themselves",
                hint=f"hobus down --home {home.root}",
            )
        time.sleep(_LOOK_INTERVAL_S)  # noqa: TID251 - waits for another process, without a loop or a bus
    return list(blocked.values())


def _after_a_dead_launcher(home: Home, run: RunFile | None) -> int:
    """Ends what a killed launcher left behind."""
    if run is None:
        raise CommandError(
            f"no cluster runs in {home.root}", hint=f"hobus up --home {home.root}", exit_code=exit_codes.UNREACHABLE
        )
    orphans = living(run)
    for row in orphans:
        identity.end(row.pid, row.mark, signal.SIGKILL)
    sweep(home, Path(run.sockets))
    remove_run(home)
    say(f"the launcher was dead; ended {len(orphans)} orphans of {home.root}")
    return exit_codes.OK
