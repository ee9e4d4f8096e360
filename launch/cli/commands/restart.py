"""`hobus restart`: one process anew."""

from __future__ import annotations

import click

from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import ChildRow
from hobus.launch.console import exit_codes
from hobus.launch.console.output import say
from hobus.launch.launcher.control import LeaveCommand
from hobus.launch.launcher.operate import command, follow, known


@click.command()
@click.argument("actor", metavar="ACTOR")
@click.option("--kill", is_flag=True, help="SIGKILL instead of letting it finish its work.")
@click.option("--no-wait", is_flag=True, help="Return as soon as the command is accepted.")
@with_home
def restart(*, home: Home, actor: str, kill: bool, no_wait: bool) -> int:
    """Start a process anew after it has finished its work; also one that failed or was drained.

    ACTOR: as hobus ps lists it, e.g. ho1/2; a role, e.g. ho3, where that is one process.
    """
    before = known(home, actor)
    actor = before.actor
    command(home, LeaveCommand(actor=actor, then="start", kill=kill))
    if no_wait:
        say(f"{actor} is being restarted")
        return exit_codes.OK

    def is_settled(rows: dict[str, ChildRow]) -> bool:
        row = rows.get(actor)
        return row is not None and row.instance != before.instance and row.state in ("ready", "degraded")

    row = follow(home, [actor], is_settled)[actor]
    say(f"{actor} is {row.state} as {row.instance} (pid {row.pid}), {row.ready_after_ms} ms after its start")
    return exit_codes.OK
