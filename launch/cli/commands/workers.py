"""`hobus workers`: workers on an engine that starts them elsewhere, asked in its own words by deploy/'s scripts."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import click

from hobus.bus.limits import JOIN_USES_MAX
from hobus.launch.cli.commands.access import create_worker_token
from hobus.launch.cli.commands.options import Family, with_home
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import CommandError, UsageFault, format_next_command, format_next_here
from hobus.launch.console.output import note

DEPLOY = Path(__file__).parents[3] / "deploy"
"""The files that docs/deploy.md tells of, as they are installed."""
SCRIPTS = {
    "slurm": ["bash", str(DEPLOY / "slurm" / "workers.sh")],
    "kubernetes": ["bash", str(DEPLOY / "kubernetes" / "workers.sh")],
    "ray": [sys.executable, str(DEPLOY / "ray" / "workers.py")],
}
_NONE_STARTS = 3
"""What a script ends with that was asked to check and needs no token."""
_TTL_S, _GONE_S = 30 * 86_400, 600  # as docs/deploy.md says for every engine


@click.group(cls=Family)
def workers() -> None:
    """Run workers on SLURM, Kubernetes or Ray, which start and restart them."""


@workers.command()
@click.argument("engine", type=click.Choice([*SCRIPTS]))
@click.option("--count", type=click.IntRange(0, 1000), metavar="N", help="Number of workers; 0 drains all.")
@click.option("--min", type=click.IntRange(0, 1000), metavar="N", help="kubernetes, KEDA: least workers.")
@click.option("--max", type=click.IntRange(1, 1000), metavar="N", help="kubernetes, KEDA: most workers.")
@click.option("--image", metavar="NAME[:TAG]", help="kubernetes: the image of deploy/container, in your registry.")
@click.option("--address", metavar="HOST[:PORT]", help="Address that the workers use, if not the one listened at.")
@click.option("--dry-run", is_flag=True, help="Show what it would do; change nothing.")
@click.argument("options", nargs=-1, metavar="[-- OPTION]...", type=click.UNPROCESSED)
@with_home
def on(
    *, home: Home, engine: str, address: str | None, dry_run: bool, options: tuple[str, ...], **given: int | str | None
) -> None:
    """Run --count workers of this cluster on ENGINE: slurm, kubernetes or ray.

    Running workers count. The command makes their token, for 30 days, unless HOBUS_JOIN_TOKEN is set. Options after
    `--` go to sbatch: -- --partition=long.
    """
    words = [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    asked = [*SCRIPTS[engine], *words, *options]
    environ = {**os.environ, "HOBUS_WORKERS": f"hobus-worker-{hashlib.sha256(str(home.root).encode()).hexdigest()[:8]}"}
    token = environ.pop("HOBUS_JOIN_TOKEN", "")
    listens = "" if token or address else home.bound() or ""
    try_it = {**environ, "DRY_RUN": "1" if dry_run else "check", "HOBUS_LISTENS": listens}
    told = subprocess.run(asked, env=try_it, check=False, stdout=None if dry_run else subprocess.DEVNULL)  # noqa: S603
    if told.returncode not in (0, _NONE_STARTS):
        raise UsageFault(f"nothing was done on {engine}: see above", hint=format_next_here("workers on --help"))
    if dry_run:
        return
    most, leave = int(given["count"] if given["count"] is not None else given["max"] or 0), ""
    if most and not token and not told.returncode:
        made = create_worker_token(home, _TTL_S, min(JOIN_USES_MAX, 2 * most), _GONE_S, address)
        token = str(made["token"])  # for one generation of workers, and the next beside it
        leave = format_next_command(f"token revoke {made['token_id']}", home.root)
    if code := subprocess.run(asked, env={**environ, "HOBUS_JOIN_TOKEN": token}, check=False).returncode:  # noqa: S603 - what hobus brings
        made_too = "; if no worker was started, revoke their token" * bool(leave)
        raise CommandError(f"{engine} failed ({code}), see above{made_too}", hint=leave)
    note(format_next_command("ps", home.root))
