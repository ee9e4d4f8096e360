"""`hobus worker`: be a worker of a cluster on another host."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import click

from hobus.bus.join_token import NotAToken, decode
from hobus.bus.limits import MAILBOX_MAX
from hobus.launch.cli.commands.options import DURATION, Family
from hobus.launch.cluster.home import make_home
from hobus.launch.cluster.kernel import set_title
from hobus.launch.console.errors import UsageFault
from hobus.launch.launcher import inherited

DEFAULT_HOME = ".hobus-worker"
_GRACE = "How long its orders may take to end after SIGTERM (default: the cluster's launcher.drain_ms)."
_SLOTS = "Orders carried out at once (default: the cluster's ho1.orders_max)."


@click.group(cls=Family)
def worker() -> None:
    """Run a worker for a cluster on another host."""


def _add_options(command: Any) -> Any:
    for option in (
        click.option("--debug", "_debug", is_flag=True, help="Show tracebacks."),
        click.option("--grace", "grace_s", type=DURATION, help=_GRACE),
        click.option("--slots", type=click.IntRange(1, MAILBOX_MAX), help=_SLOTS),
        click.option(
            "--home", "home_path", metavar="DIR", help=f"The worker's own directory (default: {DEFAULT_HOME})."
        ),
    ):
        command = option(command)
    return command


@worker.command()
@click.argument("token", envvar="HOBUS_JOIN_TOKEN")
@_add_options
def join(*, token: str, home_path: str | None, slots: int | None, grace_s: float | None, _debug: bool) -> None:
    """Join the cluster that made TOKEN, and run a worker for it until Ctrl-C.

    It makes the worker's own key, which never leaves this directory, and counts from then on: later use
    `hobus worker run`, or this command again. Default of TOKEN: HOBUS_JOIN_TOKEN.
    """
    try:
        known = decode(token)
    except NotAToken as fault:
        raise UsageFault(
            f"this is not a join token: {fault}",
            hint="copy the whole line that hobus token create printed on the cluster's host",
        ) from None
    worker_home, worker = _find_worker(home_path)
    set_title("hobus worker join")  # the command line that others see no longer holds the token
    worker.become_member(worker_home, known)
    worker.run_anew(worker_home, slots=slots, grace_s=grace_s, environ={})


@worker.command()
@_add_options
def run(*, home_path: str | None, slots: int | None, grace_s: float | None, _debug: bool) -> int:
    """Run the worker of the cluster that was joined before, until Ctrl-C."""
    worker_home, worker = _find_worker(home_path)
    if not inherited.is_handed_over():
        worker.run_anew(worker_home, slots=slots, grace_s=grace_s, environ={})
    code: int = worker.run(worker_home, slots=slots, grace_s=grace_s, handed=inherited.find_descriptor())
    return code


def _find_worker(home_path: str | None) -> tuple[Any, Any]:
    named = home_path or (click.get_current_context().find_root().obj or {}).get("home")
    # Not HOBUS_HOME: that is a cluster's, and both may be on one machine.
    home = make_home(Path(named or os.environ.get("HOBUS_WORKER_HOME") or DEFAULT_HOME))
    worker: Any = importlib.import_module("hobus.launch.worker.main")
    return worker.WorkerHome(home), worker
