"""`hobus tools`: every tool of the running cluster, where it comes from, and who may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from hobus.bus.messages.control import Tools
from hobus.bus.paging import read_tools
from hobus.config.assets import explain_withheld, list_approval_rules, needs_approval
from hobus.config.called_agents import describe_agent, may_call
from hobus.config.tool_faults import is_meant
from hobus.launch.cli.commands.options import Family, Output, with_json
from hobus.launch.cluster.client import connect_bus, find_cluster
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import UsageFault
from hobus.launch.console.output import format_cell, note, say
from hobus.launch.console.view import Columns, print_rows

if TYPE_CHECKING:
    from hobus.config.snapshot import Snapshot

_WORKERS_SHOWN = 8
_OF_TOOL = ("tool_id", "source", "description", "workers", "worker_count", "idempotent", "writes")
"""Of a row: `builtin`, `python`, `agent` or an MCP server as its source; the first of the instances that run it now."""
Row = dict[str, Any]


@click.group(cls=Family, invoke_without_command=True, elsewhere={"call": "tool_call"})
@with_json
def tools(*, home: Home) -> Output:
    """List every tool with its workers, agents and properties, and missing servers.

    `hobus tools call` runs one.
    """
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is not None:
        if ctx.params["_as_json"]:
            raise UsageFault(f"put --json after the subcommand: hobus tools {ctx.invoked_subcommand} … --json")
        ctx.find_root().obj = {**(ctx.find_root().obj or {}), "home": str(home.root)}  # holds for it, too
        return Output(None, lambda: None)
    place = find_cluster(home)
    told = asyncio.run(ask_tools(place))
    rows, sources = make_tool_rows(told, place.snapshot), make_source_rows(told, place.snapshot)

    def show() -> None:
        print_rows(rows, _TOOLS, spare=("FROM", "REPEATABLE", "WORKERS", "APPROVAL"))
        if any(source["kind"] != "builtin" for source in sources):
            say()
            print_rows(sources, _SOURCES, coloured=1)
        for said in list_notes(rows, sources, place.snapshot):
            note(format_cell(said))

    return Output({"home": str(place.home.root), "tools": rows, "sources": sources}, show)


def list_notes(rows: Sequence[Row], sources: Sequence[Row], snapshot: Snapshot) -> Iterator[str]:
    """Yield what the tables do not say: tools kept from an agent, tools not taken, approvals that bind nothing."""
    for row in rows:
        yield from (explain_withheld(agent_id, row["tool_id"]) for agent_id in row["withheld_from"])
    for source in sources:
        yield from (f"{source['name']} at {_name_source(source)}: rejected: {refused}" for refused in source["refused"])
    for agent_id, agent in snapshot.agents.items():
        for name in agent.tools:
            if not any(is_meant(row["tool_id"], [name]) for row in rows):
                yield f"agent {agent_id}: tools: {name} matches none of these tools"
    for pattern in snapshot.config.tools.approval:
        if not any(is_meant(row["tool_id"], [pattern.partition(" if ")[0]]) for row in rows):
            yield f"tools.approval: {pattern} matches none of these tools"


async def ask_tools(place: Place) -> Tools:
    """Return what the broker was told. Raises BusError when it does not answer."""
    async with connect_bus(place, "operator") as bus:
        return await read_tools(bus, timeout_s=place.client_timeout_s)


def make_tool_rows(tools: Tools, snapshot: Snapshot) -> list[Row]:
    """Return every tool that some worker announces, and agents that others call, with what is configured of them.

    A stable shape.
    """
    agents = sorted(snapshot.agents.items())
    rows: list[Row] = [
        {name: getattr(row, name) for name in _OF_TOOL}
        | {
            "agents": [name for name, agent in agents if agent.may_use(row.tool_id, writes=row.writes)],
            "withheld_from": [name for name, agent in agents if agent.is_withheld(row.tool_id, writes=row.writes)],
        }
        for row in tools.tools
    ]
    for agent_id, agent in snapshot.agents.items():  # tools of others: run by supervisors, which no worker announces
        if callers := [name for name, one in agents if may_call(one, agent_id, snapshot.agents)]:
            told = (agent_id, "agent", describe_agent(agent), [], 0, True, True)
            rows.append(dict(zip(_OF_TOOL, told, strict=True)) | {"agents": callers, "withheld_from": []})
    for row in rows:
        row["needs_approval"] = needs_approval(snapshot.config.tools, row["tool_id"])
        row["approval_rules"] = list_approval_rules(
            snapshot.config.tools, row["tool_id"]
        )  # by which some calls need it
    return rows


def make_source_rows(tools: Tools, snapshot: Snapshot) -> list[Row]:
    """Return every source of every worker, and configured ones of which no worker tells (`worker` is empty)."""
    of_source = ("name", "kind", "state", "detail", "tools", "refused")
    told: list[Row] = [
        {"worker": one.instance, **{name: getattr(one, name) for name in of_source}} for one in tools.sources
    ]
    silent = {"kind": "mcp", "worker": "", "state": "failed", "detail": "no worker reports it", "tools": 0}
    known = {row["name"] for row in told}
    names = [name for name in snapshot.config.tools.mcp_servers if name not in known]
    return told + [{"name": name, **silent, "refused": []} for name in names]


def _name_source(source: Row) -> str:
    return str(source["worker"]).partition("@")[0]


def _workers(row: Row) -> str:
    names = [worker.partition("@")[0] for worker in row["workers"][:_WORKERS_SHOWN]]
    more = row["worker_count"] - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "") or "supervisors"


def _approval(row: Row) -> str:
    return "needed" if row["needs_approval"] else " or ".join(f"if {rule}" for rule in row["approval_rules"])


_TOOLS: Columns = {
    "TOOL": "tool_id", "FROM": "source", "WORKERS": _workers, "REPEATABLE": "idempotent", "WRITES": "writes",
    "APPROVAL": _approval, "AGENTS": lambda row: row["agents"] or "nobody",
}  # fmt: skip
_SOURCES: Columns = {"SOURCE": "name", "STATE": "state", "WORKER": _name_source, "TOOLS": "tools", "DETAIL": "detail"}
