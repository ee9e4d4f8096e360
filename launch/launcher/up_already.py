"""`hobus up` where a cluster is up: nothing is started, what differs is said, `--wait` waits until all are ready."""

from __future__ import annotations

import time

from hobus.bus.clock import SystemClock
from hobus.bus.errors import ConfigError
from hobus.launch.cluster import config_changed, identity, run_file
from hobus.launch.cluster.client import cluster_of
from hobus.launch.cluster.home import Home, holder
from hobus.launch.cluster.run_file import ChildRow, RunFile, stalled
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UnreachableFault, next_command
from hobus.launch.console.output import duration, note, say, say_prose
from hobus.launch.launcher.operate import require_room_for
from hobus.launch.launcher.options import StartOptions, parse_scale, require_file
from hobus.launch.launcher.progress import StartUnderWay, WaitingLine, already_up
from hobus.launch.limits import COMMAND_POLL_MS

_LOOK_INTERVAL_S = 0.02
_LOOKS = 100
"""A launcher that has just begun writes its run file within that many."""


def stay_up(home: Home, options: StartOptions, *, wait: bool, ready_within_s: float | None) -> int:
    """The exit code. Raises CommandError: its run directory is gone, or it is being stopped."""
    run = begun(home)
    if run.phase == "draining":
        raise UnreachableFault(f"the cluster in {home.root} is being stopped", hint="the same again once it is down")
    require_file(options.config_file)
    if options.scale:
        require_room_for(home, parse_scale(options.scale))
    say(f"the cluster in {home.root} is up already (launcher pid {run.launcher_pid})")
    if not wait and (fault := stalled(run.launcher_pid)) is not None:
        note(f"{fault.message}: {fault.hint}")
    for line in [*differences(run, options, home), *_changed(run, options, home)]:
        say_prose("", line, to_stderr=True)
    return _wait(home, ready_within_s) if wait else exit_codes.OK


def begun(home: Home) -> RunFile:
    """The run file of a cluster whose launcher may have begun just now. Raises CommandError."""
    for _ in range(_LOOKS):
        run = run_file.read(home.run_file)
        if run is not None:
            return run
        if not home.run.is_dir() and holder(home):
            break
        time.sleep(_LOOK_INTERVAL_S)  # noqa: TID251 - waits for another process, without a loop or a bus
    raise already_up(home.root, holder(home) or 0)


def differences(run: RunFile, options: StartOptions, home: Home) -> list[str]:
    """What was asked for and is not so, each with the command that makes it so. Raises CommandError for `--scale`."""
    counts: dict[str, int] = {}
    for row in run.children:
        counts[row.role] = counts.get(row.role, 0) + 1
    lines = [
        f"it runs {role}={counts.get(role, 0)}, not {count}: {next_command(f'scale {role}={count}', home.root)}"
        for role, count in parse_scale(options.scale).items()
        if counts.get(role, 0) != count
    ]
    anew = f"{next_command('down', home.root)}, then up again with it"
    if options.config_file is not None and str(options.config_file.absolute()) != run.config_origin:
        lines.append(f"it runs under the configuration {run.config_origin}, not {options.config_file}: {anew}")
    for option, asked, bound in (
        ("--listen", options.listen, home.bound()), ("--http", options.http, home.bound(http=True)),
    ):  # fmt: skip
        if asked is not None and not _is_bound(asked, bound):
            lines.append(f"it listens {f'at {bound}' if bound else 'nowhere'}, not at {asked} ({option}): {anew}")
    return lines


def _changed(run: RunFile, options: StartOptions, home: Home) -> list[str]:
    try:
        changed = config_changed.changed_since(home, run, options.config_file)
    except ConfigError as error:
        return [config_changed.fault_of(error, home)]
    return [f"{changed.said}; in force after {changed.mend}"] if changed else []


def _is_bound(asked: str, bound: str) -> bool:
    """Port 0 is any port."""
    host, _, port = asked.rpartition(":")
    return bool(bound) and (asked == bound or (port == "0" and bound.rpartition(":")[0] == host))


def _wait(home: Home, ready_within_s: float | None) -> int:
    config = cluster_of(home).snapshot.config.launcher
    clock = SystemClock()
    within_s = config.ready_timeout_ms / 1000 if ready_within_s is None else ready_within_s
    deadline = clock.monotonic() + within_s
    line = WaitingLine()
    while late := _late(home):
        if clock.monotonic() > deadline or any(row.state == "failed" for row in late):
            break
        for row in late:
            if row.state == "starting" and row.note:
                line.show(StartUnderWay(at=clock.now(), actor=row.actor, text=row.note))
        time.sleep(COMMAND_POLL_MS / 1000)  # noqa: TID251 - as above
    if not late:
        return exit_codes.OK
    said = ", ".join(map(_named, late))
    hint = next_command("ps", home.root)
    raise CommandError(f"not ready after {duration(within_s)}: {said}", hint=hint, exit_code=exit_codes.UNREACHABLE)


def _late(home: Home) -> list[ChildRow]:
    """Who is not ready. Raises CommandError where the launcher has ended, or stands still."""
    run = run_file.read(home.run_file)
    if run is None or not identity.is_alive(run.launcher_pid, run.launcher_mark):
        raise UnreachableFault(f"the cluster in {home.root} has ended meanwhile", hint=next_command("up", home.root))
    if (fault := stalled(run.launcher_pid)) is not None:
        raise fault
    return [row for row in run.children if row.state != "ready"]


def _named(row: ChildRow) -> str:
    return f"{row.actor} is {row.state}{f' ({row.note})' if row.note else ''}"
