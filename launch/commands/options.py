"""What every command takes: `--home` and `--debug`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hobus.config.schema import AdminConfig
from hobus.launch import exit_codes, identity, run_file
from hobus.launch.errors import CommandError, is_about, next_command
from hobus.launch.home import Home, holder, home_of

DEFAULT_HOME = ".hobus"


def with_home(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets `home: Home` from `--home`, else HOBUS_HOME, else `.hobus` in the current directory."""

    @click.option("--home", "home_path", metavar="DIR", help="State directory (default: $HOBUS_HOME, else .hobus).")
    @click.option("--debug", "_debug", is_flag=True, help="Show tracebacks and the command's own log.")
    @click.pass_context
    @functools.wraps(command)
    def with_home_argument(ctx: click.Context, /, home_path: str | None, _debug: bool, **arguments: Any) -> Any:
        given = home_path or (ctx.find_root().obj or {}).get("home") or os.environ.get("HOBUS_HOME") or DEFAULT_HOME
        home = home_of(Path(given))
        is_about(home.root)
        return command(home=home, **arguments)

    return with_home_argument


def running(home: Home) -> run_file.RunFile:
    """The cluster that runs in this home. Raises CommandError (not reachable) when there is none."""
    run, held_by = run_file.read(home.run_file), holder(home)
    if run is None or held_by is None:
        raise not_reachable(home, held_by, is_left=run is not None)
    return run


def not_reachable(home: Home, held_by: int | None, *, is_left: bool = False) -> CommandError:
    """The error for a home whose run directory is gone, or lacks what every command needs; `is_left`: a dead one's."""
    if held_by:
        said = (
            f"the cluster in {home.root} cannot be reached: its run directory is gone (its launcher is pid {held_by})"
        )
        return CommandError(said, hint=next_command("down", home.root), exit_code=exit_codes.UNREACHABLE)
    left = " (its launcher died; the next up cleans up)" if is_left else ""
    said = f"no cluster runs in {home.root}{left}"
    return CommandError(said, hint=next_command("up", home.root), exit_code=exit_codes.UNREACHABLE)


def cluster_gone(home: Home) -> CommandError | None:
    """The error (not reachable) for a home in which neither a launcher nor a broker is left; None while one lives.

    A launcher that died alone does not count: the broker that it left behind still carries what is under way.
    """
    try:
        run = run_file.read(home.run_file)
    except CommandError:
        return None  # what it says of itself cannot be read: that is no proof of death
    if run is not None:
        # By pid and mark, not by the home's lock: looking at that often could refuse it to an `up`.
        brokers = [(row.pid, row.mark) for row in run.children if row.role == "broker"]
        if any(identity.is_alive(pid, mark) for pid, mark in [(run.launcher_pid, run.launcher_mark), *brokers]):
            return None
    elif holder(home) is not None:
        return None
    return CommandError(
        f"the cluster in {home.root} is gone: nobody is left who could answer",
        hint=next_command("up", home.root),
        exit_code=exit_codes.UNREACHABLE,
    )


def seconds_to_wait(given: float | None, config: AdminConfig, *, default_ms: int) -> float:
    """What `--timeout` says, else the setting. Raises CommandError (usage) for no length of time or too long a one."""
    if given is None:
        return default_ms / 1000
    longest_s = config.budget.timeout_seconds
    if not 0 < given <= longest_s:  # also false for nan
        raise CommandError(
            f"--timeout {given:g}: expected a positive number of seconds, at most {longest_s} (budget.timeout_seconds)",
            exit_code=exit_codes.USAGE,
        )
    return given
