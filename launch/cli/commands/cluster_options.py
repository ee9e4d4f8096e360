"""What commands of a running cluster take: the cluster, one of its agents, how long is waited for it."""

from __future__ import annotations

import asyncio
import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hobus.bus.messages.base import Message
from hobus.launch.cluster.client import ask_operator, find_cluster
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import UsageFault, format_next_here
from hobus.launch.sessions.turns import check_text, decode_argument

if TYPE_CHECKING:
    from hobus.bus.messages.session import SessionConfig
    from hobus.config.schema import AdminConfig
    from hobus.config.sections.processes import HostConfig
    from hobus.config.snapshot import Snapshot

R = TypeVar("R", bound=Message)


def with_cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command `place: Place` for its `home`: the cluster that runs there. Raises UnreachableFault: none."""

    @functools.wraps(command)
    def on_cluster(*, home: Home, **arguments: Any) -> Any:
        return command(place=find_cluster(home), **arguments)

    return on_cluster


def ask(place: Place, service: str, question: Message, expect: type[R]) -> R:
    """Return the answer to one question of the operator. Raises RuntimeFault, CommandError."""
    return asyncio.run(ask_operator(place, service, question, expect))


with_agent = click.option(
    "--agent", metavar="NAME", help="The agent of a new session (hobus agent list); default: the configured one."
)
"""The command gets `agent: str | None`."""
with_app = click.option(
    "--app",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A Python file whose first agent answers. If no cluster runs, start one and stop it afterwards.",
)
"""The command gets `app: Path | None`."""


def choose_app_agent(home: Home, app: Path | None, agent: str | None, session: str | None) -> str | None:
    """Return the agent to ask; an app's cluster runs in this home until the command ends. Raises CommandError."""
    if app is None:
        return agent
    started = importlib.import_module("hobus.launch.app.started")  # by name: it is no part of the core
    agents = started.import_agents(app)
    click.get_current_context().with_resource(started.begin(home.root, agents, app)[1])
    return agent or (None if session else str(agents[0].agent_id))


def find_known_agent(agent: str | None, snapshot: Snapshot, *, running_in: Home | None = None) -> str | None:
    """Return the agent that is meant, in whatever case. Raises UsageFault, which names the existing ones.

    `running_in`: the home of the cluster that runs under the snapshot; what lies there may be newer.
    """
    if agent is None or agent.upper() in snapshot.agents:
        return agent and agent.upper()
    from hobus.config.files import find  # noqa: PLC0415 - for a mistake
    from hobus.launch.cluster.installed import find_layers  # noqa: PLC0415

    said, hint = f"there is no agent {agent}; there are {', '.join(snapshot.agents)}", format_next_here("agent list")
    if running_in is not None and f"agents/{agent}.json" in find(find_layers(running_in))[0]:
        said += f"; {agent} is on disk, and the cluster that runs has not taken it in"
        hint = format_next_here("reload")
    raise UsageFault(said, hint=hint)


def with_wishes(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command `template: str | None` from `--template` and `model: str | None` from `--model`."""
    model = "PROVIDER/MODEL, or a model of the default provider. A new session keeps it."
    said = "Attention template (ATT-…) that selects the context. A new session keeps it."
    return click.option("--model", metavar="MODEL", help=f"Model to use: {model}")(
        click.option("--template", metavar="ATT", help=said)(command)
    )


def make_overrides(
    template: str | None, model: str | None, snapshot: Snapshot, *, agent: str | None
) -> SessionConfig | None:
    """Return the overrides that ask for both. Raises UsageFault where this agent (None: the session's) cannot."""
    if model is None and template is None:
        return None
    from hobus.bus.messages.session import SessionConfig  # noqa: PLC0415 - for who names one
    from hobus.config.attention_rules import find_override_fault  # noqa: PLC0415
    from hobus.config.model_choice import find_choice_fault  # noqa: PLC0415

    if template is not None and (missing := find_override_fault(snapshot.templates, template)):
        raise UsageFault(f"--template: {missing}")
    wanted = SessionConfig(attention_template=template, model=model)
    asked = None if agent is None else snapshot.agents[agent]
    if model is not None and asked is not None:
        fault = find_choice_fault(
            snapshot.choose_model_for(asked, "synthesize", request=wanted), asked, snapshot.config.gateway
        )
        if not model.strip() or fault is not None:
            raise UsageFault(
                f"--model: {fault.detail if fault else 'it is blank'}", hint=format_next_here("provider list")
            )
    return wanted


def read_text(argument: str, limits: HostConfig) -> str:
    """Return what is said: the argument, or standard input for `-`. Raises UsageFault for what cannot be sent."""
    if argument == "-":
        if sys.stdin is None:
            raise UsageFault("standard input is closed: there is no text")
        # One byte beyond the limit is enough to know that it is too long.
        argument = sys.stdin.buffer.read(limits.prompt_max_bytes + 1).decode("utf-8", "surrogateescape")
    text = decode_argument(argument)
    check_text(text, limits)
    return text


def choose_timeout(given: float | None, config: AdminConfig, *, default_ms: int) -> float:
    """Return what `--timeout` says, else the setting. Raises UsageFault for no length of time or too long a one."""
    if given is None:
        return default_ms / 1000
    longest_s = config.budget.timeout_seconds
    if not 0 < given <= longest_s:  # also false for nan
        raise UsageFault(
            f"--timeout {given:g}: expected more than 0 and at most {longest_s} seconds (budget.timeout_seconds)"
        )
    return given
