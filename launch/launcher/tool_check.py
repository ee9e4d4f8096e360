"""What a machine can tell of the tools in a configuration: are the commands there, the extra, the entry points.

For `hobus up`, which starts nothing with an entry point that is none, and `hobus doctor`, which tells everything.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hobus.actors.ho1_executor.limits import DEFINITION_MAX_BYTES
from hobus.bus.messages.control import SEPARATOR, Tools
from hobus.config.assets import explain_withheld
from hobus.config.schema import AdminConfig
from hobus.config.secret_refs import is_secret_ref
from hobus.config.sections.tools import HttpServer, McpServerConfig, ToolsConfig
from hobus.config.snapshot import Snapshot
from hobus.config.tool_faults import TOOL_ID
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import format_next_command
from hobus.launch.console.finding import DoctorFinding, fail, make_ok, warn
from hobus.launch.launcher.inherited import select_for_tools

_MODULE = "hobus.actors.ho1_executor.tools.entry_points"
_ENDED = "importing its package ended the process that did it; take out of the package what exits when it is imported"
OR_REMOVED = ", or remove it here"
_EXTRA = "pip install 'hobus[mcp]'"


def list_unloadable(config: AdminConfig, given: Mapping[str, str]) -> list[str]:
    """Return a fault for every entry point that is no tool, with its fix; what cannot be a name has one of its own."""
    return [
        f"tools.entry_points: {name!r}: {fault}{OR_REMOVED}"
        for name, (fault, _) in _map_entry_points(config, given).items()
        if fault and TOOL_ID.fullmatch(name) is not None and SEPARATOR not in name
    ]


def list_withheld(snapshot: Snapshot) -> list[str]:
    """Return which agents lack a tool of theirs that writes and only a wildcard permits; with the fix."""
    servers, found = snapshot.config.tools.mcp_servers, list[str]()
    writing = [name for name, (_, writes) in _map_entry_points(snapshot.config, {}).items() if writes]
    writing += [
        f"{name}{SEPARATOR}{tool}"
        for name, server in servers.items()
        for tool in server.tools or ()
        if not {tool, "*"} & set(server.reads)
    ]
    unlisted = [name for name, server in servers.items() if server.tools is None and "*" not in server.reads]
    for agent_id, agent in snapshot.agents.items():
        found += [explain_withheld(agent_id, name) for name in writing if agent.is_withheld(name, writes=True)]
        found += [
            f"{agent_id} is not given those tools of {name} that its `reads` does not name: they may change something, "
            f"and only a wildcard permits them; add their exact ids (hobus tools) to permissions.tools in "
            f"agents/{agent_id}.json, or what only reads to `reads`"
            for name in unlisted
            if agent.is_withheld(f"{name}{SEPARATOR}?", writes=True)  # of a tool that nobody can know yet
        ]
    return found


def _map_entry_points(config: AdminConfig, given: Mapping[str, str]) -> dict[str, tuple[str, bool]]:
    """Map each name to why it is no tool, empty if it is one, and whether it writes; loaded apart, as workers do.

    `given`: what this process was given of the environment besides its own.
    """
    tools = config.tools.python_tools
    found: dict[str, tuple[str, bool]] = {}
    while left := list(tools)[len(found) :]:
        loaded = _load_entries([tools[name] for name in left], config.tools, select_for_tools(config, given))
        found |= zip(left, loaded, strict=False)
    return found


def _load_entries(entries: list[str], tools: ToolsConfig, env: Mapping[str, str]) -> list[tuple[str, bool]]:
    """Load one after the other, up to the first that ends the process; of all, where they take too long."""
    command = [sys.executable, "-P", "-m", _MODULE, str(DEFINITION_MAX_BYTES), *entries]
    limit_s = tools.timeout_ms / 1000
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, this package's own module
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return [
            (f"they did not all load within {limit_s} s (tools.timeout_ms); make its package load sooner", False)
        ] * len(entries)
    found: list[tuple[str, bool]] = []
    with suppress(ValueError, RecursionError):
        found = [tuple(json.loads(line)) for line in done.stdout.splitlines()[: len(entries)]]
    return found if len(found) == len(entries) else [*found, (_ENDED, False)]


def check_configured(config: AdminConfig) -> list[DoctorFinding]:
    """Return findings on every server and entry point; nothing where none is configured."""
    tools, found = config.tools, list[DoctorFinding]()
    if tools.mcp_servers and importlib.util.find_spec("mcp") is None:
        found.append(fail("mcp", "the MCP SDK is not installed, and servers are configured", _EXTRA))
    for name, server in tools.mcp_servers.items():
        faults = find_server_faults(server)
        if not faults:
            reached = server.url if isinstance(server, HttpServer) else f"{server.command[0]} is there"
            found.append(make_ok(f"mcp {name}", reached))
        found += [fail(f"mcp {name}", said, fix) for said, fix in faults]
    for name, (fault, _) in _map_entry_points(config, {}).items():
        fix = f"fix that, or remove {name} from tools.entry_points"
        found.append(fail(f"tool {name}", fault, fix) if fault else make_ok(f"tool {name}", "loads"))
    return found


def find_server_faults(server: McpServerConfig) -> list[tuple[str, str]]:
    """Return what keeps a server from being reached, as far as can be seen without starting it: (what, fix)."""
    values = server.headers if isinstance(server, HttpServer) else server.env
    faults = [fault for name, value in values.items() if (fault := _find_reference_fault(name, value))]
    if not isinstance(server, HttpServer):
        program = server.command[0]
        if shutil.which(program, path=server.env.get("PATH")) is None:
            faults.insert(0, (f"the command {program} is not there, or may not be run", "install it, or give its path"))
    return faults


def check_running(tools: Tools, home: Home) -> list[DoctorFinding]:
    """Return sources of tools that are not in order at some worker, each once."""
    found: dict[tuple[str, str], list[str]] = {}
    for source in tools.sources:
        actor = source.instance.partition("@")[0]
        if source.state == "failed" and source.detail:
            found.setdefault((source.name, source.detail), []).append(actor)
        for refused in source.refused:
            found.setdefault((source.name, f"rejected: {refused}"), []).append(actor)
    return [
        warn(f"tools of {name}", f"{said} (at {', '.join(actors)})", format_next_command("tools", home.root))
        for (name, said), actors in found.items()
    ]


def _find_reference_fault(name: str, value: str) -> tuple[str, str] | None:
    if not is_secret_ref(value):
        return None
    kind, _, where = value.partition(":")
    if kind == "env" and where not in os.environ:
        fix = "set it where `hobus up` is called"
        return f"{name} refers to the environment variable {where}, which is not set here", fix
    if kind == "file" and not os.access(Path(where).expanduser(), os.R_OK):
        return f"{name} refers to the file {where}, which cannot be read", "create it, readable for this user"
    return None
