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
from hobus.launch.cli.commands.ps import read_rows, waits_for
from hobus.launch.cli.commands.tools import ask_tools
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
    of_cluster, run = checkup.check_cluster(home)
    settings, snapshot = checkup.check_configuration(home, run)
    of_tools = tool_check.check_configured(snapshot.config) if snapshot is not None else []
    found = [
        *checkup.check_machine(),
        settings,
        *checkup.check_gates(home, run, is_loaded=snapshot is not None),
        *of_tools,
        *checkup.place(home, snapshot, clock),
        *of_cluster,
        *checkup.check_cells(home),
    ]
    if run is not None:
        found += [
            *checkup.check_in_force(home, run),
            *_check_health(home, run, clock.now()),
            *_check_tools(home, run),
            *_check_breakers(home, run),
        ]
    code = finding.choose_code(found)
    return Output({"home": str(home.root), "ok": not code, "checks": found}, lambda: finding.show(found), code)


def _check_health(home: Home, run: RunFile, now: float) -> list[DoctorFinding]:
    answer, rows = read_rows(home, run, now)
    states = [(row.actor, row.state, row.note) for row in rows if not row.host]
    damaged = [child.actor for child in run.children if child.is_damaged]
    elsewhere = [peer.role for peer in (answer.peers if answer else ()) if peer.address and peer.state == "ready"]
    return [
        *checkup.check_health(
            states, broker_answers=answer is not None, home=home, damaged=damaged, elsewhere=elsewhere
        ),
        *find_bounds(answer.peers if answer else ()),
    ]


def find_bounds(peers: Iterable[PeerRow]) -> list[DoctorFinding]:
    """Return what bounds the cluster's work now: one line for each process where something waits, and for what."""
    return [finding.warn(peer.instance.partition("@")[0], said) for peer in peers for said in waits_for(peer)]


def _check_tools(home: Home, run: RunFile) -> list[DoctorFinding]:
    """Report what workers say of their servers and packages; nothing where the broker does not answer."""
    try:
        return tool_check.check_running(asyncio.run(ask_tools(place_of(home, run))), home)
    except (RuntimeFault, CommandError):
        return []


def _check_breakers(home: Home, run: RunFile) -> list[DoctorFinding]:
    """Report what the gateway says of its models; nothing where it does not answer."""
    try:
        return checkup.check_breakers(ask(place_of(home, run), "gateway", ReadBreakers(), Breakers).breakers, home)
    except (RuntimeFault, CommandError):
        return []
