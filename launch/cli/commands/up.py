"""`hobus up`: start the cluster of a home, in the foreground or detached."""

from __future__ import annotations

from pathlib import Path

import click

from hobus.config.files import ADMIN_CONFIG
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.addresses import parts_of
from hobus.launch.cluster.home import Home, holder
from hobus.launch.launcher import inherited
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.progress import already_up
from hobus.launch.launcher.starting import start_detached, start_here

HTTP = "127.0.0.1:8420"
"""Where the HTTP door is when nobody says where: this machine alone."""


@click.command()
@click.option(
    "--wait",
    is_flag=True,
    help="Return when every process is ready (implies --detach); exit 4 if not, 3 if the record is damaged.",
)
@click.option("--detach", is_flag=True, help="Run in the background.")
@click.option("--scale", multiple=True, metavar="ROLE=N", help="Number of processes of a role, e.g. ho1=2.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Settings that replace those of the shipped admin_config.json.",
)
@click.option("--listen", metavar="HOST:PORT", help="Let workers on other hosts connect here; port 0: any free one.")
@click.option(
    "--http",
    is_flag=False,
    flag_value=HTTP,
    metavar="[HOST:PORT]",
    help=f"Open the HTTP door, at {HTTP} by default; port 0: any free one.",
)
@with_home
def up(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    wait: bool,
    detach: bool,
    scale: tuple[str, ...],
    config_file: Path | None,
    listen: str | None,
    http: str | None,
) -> int:
    """Start the cluster of a home.

    Without --wait or --detach it stays in the foreground: Ctrl-C drains it, a second Ctrl-C kills it.
    """
    held_by = holder(home)
    if held_by is not None:
        raise already_up(home.root, held_by)
    if listen is not None:
        parts_of(listen)  # an empty one is no address either
    if http is not None:
        parts_of(http)
    options = StartOptions(config_file=config_file, scale=scale, listen=listen, http=http)
    if wait or detach:
        return start_detached(home, options, wait=wait)
    if not inherited.is_handed_over():
        names = inherited.names_of(config_file or home.config / ADMIN_CONFIG)
        inherited.execute(["up", "--home", str(home.root), *options.words()], names)
    return start_here(home, options)
