"""`hobus scale`: another number of processes of a role, on a running cluster."""

from __future__ import annotations

import click

from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import ChildRow, running
from hobus.launch.console import exit_codes
from hobus.launch.console.output import say
from hobus.launch.launcher.control import ScaleCommand
from hobus.launch.launcher.operate import command, follow
from hobus.launch.launcher.options import parse_scale


@click.command()
@click.argument("numbers", metavar="ROLE=N...", nargs=-1, required=True)
@click.option("--no-wait", is_flag=True, help="Return as soon as the command is accepted.")
@with_home
def scale(*, home: Home, numbers: tuple[str, ...], no_wait: bool) -> int:
    """Change how many processes of a role run, e.g. `hobus scale ho1=8`; the highest numbers finish first and end."""
    wanted = parse_scale(numbers, option="")
    before = {row.actor for row in running(home).children}
    for role, count in wanted.items():
        command(home, ScaleCommand(role=role, count=count))
    goal = {f"{role}/{number}" for role, count in wanted.items() for number in range(1, count + 1)}
    leaving = {name for name in before if name.partition("/")[0] in wanted} - goal
    if not no_wait:

        def is_settled(rows: dict[str, ChildRow]) -> bool:
            return not leaving & set(rows) and all(
                name in rows and rows[name].state in ("ready", "degraded") for name in goal
            )

        follow(home, goal | leaving, is_settled)
    for role, count in wanted.items():
        say(f"{role}: {count} {'process' if count == 1 else 'processes'}")
    return exit_codes.OK
