"""`hobus scale|restart|drain|down`: the launcher of a running cluster is told, and followed until it has come true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

import click

from hobus.bus.clock import SystemClock
from hobus.bus.messages.control import PeerRow
from hobus.bus.paging import is_held
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cli.commands.ps import ask_peers
from hobus.launch.cluster.client import connect_bus, place_of
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import ChildRow, find_running
from hobus.launch.console.errors import CommandError, UsageFault, format_next_command
from hobus.launch.console.output import format_count, note, say
from hobus.launch.launcher import stop
from hobus.launch.launcher.control import ELSEWHERE, LeaveCommand, ScaleCommand
from hobus.launch.launcher.operate import find_row, follow, require_room_for, send_command
from hobus.launch.launcher.options import parse_scale
from hobus.launch.launcher.supervision import DRAINED
from hobus.launch.limits import COMMAND_POLL_MS

_AT_WORK = ("ready", "degraded")


def _with_no_wait(command: Callable[..., Any]) -> Callable[..., Any]:
    said = "Return as soon as the command is accepted."
    return click.option("--no-wait", is_flag=True, help=said)(with_home(command))


@click.command()
@click.argument("numbers", metavar="ROLE=N...", nargs=-1, required=True)
@_with_no_wait
def scale(*, home: Home, numbers: tuple[str, ...], no_wait: bool) -> None:
    """Change how many processes of a role run, e.g. `hobus scale ho1=8`. Of too many, the highest numbers stop."""
    wanted = parse_scale(numbers, option="")
    require_room_for(home, wanted)
    before = {row.actor for row in find_running(home).children}
    for role, count in wanted.items():
        send_command(home, ScaleCommand(role=role, count=count), is_followed=not no_wait)
    goal = {f"{role}/{number}" for role, count in wanted.items() for number in range(1, count + 1)}
    leaving = {name for name in before if name.partition("/")[0] in wanted} - goal
    if not no_wait:

        def is_settled(rows: dict[str, ChildRow]) -> bool:
            return not leaving & set(rows) and all(name in rows and rows[name].state in _AT_WORK for name in goal)

        follow(home, goal | leaving, is_settled)
    for role, count in wanted.items():
        say(f"{role}: {format_count(count, 'process', 'processes')}")


@click.command()
@click.argument("actor", metavar="ACTOR")
@click.option("--kill", is_flag=True, help="SIGKILL instead of letting it finish its work.")
@_with_no_wait
def restart(*, home: Home, actor: str, kill: bool, no_wait: bool) -> None:
    """Restart a process after it has finished its work; start one that failed or was drained.

    ACTOR: a process as `hobus ps` lists it, e.g. ho1/2, or a role with one process, e.g. ho3.
    """
    before = find_row(home, actor)
    actor = before.actor
    send_command(home, LeaveCommand(actor=actor, then="start", kill=kill), is_followed=not no_wait)
    if no_wait:
        return say(f"{actor} is being restarted")

    def is_settled(rows: dict[str, ChildRow]) -> bool:
        row = rows.get(actor)
        return row is not None and row.instance != before.instance and row.state in _AT_WORK

    row = follow(home, [actor], is_settled)[actor]
    return say(f"{actor} is {row.state} as {row.instance} (pid {row.pid}), {row.ready_after_ms} ms after its start")


@click.command()
@click.argument("actor", metavar="ACTOR")
@click.option(
    "--idlest", metavar="N", type=click.IntRange(min=1), help="Only the N of these workers with the fewest orders."
)
@_with_no_wait
def drain(*, home: Home, actor: str, idlest: int | None, no_wait: bool) -> None:
    """Let a process finish its work and stop, until `hobus restart`.

    ACTOR: a process as `hobus ps` lists it, e.g. ho1/2, a role with one process, e.g. ho3, or a pattern of workers on
    other hosts, e.g. 'ho1/remote-*'.
    """
    if actor.startswith(ELSEWHERE):
        return _drain_elsewhere(home, actor, idlest, no_wait=no_wait)
    if idlest is not None:
        hint = format_next_command(f"drain '{ELSEWHERE}*' --idlest {idlest}", home.root)
        raise UsageFault("--idlest: of workers on other hosts", hint=hint)
    row = find_row(home, actor)
    actor, role = row.actor, row.role
    send_command(home, LeaveCommand(actor=actor, then="stay"), is_followed=not no_wait)
    if no_wait:
        return say(f"{actor} is draining")
    stopped = follow(home, [actor], lambda rows: actor in rows and rows[actor].state == "stopped")[actor]
    if stopped.note != DRAINED:
        raise CommandError(f"{actor} is stopped, but {stopped.note}", hint=format_next_command("ps", home.root))
    say(f"{actor} is stopped; {format_next_command('restart', home.root)} {actor} starts it")
    _note_absence(home, role)
    return None


def _note_absence(home: Home, role: str) -> None:
    run = find_running(home)
    peers = asyncio.run(ask_peers(home, run))
    if said := explain_absence(role, run.children, peers.peers if peers is not None else ()):
        note(said)


def _drain_elsewhere(home: Home, pattern: str, idlest: int | None, *, no_wait: bool) -> None:
    """Have the launcher's broker tell workers; each is done when the broker no longer knows it."""
    peers = asyncio.run(ask_peers(home, find_running(home)))
    told = select_workers(peers.peers if peers is not None else (), pattern, idlest)
    if not told:
        why = f"no worker {pattern[:80]} is connected" if peers is not None else "the broker does not answer"
        raise UsageFault(why, hint=format_next_command("ps", home.root))
    began = SystemClock().now()
    for instance in told:
        send_command(home, LeaveCommand(actor=instance, then="stay"), is_followed=not no_wait)
    names = ", ".join(instance.partition("@")[0] for instance in told)
    if no_wait:
        return say(f"draining: {names}")
    if cut_off := asyncio.run(_wait_gone(home, told, began)):
        raise CommandError(
            f"unfinished work was given back (launcher.finish_ms): {', '.join(cut_off)}",
            hint=format_next_command("ps", home.root),
        )
    say(f"drained, and ended: {names}")
    _note_absence(home, "ho1")
    return None


