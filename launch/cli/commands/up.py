"""`hobus up`: start the cluster of a home, in the foreground or detached."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click

from hobus.config.files import ADMIN_CONFIG
from hobus.launch.cli.commands.options import DURATION, with_config_file, with_home, with_http
from hobus.launch.cluster.endpoints import split_address
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault
from hobus.launch.launcher import inherited
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.starting import start_detached, start_here


@click.command()
@click.argument("app", required=False, type=click.Path(path_type=Path))
@click.option(
    "--wait",
    is_flag=True,
    help="Return when every process is ready (implies --detach); exit 4 if not, 3 if the record is damaged.",
)
@click.option("--wait-timeout", "wait_s", type=DURATION, help="How long --wait waits, e.g. 20s (implies it).")
@click.option("--detach", is_flag=True, help="Run in the background.")
@click.option("--scale", multiple=True, metavar="ROLE=N", help="Number of processes of a role, e.g. ho1=2.")
@with_config_file
@click.option("--listen", metavar="HOST:PORT", help="Let workers on other hosts connect here; port 0: any free one.")
@with_http
@with_home
def up(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    app: Path | None,
    wait: bool,
    wait_s: float | None,
    detach: bool,
    scale: tuple[str, ...],
    config_file: Path | None,
    listen: str | None,
    http: str | None,
) -> int:
    """Start the cluster of a home. A running one stays as it is.

    With APP, a Python file, first write its agents into the home's config/. Without --wait or --detach it stays in the
    foreground: Ctrl-C drains it, a second Ctrl-C kills it.
    """
    if listen is not None:
        split_address(listen, option="--listen")  # an empty one is no address either
    if http is not None:
        split_address(http, option="--http")
    if app is not None:
        if config_file is not None:
            raise UsageFault(
                f"--config {config_file} would replace {home.config / ADMIN_CONFIG}, which names the tools of {app}",
                hint="write those settings there instead, then the same command without --config",
            )
        started = importlib.import_module("hobus.launch.app.started")  # by name: it is no part of the core
        started.take_in(home, started.import_agents(app), app)
    wait = wait or wait_s is not None
    options = StartOptions(config_file=config_file, scale=scale, listen=listen, http=http)
    if find_holder(home) is not None:
        return _already("stay_up", home, options, wait=wait, wait_s=wait_s)
    if wait or detach:
        try:
            code = start_detached(home, options, wait=wait and wait_s is None)
            return code if wait_s is None else _already("wait_ready", home, wait_s)
        except CommandError as error:
            if error.exit_code != exit_codes.REFUSED or find_holder(home) is None:
                raise
            # Another one was a moment earlier.
            return _already("stay_up", home, options, wait=wait, wait_s=wait_s)
    if not inherited.is_handed_over():
        names = inherited.names_of(config_file or home.config / ADMIN_CONFIG)
        inherited.execute(["up", "--home", str(home.root), *options.words()], names)
    return start_here(home, options)


def _already(name: str, *given: Any, **named: Any) -> int:
    # By name: a start loads no client of the bus.
    up_already = importlib.import_module("hobus.launch.launcher.up_already")
    code: int = getattr(up_already, name)(*given, **named)
    return code
