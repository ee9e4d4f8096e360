"""`hobus down`: drain and stop the cluster of a home."""

from __future__ import annotations

import click

from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.home import Home
from hobus.launch.launcher.stop import stop


@click.command()
@with_home
def down(*, home: Home) -> int:
    """Drain and stop the cluster of a home; the record and the logs stay."""
    return stop(home)
