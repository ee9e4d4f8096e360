"""`hobus doctor`: is this machine, this home and this cluster as it should be, and if not, what fixes it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import click

from hobus.bus.clock import SystemClock
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.control import PeerRow
from hobus.bus.messages.gateway import Breakers, ReadBreakers
from hobus.launch.cli import checkup
from hobus.launch.cli.commands.cluster_options import ask
from hobus.launch.cli.commands.options import Output, with_json
from hobus.launch.cli.commands.ps import rows_of, waits_for
from hobus.launch.cli.commands.tools import tools_of
from hobus.launch.cluster.client import place_of
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import RunFile
from hobus.launch.console import finding
from hobus.launch.console.errors import CommandError
from hobus.launch.console.finding import DoctorFinding
from hobus.launch.launcher import tool_check


@click.command()
@with_json
def doctor(*, home: Home) -> Output:
    """Check python, libzmq, home, disk, sockets, clock, configuration and the running cluster; exit 1 on a fault."""
    clock = SystemClock()
    of_cluster, run = checkup.cluster(home)
    settings, snapshot = checkup.configuration(home, run)
    of_tools = tool_check.configured(snapshot.config) if snapshot is not None else []
    found = [
        *checkup.machine(),
        settings,
        *checkup.gates(home, run, is_loaded=snapshot is not None),
        *of_tools,
        *checkup.place(home, snapshot, clock),
        *of_cluster,
    ]
    if run is not None:
        found += [
            *checkup.in_force(home, run),
            *_health(home, run, clock.now()),
            *_tools(home, run),
            *_breakers(home, run),
        ]
    code = finding.code_of(found)
    return Output({"home": str(home.root), "ok": not code, "checks": found}, lambda: finding.show(found), code)


def _health(home: Home, run: RunFile, now: float) -> list[DoctorFinding]:
    answer, rows = rows_of(home, run, now)
    states = [(row.actor, row.state, row.note) for row in rows if not row.host]
    damaged = [child.actor for child in run.children if child.is_damaged]
    elsewhere = [peer.role for peer in (answer.peers if answer else ()) if peer.address and peer.state == "ready"]
    return [
        *checkup.health(states, broker_answers=answer is not None, home=home, damaged=damaged, elsewhere=elsewhere),
        *bounds(answer.peers if answer else ()),
    ]


def bounds(peers: Iterable[PeerRow]) -> list[DoctorFinding]:
    """Return what bounds the cluster's work now: one line for each process where something waits, and for what."""
    return [finding.warn(peer.instance.partition("@")[0], said) for peer in peers for said in waits_for(peer)]


def _tools(home: Home, run: RunFile) -> list[DoctorFinding]:
    """Report what workers say of their servers and packages; nothing where the broker does not answer."""
    try:
        return tool_check.running(asyncio.run(tools_of(place_of(home, run))), home)
    except (RuntimeFault, CommandError):
        return []


def _breakers(home: Home, run: RunFile) -> list[DoctorFinding]:
    """Report what the gateway says of its models; nothing where it does not answer."""
    try:
        return checkup.breakers(ask(place_of(home, run), "gateway", ReadBreakers(), Breakers).breakers, home)
    except (RuntimeFault, CommandError):
        return []