async def _wait_gone(home: Home, left: list[str], began: float) -> list[str]:
    """Wait until these, told at `began`, are gone; return those that were there for all of the time they had."""
    place = place_of(home, find_running(home))
    config = place.snapshot.config.launcher
    async with connect_bus(place, "operator") as bus:
        timeout_s, late = config.client_timeout_ms / 1000, list[str]()
        while left:
            await bus.sleep(COMMAND_POLL_MS / 1000)
            held = [one for one in left if await is_held(bus, one, timeout_s=timeout_s)]
            elapsed_ms = (bus.now() - began) * 1000
            if elapsed_ms > config.finish_ms:
                late += [one for one in left if one not in held]
            if held and elapsed_ms > config.finish_ms + config.drain_ms:
                raise CommandError(f"not done in time: {', '.join(held)}", hint=format_next_command("ps", home.root))
            left = held
    return late


def select_workers(peers: Iterable[PeerRow], pattern: str, idlest: int | None) -> list[str]:
    """Return instances of workers elsewhere whose names match; given a number, the idlest of those that take work."""
    found = [row for row in peers if row.address and fnmatchcase(row.instance.partition("@")[0], pattern)]
    if idlest is not None:
        found = sorted((row for row in found if row.state != "draining"), key=lambda row: row.in_flight)[:idlest]
    return [row.instance for row in found]


def is_offered(role: str, children: Iterable[ChildRow], peers: Iterable[PeerRow]) -> bool:
    """Return whether anybody of this role takes work: here by the launcher's word, elsewhere by the broker's."""
    return any(row.role == role and row.state in _AT_WORK for row in (*children, *peers))


def explain_absence(role: str, others: Iterable[ChildRow], peers: Iterable[PeerRow]) -> str:
    """Return what follows for who asks this role while the drained process rests; empty: others take its work."""
    return "" if is_offered(role, others, peers) else f"no other process offers {role}: its requests fail until then"


@click.command()
@with_home
def down(*, home: Home) -> int:
    """Drain and stop the cluster of a home; the record and the logs stay."""
    return stop.stop(home)
