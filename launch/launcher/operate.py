"""A command to the launcher of a running cluster, followed until it has come true."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError
from hobus.launch.cluster import identity, run_file
from hobus.launch.cluster.client import find_cluster, place_of
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.cluster.run_file import ChildRow, RunFile, find_running, find_stall, make_not_reachable
from hobus.launch.console.errors import CommandError, RefusedFault, UnreachableFault, UsageFault, format_next_command
from hobus.launch.console.output import note
from hobus.launch.launcher import control
from hobus.launch.launcher.control import ELSEWHERE, Command, LeaveCommand
from hobus.launch.launcher.options import require_room
from hobus.launch.limits import COMMAND_POLL_MS, LOG_TAIL_LINES
from hobus.launch.logs.tail import read_incarnation

_NAMED = 8
Settled = Callable[[dict[str, ChildRow]], bool]


def send_command(home: Home, wanted: Command, *, is_followed: bool) -> None:
    """Have the launcher take a command; `is_followed`: and wait until it has come true.

    Raises CommandError when no launcher is there, it stands still, or there is no broker without which what is waited
    for never comes true; RuntimeFault as it refuses.
    """
    run = find_running(home)
    if (fault := find_stall(run.launcher_pid)) is not None:
        raise fault
    if (missing := _explain_broker_missing(home, run, wanted)) is not None:
        if is_followed:
            raise missing
        note(f"{missing.message}: {missing.hint}")
    place = place_of(home, run)
    try:
        control.send(place.sockets, wanted, timeout_s=place.client_timeout_s)
    except OSError:
        raise make_not_reachable(home, find_holder(home)) from None
    except BusError:
        if (fault := find_stall(run.launcher_pid)) is not None:  # since it was asked
            raise fault from None
        raise


def _explain_broker_missing(home: Home, run: RunFile, wanted: Command) -> CommandError | None:
    """Return what to say of a broker that stays away until somebody starts it; None if it is to start."""
    if isinstance(wanted, LeaveCommand) and wanted.actor.startswith("broker/"):
        return None
    for row in run.children:
        if row.role == "broker" and row.state in ("stopped", "failed"):
            return RefusedFault(
                f"{row.actor} is {row.state}: without it no process gets ready, or is told to finish its work",
                hint=f"{format_next_command(f'restart {row.actor}', home.root)} first",
            )
    return None


def require_room_for(home: Home, wanted: Mapping[str, int]) -> None:
    """Raise CommandError (usage) where the cluster may not have so many processes of these roles."""
    run = find_running(home)
    others = sum(row.role not in wanted for row in run.children)
    require_room(others + sum(wanted.values()), place_of(home, run).snapshot.config.launcher)


def find_row(home: Home, actor: str) -> ChildRow:
    """Return the row of this actor, or of a role's only process. Raises CommandError (usage) with their names."""
    rows = find_running(home).children
    for row in rows:
        if row.actor == actor:
            return row
    of_role = [row for row in rows if row.role == actor]
    if len(of_role) == 1:
        return of_role[0]
    if of_role:
        which = ", ".join(row.actor for row in of_role)
        said = f"{actor} is {len(of_role)} processes; name one of {which}"
        raise UsageFault(said, hint=format_next_command("ps", home.root))
    if actor in ("launcher", "zygote"):
        raise UsageFault(
            f"{actor} is not restarted or drained alone: it goes with the cluster",
            hint=format_next_command("down", home.root),
        )
    if actor.startswith(ELSEWHERE):
        raise UsageFault(
            f"{actor[:80]} is a worker of another host: it is started there (hobus worker run); it can be drained here",
            hint=format_next_command(f"drain {actor[:80]}", home.root),
        )
    names = ", ".join(row.actor for row in rows)
    raise UsageFault(
        f"there is no {actor[:80]} in {home.root}; there are {names}", hint=format_next_command("ps", home.root)
    )


def follow(home: Home, actors: Collection[str], is_settled: Settled) -> dict[str, ChildRow]:
    """Return the rows of these actors as soon as they are settled; one that is gone has none.

    Raises CommandError when one of them failed, the cluster ends, or it takes longer than the configuration allows.
    """
    config = find_cluster(home).snapshot.config.launcher
    clock = SystemClock()
    deadline = clock.monotonic() + (config.finish_ms + config.drain_ms + config.ready_timeout_ms) / 1000
    while True:
        run = run_file.read(home.run_file)
        if run is None or not identity.is_alive(run.launcher_pid, run.launcher_mark):
            raise UnreachableFault(f"the cluster in {home.root} has ended meanwhile")
        if (fault := find_stall(run.launcher_pid)) is not None:
            goes_on = f"kill -CONT {run.launcher_pid}: what it was told is carried out then"
            raise UnreachableFault(fault.message, hint=goes_on)
        rows = {row.actor: row for row in run.children if row.actor in actors}
        if is_settled(rows):
            return rows
        _check(home, run, rows, LOG_TAIL_LINES)
        if clock.monotonic() > deadline:
            raise CommandError(
                f"not done in time: {_describe_states(rows.values())}", hint=format_next_command("ps", home.root)
            )
        time.sleep(COMMAND_POLL_MS / 1000)  # noqa: TID251 - waits for other processes, without a loop or a bus


def _describe_states(rows: Iterable[ChildRow]) -> str:
    """Return the states of those that are not there yet; some of them by name."""
    late = [f"{row.actor} {row.state}" for row in rows if row.state != "ready"]
    more = f" and {len(late) - _NAMED} more" if late[_NAMED:] else ""
    return ", ".join(late[:_NAMED]) + more


def _check(home: Home, run: RunFile, rows: dict[str, ChildRow], lines: int) -> None:
    if run.phase == "draining":
        raise UnreachableFault(f"the cluster in {home.root} is being stopped")
    for row in rows.values():
        if row.state == "failed":
            show_tail(home, row, lines)
            raise CommandError(
                f"{row.actor} failed: {row.note}", hint=format_next_command(f"logs {row.actor}", home.root)
            )


def show_tail(home: Home, row: ChildRow, lines: int) -> None:
    note(f"--- last lines of {home.log(row.actor)}")
    for line in read_incarnation(home.log(row.actor), row.actor, row.instance, lines):
        note(f"  {line}")
