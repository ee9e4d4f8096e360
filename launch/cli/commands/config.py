"""`hobus config`: the governed configuration."""

from __future__ import annotations

from pathlib import Path

import click

from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.output import as_json, say, styled, table
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan import make_plan


@click.group()
def config() -> None:
    """Check the configuration."""


@config.command()
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="Laid over the shipped admin_config.json."
)
@click.option("--json", "as_json_", is_flag=True, help="One JSON object.")
@with_home
def check(*, home: Home, config_file: Path | None, as_json_: bool) -> int:
    """Load, validate and freeze everything governed; print the digest and where each file came from."""
    snapshot = make_plan(home, StartOptions(config_file=config_file)).snapshot
    origins = {str(name): str(origin) for name, origin in snapshot.origins.items()}
    if as_json_:
        say(as_json({"digest": snapshot.digest, "files": origins}, indent=1))
        return exit_codes.OK
    table(("FILE", "ORIGIN"), list(origins.items()))
    replaced = sum(1 for origin in origins.values() if origin != "shipped")
    say(f"{styled('ok', 'green')}  {len(origins)} files, {replaced} replaced, digest {snapshot.digest}")
    return exit_codes.OK
