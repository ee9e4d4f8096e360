"""`hobus tools`: every tool of the running cluster, where it comes from, and who may use it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from hobus.bus.clock import SystemClock
from hobus.bus.messages.control import Tools
from hobus.bus.messages.ids import shown_session
from hobus.bus.messages.session import ProcessTurn, SessionConfig
from hobus.bus.paging import read_tools
from hobus.config.assets import needs_approval, why_withheld
from hobus.config.snapshot import Snapshot
from hobus.config.tool_faults import is_meant
from hobus.launch.cli import tool_call
from hobus.launch.cli.chat.outcome import RUN_WAITING, exit_code_of
from hobus.launch.cli.commands.cluster_options import known_agent, seconds_to_wait, with_agent, with_cluster
from hobus.launch.cli.commands.options import DURATION, Family, Output, with_json
from hobus.launch.cli.tool_call import Called
from hobus.launch.cluster.client import cluster_of, connected
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, next_here, same_command
from hobus.launch.console.output import as_json, cell, note, note_coloured, printable, say, table
from hobus.launch.sessions.tool_texts import words_of as words_of_tool
from hobus.launch.sessions.turns import words_of

_WORKERS_SHOWN = 8
Row = dict[str, Any]


@click.group(cls=Family, invoke_without_command=True)
@with_json
def tools(*, home: Home) -> Output:
    """List every tool, its workers, whether it writes, and which agents may use it; say which servers are missing.

    `hobus tools call` runs one.
    """
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is not None:
        if ctx.params["_as_json"]:
            raise UsageFault(f"--json stands behind the subcommand: hobus tools {ctx.invoked_subcommand} … --json")
        ctx.find_root().obj = {**(ctx.find_root().obj or {}), "home": str(home.root)}  # holds for it, too
        return Output(None, lambda: None)
    place = cluster_of(home)
    told = asyncio.run(tools_of(place))
    rows, sources = tool_rows(told, place.snapshot), source_rows(told, place.snapshot)

    def show() -> None:
        headings = ("TOOL", "FROM", "WORKERS", "REPEATABLE", "WRITES", "APPROVAL", "AGENTS")
        table(headings, [_cells(row) for row in rows], spare=("FROM", "REPEATABLE", "WORKERS", "APPROVAL"))
        if any(source["kind"] != "builtin" for source in sources):
            say()
            shown = [
                (row["name"], row["state"], _name(row) or "-", str(row["tools"]), row["detail"]) for row in sources
            ]
            table(("SOURCE", "STATE", "WORKER", "TOOLS", "DETAIL"), shown, coloured=1)
        for said in _notes(rows, sources, place.snapshot):
            note(cell(said))

    return Output({"home": str(place.home.root), "tools": rows, "sources": sources}, show)


def _notes(rows: Sequence[Row], sources: Sequence[Row], snapshot: Snapshot) -> Iterator[str]:
    """What the tables do not say: tools kept from an agent, tools not taken, approvals that bind nothing."""
    for row in rows:
        yield from (why_withheld(agent_id, row["tool_id"]) for agent_id in row["withheld_from"])
    for source in sources:
        yield from (f"{source['name']} at {_name(source)}: rejected: {refused}" for refused in source["refused"])
    for pattern in snapshot.config.tools.approval:
        if not any(is_meant(row["tool_id"], [pattern]) for row in rows):
            yield f"tools.approval: {pattern} means none of these tools"


@tools.command(name="call")
@click.argument("tool_id", metavar="NAME")
@click.argument("arguments", metavar="[JSON]", default="{}")
@with_agent
@click.option("--timeout", "timeout_s", type=DURATION, help="How long to wait, e.g. 90 or 2m.")
@click.option("--input-id", metavar="ID", help="Idempotency key of this call; the same key never runs it twice.")
@click.option("--save", metavar="DIR", type=click.Path(path_type=Path), help="Where the files that it brings go.")
@with_json
@with_cluster
def call_tool(  # noqa: PLR0913 - one per option
    *,
    place: Place,
    tool_id: str,
    arguments: str,
    agent: str | None,
    timeout_s: float | None,
    input_id: str | None,
    save: Path | None,
) -> Output:
    """Call one tool as its agent would, without a model; JSON `-` reads standard input, without it {} is given.

    It is an order of the cluster as any other: permissions and approvals hold, it is in the record, and it never runs
    twice. The result is printed; what the tool printed, and the traceback of what it raised, follow on stderr. Exit
    code 0 for a result, 1 if the tool failed, 5 if the call was refused, 4 while it waits for an approval.
    """
    config = place.snapshot.config
    known_agent(agent, place.snapshot, running_in=place.home)
    text = words_of(sys.stdin.read() if arguments == "-" else arguments)
    there = asyncio.run(tools_of(place))
    given = tool_call.checked_arguments(tool_id, text, there)
    may = next(row["agents"] for row in tool_rows(there, place.snapshot) if row["tool_id"] == tool_id)
    wait_s = seconds_to_wait(timeout_s, config, default_ms=config.host.turn_timeout_ms)
    input_id = input_id or SystemClock().new_id()
    turn = ProcessTurn(
        input_id=input_id,
        text=json.dumps(given, ensure_ascii=False),
        agent_id=agent,
        run_overrides=SessionConfig(calls_tool=tool_id),
    )
    try:
        called = asyncio.run(tool_call.call(place, turn, timeout_s=wait_s, folder=save))
    except KeyboardInterrupt:
        note(f"not waiting any more; the call goes on: the same again with --input-id {input_id} (it never runs twice)")
        raise
    show = partial(_show_called, called, tool_id, input_id, limit=config.tools.output_max_bytes, agent=agent, may=may)
    return Output(_called_document(tool_id, given, called), show, _exit_code(called))


def _called_document(tool_id: str, given: dict[str, Any], called: Called) -> Row:
    result, told = called.result, called.told
    return {
        "tool_id": tool_id,
        "arguments": given,
        "ok": not called.code,
        "code": called.code,
        "value": None if called.code else called.value,
        "truncated": None if told is None else told.truncated,
        "message": called.message if called.code else "",
        "files": [file.model_dump() for file, _data in called.files],
        "saved": called.saved,
        "printed": "" if told is None else told.printed,
        "traceback": "" if told is None else told.traceback,
        "tool_ms": None if told is None else told.elapsed_ms,
        "elapsed_ms": result.elapsed_ms,
        "session_id": result.session_id,
        "input_id": result.input_id,
    }


def _show_called(  # noqa: PLR0913 - what is said of a call
    called: Called, tool_id: str, input_id: str, *, limit: int, agent: str | None, may: list[str]
) -> None:
    """The result alone on stdout; the rest on stderr. A call without one ends the command as an error.

    `limit`: bytes of a result that is not cut; `agent`: whose tool it was to be, where that was said; `may`: agents
    that may use it.
    """
    if not called.code:
        value = called.value
        say(value if isinstance(value, str) else as_json(value, indent=1))
    if called.told is not None and called.told.truncated:
        note_coloured(f"the value is cut: it has more than {limit} bytes (tools.output_max_bytes)", "yellow")
    if called.files:
        where = ", ".join(called.saved) or "in the record; --save DIR writes them into a folder"
        note(f"files: {printable(where)}")
    for line in [] if called.told is None else words_of_tool(called.told):
        note(printable(line))
    if called.told is not None:
        took = (
            f"{called.told.tool or tool_id} · {called.told.elapsed_ms} ms · {shown_session(called.result.session_id)}"
        )
        note_coloured(took, "bright_black")
    if called.code:
        hint = f"the same again with --input-id {input_id}" if called.code == RUN_WAITING else ""
        if called.code == "tool_not_permitted":
            hint = _who_may(tool_id, may, is_named=agent is not None)
        raise CommandError(called.message, hint=hint, exit_code=_exit_code(called))


def _who_may(tool_id: str, may: list[str], *, is_named: bool) -> str:
    """What to do about a call that its agent may not make."""
    if not may:
        return f"no agent may use {tool_id}: {next_here('tools')}"
    return f"{', '.join(may)} may use it" if is_named else same_command("--agent", may[0])


def _exit_code(called: Called) -> int:
    if called.result.outcome != "success":
        return exit_code_of(called.result)
    if not called.code:
        return exit_codes.OK
    return exit_codes.REFUSED if called.code in tool_call.REFUSALS else exit_codes.FAILED


async def tools_of(place: Place) -> Tools:
    """What the broker was told. Raises BusError when it does not answer."""
    async with connected(place, "operator") as bus:
        return await read_tools(bus, timeout_s=place.client_timeout_s)


def tool_rows(tools: Tools, snapshot: Snapshot) -> list[Row]:
    """Every tool that some worker announces: the workers' words beside the configuration's; a stable shape."""
    return [
        {
            "tool_id": row.tool_id,
            "source": row.source,  # `builtin`, `python`, or an MCP server
            "description": row.description,
            "workers": row.workers,  # instances that can run it now, the first of them if many
            "worker_count": row.worker_count,
            "idempotent": row.idempotent,
            "writes": row.writes,
            "needs_approval": needs_approval(snapshot.config.tools, row.tool_id),
            "agents": sorted(
                agent_id for agent_id, agent in snapshot.agents.items() if agent.may_use(row.tool_id, writes=row.writes)
            ),
            "withheld_from": sorted(
                agent_id
                for agent_id, agent in snapshot.agents.items()
                if agent.is_withheld(row.tool_id, writes=row.writes)
            ),
        }
        for row in tools.tools
    ]


def source_rows(tools: Tools, snapshot: Snapshot) -> list[Row]:
    """Every source of every worker, and configured ones of which no worker tells (`worker` is empty)."""
    told: list[Row] = [
        {
            "name": one.name,
            "kind": one.kind,
            "worker": one.instance,
            "state": one.state,
            "detail": one.detail,
            "tools": one.tools,
            "refused": one.refused,
        }
        for one in tools.sources
    ]
    silent = {"kind": "mcp", "worker": "", "state": "failed", "detail": "no worker reports it", "tools": 0}
    known = {row["name"] for row in told}
    names = [name for name in snapshot.config.tools.mcp_servers if name not in known]
    return told + [{"name": name, **silent, "refused": []} for name in names]


def _name(source: Row) -> str:
    return str(source["worker"]).partition("@")[0]


def _cells(row: Row) -> tuple[str, ...]:
    names = [worker.partition("@")[0] for worker in row["workers"][:_WORKERS_SHOWN]]
    more = row["worker_count"] - len(names)
    return (
        row["tool_id"],
        row["source"],
        ", ".join(names) + (f" and {more} more" if more else ""),
        "yes" if row["idempotent"] else "no",
        "yes" if row["writes"] else "no",
        "needed" if row["needs_approval"] else "-",
        ", ".join(row["agents"]) or "nobody",
    )
