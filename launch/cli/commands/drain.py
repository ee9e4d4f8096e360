"""`hobus drain`: one process finishes its work and rests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import click

from hobus.bus.messages.control import PeerRow
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cli.commands.ps import peers_of
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import ChildRow, running
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import next_command
from hobus.launch.console.output import note, say
from hobus.launch.launcher.control import LeaveCommand
from hobus.launch.launcher.operate import command, follow, known


@click.command()
@click.argument("actor", metavar="ACTOR")
@click.option("--no-wait", is_flag=True, help="Return as soon as the command is accepted.")
@with_home
def drain(*, home: Home, actor: str, no_wait: bool) -> int:
    """Let a process finish its work and end; it stays stopped until `hobus restart`.

    ACTOR: as hobus ps lists it, e.g. ho1/2; a role, e.g. ho3, where that is one process.
    """
    row = known(home, actor)
    actor, role = row.actor, row.role
    command(home, LeaveCommand(actor=actor, then="stay"))
    if no_wait:
        say(f"{actor} is draining")
        return exit_codes.OK

    def is_settled(rows: dict[str, ChildRow]) -> bool:
        return actor in rows and rows[actor].state == "stopped"

    follow(home, [actor], is_settled)
    say(f"{actor} is stopped; {next_command('restart', home.root)} {actor} starts it")
    run = running(home)
    peers = asyncio.run(peers_of(home, run))
    if not is_offered(role, run.children, peers.peers if peers is not None else ()):
        note(f"nobody else offers {role}: requests for it fail until then")
    return exit_codes.OK


def is_offered(role: str, children: Iterable[ChildRow], peers: Iterable[PeerRow]) -> bool:
    """Whether anybody of this role takes work: a process of this host by the launcher's word, any by the broker's."""
    rows: list[ChildRow | PeerRow] = [*children, *peers]
    return any(row.role == role and row.state in ("ready", "degraded") for row in rows)
