"""Kills a command that changes packages at each of its operations, one after the other; tells what it left as JSON lines.

A program of its own, since it forks: `python -m tests.launch.packages.killed DIRECTORY install|upgrade|remove`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from hobus.launch.cluster.home import make_home
from hobus.launch.packages import installing
from hobus.launch.packages.installing import install, map_installed, remove
from hobus.launch.packages.judging import LayerJudgement
from tests.launch.packages import parts
from tests.launch.packages.injected import Failpoint, disk_with, kill


def main(directory: Path, name: str) -> None:
    """One line for each operation: what it was, what is in force after it, and what is left after the next command."""
    one, two, boss = parts.clerk(directory), parts.clerk(directory, "2.0.0"), parts.other(directory, "BOSS", 300)
    third = parts.other(directory, "THIRD", 400)
    # What gates say is tested elsewhere; here a command is its operations.
    nothing = LayerJudgement([])
    installing.list_refusals = lambda *_: ([], nothing)  # type: ignore[assignment]
    installing.judge_layers = lambda *_: nothing  # type: ignore[assignment]
    begin = make_home(directory / "begin")
    install(begin, one)
    commands = {"install": (install, boss), "upgrade": (install, two), "remove": (remove, "PKG-CLERK-001")}
    command, what = commands[name]
    at = 0
    while True:
        at += 1
        home = make_home(directory / f"{name}-{at}")
        shutil.copytree(begin.root, home.root)
        if not _is_killed(lambda home=home, at=at: command(home, what, disk=disk_with(Failpoint(at, kill)))):  # type: ignore[arg-type]
            return
        found = {one.package_id: one.version for one in map_installed(home).values()}
        whole = all(one.package is not None and one.public_key for one in map_installed(home).values())
        install(home, third)  # the next command, whatever it is
        left = sorted(path.name for path in home.packages.iterdir())
        wanted = sorted([*(one.directory.name for one in map_installed(home).values()), ".lock", "installed.json"])
        told = {"at": at, "found": found, "whole": whole, "swept": left == wanted, "home": str(home.root)}
        sys.stdout.write(f"{json.dumps(told)}\n")
        sys.stdout.flush()


def _is_killed(body: Callable[[], object]) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            body()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
