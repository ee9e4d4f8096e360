"""`hobus tools`: every tool of the running cluster, where it comes from, and who may use it."""

from __future__ import annotations

import asyncio

import click

from hobus.bus.messages.control import Tools
from hobus.bus.paging import read_tools
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cli.tool_rows import SourceLine, ToolLine, source_lines, tool_lines
from hobus.launch.cluster.client import connected, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import running
from hobus.launch.console import exit_codes
from hobus.launch.console.output import as_json, cell, note, say, table

_WORKERS_SHOWN = 8


@click.command()
@click.option("--json", "as_json_", is_flag=True, help="One JSON object.")
@with_home
def tools(*, home: Home, as_json_: bool) -> int:
    """List every tool, its workers, whether it writes, and which agents may use it; say which servers are missing."""
    place = place_of(home, running(home))
    told = asyncio.run(tools_of(place))
    lines, sources = tool_lines(told, place.snapshot), source_lines(told, place.snapshot)
    if as_json_:
        document = {
            "home": str(home.root),
            "tools": [line.model_dump() for line in lines],
            "sources": [line.model_dump() for line in sources],
        }
        say(as_json(document, indent=1))
        return exit_codes.OK
    table(("TOOL", "FROM", "WORKERS", "REPEATABLE", "WRITES", "APPROVAL", "AGENTS"), [_cells(line) for line in lines])
    if any(source.kind != "builtin" for source in sources):
        say()
        table(("SOURCE", "STATE", "WORKER", "TOOLS", "DETAIL"), [_source_cells(one) for one in sources], coloured=1)
    for source in sources:
        for refused in source.refused:
            note(cell(f"{source.name} at {source.worker.partition('@')[0]}: not taken: {refused}"))
    return exit_codes.OK


async def tools_of(place: Place) -> Tools:
    """What the broker was told. Raises BusError when it does not answer."""
    timeout_s = place.snapshot.config.launcher.client_timeout_ms / 1000
    async with connected(place, "operator") as bus:
        return await read_tools(bus, timeout_s=timeout_s)


def _cells(line: ToolLine) -> tuple[str, ...]:
    return (
        line.tool_id,
        line.source,
        _workers(line),
        "yes" if line.idempotent else "no",
        "yes" if line.writes else "no",
        "needed" if line.needs_approval else "-",
        ", ".join(line.agents) or "nobody",
    )


def _workers(line: ToolLine) -> str:
    names = [worker.partition("@")[0] for worker in line.workers[:_WORKERS_SHOWN]]
    more = line.worker_count - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _source_cells(source: SourceLine) -> tuple[str, ...]:
    worker = source.worker.partition("@")[0] or "-"
    return source.name, source.state, worker, str(source.tools), source.detail
