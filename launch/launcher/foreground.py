"""A launcher in the foreground of a terminal: Ctrl-C drains the cluster, a second Ctrl-C kills it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from hobus.bus.clock import SystemClock
from hobus.launch.cluster.home import Home, make_private
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import of_os_error
from hobus.launch.console.output import note, say
from hobus.launch.launcher import inherited
from hobus.launch.launcher.launcher import Launcher
from hobus.launch.launcher.plan import make_plan
from hobus.launch.launcher.progress import NotReady, Progress, Ready
from hobus.launch.launcher.show_progress import show
from hobus.launch.launcher.zygote import end_unused, fork_zygote
from hobus.launch.logs import writing


def run(home: Home, *, config_file: Path | None, scale: tuple[str, ...], listen: str | None, http: str | None) -> int:
    """The exit code, after the cluster is down. Raises ConfigError, CommandError."""

    def tell(word: Progress) -> None:
        if isinstance(word, (Ready, NotReady)):
            show(home, word)
        else:
            note("starting; Ctrl-C stops it")

    try:
        handed = inherited.descriptor()
        make_private(home.logs)
        first = fork_zygote(home.log("zygote"))
        try:
            environ = inherited.take(handed)
            plan = make_plan(home, config_file=config_file, scale=scale, listen=listen, http=http, given=environ)
            to_roles = inherited.by_role(plan.snapshot.config, environ)
        except BaseException:
            if first is not None:
                end_unused(first)
            raise
        with home.log("launcher").open("a", encoding="utf-8", buffering=1) as log:
            lines = writing.configure("launcher", f"launcher@{os.getpid()}", stream=log)
            lines.limit(home.log("launcher"), plan.snapshot.config.launcher.log_max_bytes)
            made = Launcher(home=home, plan=plan, clock=SystemClock(), report=tell, zygote=first, given=to_roles)
            asyncio.run(made.run())
    except OSError as error:
        raise of_os_error(error, doing=f"the cluster in {home.root} cannot be started") from error
    say("stopped")
    return exit_codes.OK
