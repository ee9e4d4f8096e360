"""An executor with its tool processes."""

from __future__ import annotations

from collections.abc import Mapping

from hobus.actors.ho1_executor.actor import Executor
from hobus.actors.ho1_executor.file_reads import FileReads
from hobus.actors.ho1_executor.tools.children import ChildToolRunner
from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.actors.ho1_executor.tools.sources import ToolSources
from hobus.actors.ho1_executor.tools.table import ToolTable, make_builtin_view
from hobus.bus.clock import SystemClock
from hobus.config.sections.tools import McpServerConfig
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import is_home
from hobus.launch.process.roles import Made

VERIFIER = "hobus.ledger_service.verify:VERIFIER"
WHOLE_VERIFIER = "hobus.ledger_service.verify:verify_directory"
GATES = "hobus.launch.launcher.gates:report_of"
"""What the tools that check record and files run, by name: an actor imports no service."""


def make(place: Place) -> Made:
    config = place.snapshot.config
    return _make(
        place.snapshot,
        BUILTIN,
        servers=config.tools.mcp_servers,
        slots=config.ho1.orders_max,
        checks={
            "verify_ledger": (VERIFIER, str(place.home.ledger)),
            "verify_whole_ledger": (WHOLE_VERIFIER, str(place.home.ledger)),
            "run_gates": (GATES, str(place.home.root)),
        },
        files=FileReads(closed=(str(place.home.root),), is_home=is_home),
    )


def warm(snapshot: Snapshot) -> None:
    """Make in the zygote the snapshot as tools see it."""
    make_builtin_view(snapshot)


def make_elsewhere(snapshot: Snapshot, *, slots: int | None) -> Made:
    """Make the executor on another host: without the tools that read the record's files, and without files."""
    tools = {tool_id: tool for tool_id, tool in BUILTIN.items() if not tool.needs_home}
    servers = {name: server for name, server in snapshot.config.tools.mcp_servers.items() if server.elsewhere}
    return _make(snapshot, tools, servers=servers, slots=slots or snapshot.config.ho1.orders_max, checks={})


def _make(  # noqa: PLR0913 - what a worker has of its machine
    snapshot: Snapshot,
    tools: Mapping[str, ToolDefinition],
    *,
    servers: Mapping[str, McpServerConfig],
    slots: int,
    checks: Mapping[str, tuple[str, str]],
    files: FileReads | None = None,
) -> Made:
    """Make an executor whose tool processes run before there is a socket that they could inherit."""
    config = snapshot.config
    children = ChildToolRunner(
        config.tools,
        tools=tools,
        view=make_builtin_view(snapshot),
        checks=checks,
    )
    children.start()
    table = ToolTable(BUILTIN)  # prompts tell of every built-in tool, wherever it runs
    runner = ToolSources(
        children=children,
        table=table,
        servers=servers,
        limits=config.tools,
        random=SystemClock().random,
    )
    actor = Executor(snapshot, runner, table, files)
    return Made(
        actor, slots=slots, tools=children.available(), begin=runner.begin, give=runner.give, close=runner.close
    )
