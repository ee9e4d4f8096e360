"""`hobus agent`: which agents there are, and what each is made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hobus.config.assets import BUDGET_SETTINGS, AgentFile, list_approval_rules, needs_approval
from hobus.config.files import SHIPPED, SHIPPED_ROOT
from hobus.config.prompt_contracts import SHIPPED as SHIPPED_CONTRACTS
from hobus.config.prompt_contracts import get_contract_id
from hobus.launch.cli.commands.cluster_options import find_known_agent
from hobus.launch.cli.commands.options import Family, Output, with_json
from hobus.launch.cluster.client import find_cluster
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.console.output import as_json, make_printable, note, say_prose, shorten_path
from hobus.launch.console.view import Columns, print_rows

if TYPE_CHECKING:
    from hobus.config.snapshot import Snapshot


@click.group(cls=Family)
def agent() -> None:
    """List the agents of a home, and show what each may do."""


@agent.command("list")
@with_json
def list_(*, home: Home) -> Output:
    """List every agent, its file, and the default one (host.agent_id)."""
    snapshot = _read_snapshot(home)
    rows = [_describe_agent(home, name, snapshot) for name in snapshot.agents]
    columns: Columns = {
        "AGENT": "agent_id", "DEFAULT": lambda row: "yes" if row["is_default"] else "", "CLASS": "agent_class",
        "TOOLS": lambda row: len(row["tools"]),
        "FILE": lambda row: shorten_path(Path(row["file"])) if Path(row["file"]).is_absolute() else row["file"],
    }  # fmt: skip
    return Output({"agents": rows}, lambda: print_rows(rows, columns))


@agent.command()
@click.argument("name", metavar="NAME")
@with_json
def show(*, home: Home, name: str) -> Output:
    """Show one agent: prompt, tools, budgets in tokens, permissions, version and owner."""
    from hobus.launch.launcher import tool_check  # noqa: PLC0415 - of this command alone

    snapshot = _read_snapshot(home)
    name = find_known_agent(name, snapshot) or name
    row = _describe_agent(home, name, snapshot)
    row["withheld"] = [told for told in tool_check.list_withheld(snapshot) if told.startswith(f"{name} ")]
    width = max(map(len, row))

    def tell() -> None:
        for key, value in row.items():
            say_prose(f"{key.ljust(width)}  ", _describe_value(value))

    return Output(row, tell)


def _read_snapshot(home: Home) -> Snapshot:
    """Return the running cluster's; without one, what the next start would freeze. Raises CommandError, ConfigError."""
    try:
        return find_cluster(home).snapshot
    except CommandError as error:
        if error.exit_code != exit_codes.UNREACHABLE:
            raise
    from hobus.launch.launcher.options import StartOptions  # noqa: PLC0415 - of a home without a cluster
    from hobus.launch.launcher.plan import make_plan  # noqa: PLC0415

    note("no cluster runs: this is what the next start would use")
    return make_plan(home, StartOptions()).snapshot


def _describe_agent(home: Home, name: str, snapshot: Snapshot) -> dict[str, Any]:
    one: AgentFile = snapshot.agents[name]
    asks = snapshot.config.tools
    own, chosen = home.config / "agents" / f"{name}.json", snapshot.choose_model_for(one, "synthesize")
    return {
        "agent_id": name,
        "is_default": name == snapshot.config.host.agent_id,
        "file": str(own) if own.exists() else _find_origin(name, snapshot),
        **_find_version(name, one, snapshot),
        **one.model_dump(mode="json", exclude={"permissions", "system_prompt"}),
        "model": f"{chosen.provider}/{chosen.model}",
        "approval": [each for each in one.tools if needs_approval(asks, each) or list_approval_rules(asks, each)],
        "providers": list(one.permissions.providers),
        "models": list(one.permissions.models),
        "budget_tokens": {purpose: one.budget_tokens(purpose, snapshot.config.budget) for purpose in BUDGET_SETTINGS},
        "contracts": {purpose: get_contract_id(one, purpose) for purpose in SHIPPED_CONTRACTS},
        "system_prompt": one.system_prompt,
    }


def _find_origin(name: str, snapshot: Snapshot) -> str:
    """Return who brought an agent that is not the home's own: `shipped`, or the id of an installed package."""
    is_shipped = (SHIPPED_ROOT / "agents" / f"{name}.json").exists()
    return SHIPPED if is_shipped else snapshot.files[f"agents/{name}.json"].package_id or SHIPPED


def _find_version(name: str, one: AgentFile, snapshot: Snapshot) -> dict[str, str | None]:
    """Return which version it is, whose, and under whose rules; None: nobody's, or of a package without a version."""
    file = snapshot.files[f"agents/{name}.json"]
    package, framework = snapshot.packages.get(file.package_id), snapshot.frameworks.get(one.framework_id)
    return {
        "digest": file.sha256,
        "package_id": file.package_id or None,
        "package_version": None if package is None else package.version,
        "framework_id": one.framework_id,
        "framework_version": None if framework is None else framework.version,
    }


def _describe_value(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(value) or "-"
        case {"type": "object"}:
            return as_json(value)
        case dict():
            return ", ".join(f"{name} {amount}" for name, amount in value.items())
        case _:
            return make_printable(str(value))
