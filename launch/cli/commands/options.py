"""What every command takes: `--home` and `--debug`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster.home import home_of
from hobus.launch.console.errors import UsageFault, is_about, next_here

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


def with_agent(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets `agent: str | None` from `--agent`."""
    said = "Whose session a new one is (hobus agent list); the configured agent's otherwise."
    return click.option("--agent", metavar="NAME", help=said)(command)


def known_agent(agent: str | None, snapshot: Snapshot) -> str | None:
    """The agent as it was given. Raises CommandError (usage), which names those that there are."""
    if agent is None or agent in snapshot.agents:
        return agent
    raise UsageFault(
        f"there is no agent {agent}; there are {', '.join(snapshot.agents)}", hint=next_here("agent list"))  # fmt: skip


def seconds_to_wait(given: float | None, config: AdminConfig, *, default_ms: int) -> float:
    """What `--timeout` says, else the setting. Raises CommandError (usage) for no length of time or too long a one."""
    if given is None:
        return default_ms / 1000
    longest_s = config.budget.timeout_seconds
    if not 0 < given <= longest_s:  # also false for nan
        raise UsageFault(
            f"--timeout {given:g}: expected a positive number of seconds, at most {longest_s} (budget.timeout_seconds)"
        )
    return given
