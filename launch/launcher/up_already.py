"""`hobus up` where a cluster is up: nothing is started, `--wait` waits until all are ready."""

from __future__ import annotations

import time

from hobus.bus.clock import SystemClock
from hobus.launch.cluster import identity, run_file
from hobus.launch.cluster.client import find_cluster
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.cluster.run_file import ChildRow, RunFile, find_stall
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UnreachableFault, format_next_command
from hobus.launch.console.output import format_duration, note, say
from hobus.launch.launcher.operate import require_room_for
from hobus.launch.launcher.options import StartOptions, parse_scale, require_file
from hobus.launch.launcher.progress import StartUnderWay, WaitingLine, make_already_up
from hobus.launch.limits import COMMAND_POLL_MS

_LOOK_INTERVAL_S = 0.02
_LOOKS = 100
"""A launcher that has just begun writes its run file within that many."""


def stay_up(home: Home, options: StartOptions, *, wait: bool, wait_s: float | None) -> int:
    """Return the exit code of `up` on a running cluster. Raises CommandError: no run directory, or it stops."""
    run = find_begun(home)
    if run.phase == "draining":
        raise UnreachableFault(
            f"the cluster in {home.root} is being stopped", hint="run the command again once it is down"
        )
    require_file(options.config_file)
    if wanted := parse_scale(options.scale):
        require_room_for(home, wanted)
    say(f"the cluster in {home.root} is up already (launcher pid {run.launcher_pid})")
    if not wait and (fault := find_stall(run.launcher_pid)) is not None:
        note(f"{fault.message}: {fault.hint}")
    if options.words():
        anew, scale = format_next_command("down", home.root), format_next_command("scale", home.root)
        said = f"{' '.join(options.words())} applies at a start and changes nothing now"
        note(f"{said}: {anew}, then this command again; or {scale}")
    return wait_ready(home, wait_s) if wait else exit_codes.OK


def find_begun(home: Home) -> RunFile:
    """Return the run file of a cluster whose launcher may have begun just now. Raises CommandError."""
    for _ in range(_LOOKS):
        run = run_file.read(home.run_file)
        if run is not None:
            return run
        if not home.run.is_dir() and find_holder(home):
            break
        time.sleep(_LOOK_INTERVAL_S)  # noqa: TID251 - waits for another process, without a loop or a bus
    raise make_already_up(home.root, find_holder(home) or 0)


def wait_ready(home: Home, wait_s: float | None) -> int:
    """Return once all are ready, within the configured time if `wait_s` says no other. Raises CommandError."""
    config = find_cluster(home).snapshot.config.launcher
    clock = SystemClock()
    within_s = config.ready_timeout_ms / 1000 if wait_s is None else wait_s
    deadline = clock.monotonic() + within_s
    line = WaitingLine()
    while late := _list_late(home):
        if clock.monotonic() > deadline or any(row.state == "failed" for row in late):
            break
        for row in late:
            if row.state == "starting" and row.note:
                line.show(StartUnderWay(at=clock.now(), actor=row.actor, text=row.note))
        time.sleep(COMMAND_POLL_MS / 1000)  # noqa: TID251 - as above
    if not late:
        return exit_codes.OK
    said = ", ".join(f"{row.actor} is {row.state}{f' ({row.note})' if row.note else ''}" for row in late)
    hint = format_next_command("ps", home.root)
    raise CommandError(
        f"not ready after {format_duration(within_s)}: {said}", hint=hint, exit_code=exit_codes.UNREACHABLE
    )


def _list_late(home: Home) -> list[ChildRow]:
    """Return who is not ready. Raises CommandError where the launcher has ended, or stands still."""
    run = run_file.read(home.run_file)
    if run is None or not identity.is_alive(run.launcher_pid, run.launcher_mark):
        raise UnreachableFault(
            f"the cluster in {home.root} has ended meanwhile", hint=format_next_command("up", home.root)
        )
    if (fault := find_stall(run.launcher_pid)) is not None:
        raise fault
    return [row for row in run.children if row.state != "ready"]
