"""`hobus doctor`: is this machine, this home and this cluster as it should be, and if not, what mends it."""

from __future__ import annotations

import asyncio

import click

from hobus.bus.clock import SystemClock
from hobus.bus.errors import RuntimeFault
from hobus.launch.cli import checkup
from hobus.launch.cli.commands.breaker import breakers_of
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cli.commands.ps import actor_row, peers_of
from hobus.launch.cli.commands.tools import tools_of
from hobus.launch.cluster.client import place_of
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import RunFile
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.console.finding import Finding
from hobus.launch.console.output import as_json, say, styled
from hobus.launch.launcher import tool_check

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option("--json", "as_json_", is_flag=True, help="One JSON object.")
@with_home
def doctor(*, home: Home, as_json_: bool) -> int:
    """Check python, libzmq, home, disk, sockets, clock, configuration and the running cluster; exit 1 if one fails."""
    clock = SystemClock()
    settings, snapshot = checkup.configuration(home)
    of_cluster, run = checkup.cluster(home)
    of_tools = tool_check.configured(snapshot.config) if snapshot is not None else []
    found = [*checkup.machine(), settings, *of_tools, *checkup.place(home, snapshot, clock), *of_cluster]
    if run is not None:
        found += [*_health(home, run, clock.now()), *_tools(home, run), *_breakers(home, run)]
    code = checkup.code_of(found)
    if as_json_:
        checks = [one.model_dump() for one in found]
        say(as_json({"home": str(home.root), "ok": code == exit_codes.OK, "checks": checks}, indent=1))
        return code
    width = max(len(one.check) for one in found)
    for one in found:
        _print(one, width)
    return code


def _health(home: Home, run: RunFile, now: float) -> list[Finding]:
    answer = asyncio.run(peers_of(home, run))
    peers = None if answer is None else {row.instance: row for row in answer.peers}
    rows = [actor_row(child, peers, now) for child in run.children]
    states = [(row.actor, row.state, row.note) for row in rows]
    damaged = [child.actor for child in run.children if child.is_damaged]
    elsewhere = [peer.role for peer in (peers or {}).values() if peer.address and peer.state == "ready"]
    return checkup.health(states, broker_answers=peers is not None, home=home, damaged=damaged, elsewhere=elsewhere)


def _tools(home: Home, run: RunFile) -> list[Finding]:
    """What workers say of their servers and packages; nothing where the broker does not answer, which is said above."""
    try:
        return tool_check.running(asyncio.run(tools_of(place_of(home, run))), home)
    except (RuntimeFault, CommandError):
        return []


def _breakers(home: Home, run: RunFile) -> list[Finding]:
    """What the gateway says of its models; nothing where it does not answer, which is said above."""
    try:
        return checkup.breakers(asyncio.run(breakers_of(place_of(home, run))).breakers, home)
    except (RuntimeFault, CommandError):
        return []


def _print(one: Finding, width: int) -> None:
    first, *more = one.said.splitlines()
    say(f"{styled(one.verdict.ljust(4), _COLOURS[one.verdict])}  {one.check.ljust(width)}  {first}")
    for line in more:
        say(f"      {' ' * width}  {line}")
    if one.mend:
        say(f"      {' ' * width}  next: {one.mend}")
