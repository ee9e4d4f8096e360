"""What must hold of the tools in the configuration: plain functions, every fault in words with the fix. Pure.

What only a machine can tell (is the command there, does the entry point load) is `hobus doctor`'s and `hobus up`'s.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from hobus.bus.messages.control import SEPARATOR
from hobus.bus.tool import parse_entry_point
from hobus.config.assets import AgentFile
from hobus.config.called_agents import call_faults
from hobus.config.secret_refs import is_secret_name, is_secret_ref, looks_secret, secret_argument, secret_in_query
from hobus.config.sections.tools import HttpServer, McpServerConfig, ToolsConfig

TOOL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every model provider takes as the name of a tool."""
_TARGET = re.compile(r"(/[^\0]+\.py|[A-Za-z_][A-Za-z0-9_.]*):[A-Za-z_][A-Za-z0-9_.]*")

OWN_SOURCES = ("builtin", "python")
"""Where tools come from that are no server's."""

BUILTIN_TOOLS = (
    "budget_status", "cluster_status", "list_files", "list_frameworks", "list_packages", "list_specs", "list_tools",
    "query_ledger", "read_file", "run_gates", "search", "session_cost", "show_config", "verify_ledger",
)  # fmt: skip
"""Tools of every cluster (actors/ho1_executor/tools/registry.py)."""

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t -~]*")
_ENV_NAME = re.compile(r"[^=\0]+")
_ENV_VALUE = re.compile(r"[^\0]*")
_SERVER_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")


def is_meant(tool: str, listed: Sequence[str]) -> bool:
    """Return whether a server's tool is one of those listed, by its name or a shell pattern."""
    return any(tool == one or fnmatchcase(tool, one) for one in listed)


def find_tool_faults(tools: ToolsConfig, agents: Mapping[str, AgentFile]) -> list[str]:
    """Return every fault of section `tools`, and of agents that name a tool of a server that nobody configured."""
    return [
        *_find_entry_point_faults(tools),
        *_find_rule_faults(tools),
        *_find_profile_faults(tools),
        *(fault for name, server in tools.mcp_servers.items() for fault in _find_server_faults(name, server)),
        *_find_agent_faults(tools, agents),
        *call_faults(tools, agents),
    ]


def _find_entry_point_faults(tools: ToolsConfig) -> Iterator[str]:
    names = [parse_entry_point(entry)[0] for entry in tools.entry_points]
    for number, (name, entry) in enumerate(zip(names, tools.entry_points, strict=True)):
        target = parse_entry_point(entry)[1]
        if TOOL_ID.fullmatch(name) is None or SEPARATOR in name:
            yield (
                f"tools.entry_points: {name!r}: a tool's name has 1 to 64 letters, digits, `-` and single `_`; "
                "rename it"
            )
        elif _TARGET.fullmatch(target) is None:
            yield (
                f"tools.entry_points.{number}: {entry[:80]!r} is no `name = /path/to/file.py:function`; "
                "write the whole path of a Python file, or its module's name in a package, and the function in it"
            )
        elif name in names[:number]:
            yield f"tools.entry_points.{number}: {name!r} is named twice; remove one"


def _find_rule_faults(tools: ToolsConfig) -> Iterator[str]:
    for pattern, rule in tools.approval_rules:
        if rule not in tools.python_tools:
            yield f"tools.approval: {pattern} if {rule}: {rule!r} is none of tools.entry_points; add it there"


def _find_profile_faults(tools: ToolsConfig) -> Iterator[str]:
    if tools.mcp_profile not in tools.mcp_profiles:
        known = ", ".join(tools.mcp_profiles) or "none"
        named = tools.mcp_profile[:40]
        yield f"tools.mcp_profile: there is no profile {named!r} in tools.mcp_profiles; there are {known}"


def _find_server_faults(name: str, server: McpServerConfig) -> Iterator[str]:
    path = f"tools.mcp_servers.{name[:64]}"
    if _SERVER_NAME.fullmatch(name) is None or name in OWN_SOURCES:
        yield f"{path}: a server's name has 1 to 32 of a-z, 0-9, `-`, begins with a letter, is not builtin or python"
    for listed in ("reads", "idempotent"):
        tools = server.tools
        named = getattr(server, listed) if tools is not None else ()
        unknown = [one for one in named if one != "*" and not any(is_meant(tool, [one]) for tool in tools or ())]
        if unknown:
            yield f"{path}.{listed}: {unknown[0]!r} is not in its `tools`; add it there or remove it here"
    if isinstance(server, HttpServer):
        if fault := _find_url_fault(server.url):
            yield f"{path}.url: {fault}"
    else:
        yield from _find_command_faults(f"{path}.command", server.command)
    yield from _find_value_faults(path, server)


def _find_command_faults(path: str, command: Sequence[str]) -> Iterator[str]:
    if not command[0].strip():
        yield f"{path}.0: blank text; name the program"
    if secret_argument(command[1:]):
        yield (
            f"{path}: an argument looks like a secret, which every user of the machine could read; "
            "give it in env, as `env:NAME` or `file:PATH`"
        )
    if any("\0" in word for word in command):
        yield f"{path}: a zero character; no program can be given one"


def _find_value_faults(path: str, server: McpServerConfig) -> Iterator[str]:
    """Yield faults of a process's environment, or of the headers to a URL."""
    if isinstance(server, HttpServer):
        kind, values, name_rule, value_rule = "headers", server.headers, _HEADER_NAME, _HEADER_VALUE
    else:
        kind, values, name_rule, value_rule = "env", server.env, _ENV_NAME, _ENV_VALUE
    for key, value in values.items():
        if name_rule.fullmatch(key) is None:
            yield f"{path}.{kind}: {key[:64]!r} is not a name that {kind} can have; rename it"
        if value_rule.fullmatch(value) is None:
            yield f"{path}.{kind}.{key[:64]}: a character that no value of {kind} can have; take it out"
        if (is_secret_name(key) or looks_secret(value)) and not is_secret_ref(value):
            yield f"{path}.{kind}.{key[:64]}: a secret must not stand here; write `env:NAME` or `file:PATH`"


def _find_url_fault(url: str) -> str:
    expected = "expected http://HOST/PATH or https://HOST/PATH"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # half an IPv6 address, a port that is none
        return expected
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return expected
    if parts.username or parts.password:
        return "holds a user or password; put it into headers as `env:NAME` or `file:PATH`"
    if looks_secret(url) or secret_in_query(url):
        return "holds what looks like a secret; put it into headers as `env:NAME` or `file:PATH`"
    return ""


def _find_agent_faults(tools: ToolsConfig, agents: Mapping[str, AgentFile]) -> Iterator[str]:
    known = (*BUILTIN_TOOLS, *tools.python_tools, *agents)
    for agent_id, agent in agents.items():
        for tool in agent.tools:
            path = f"agents/{agent_id}.json: tools: {tool!r}"
            server, separator, _ = tool.partition(SEPARATOR)
            if separator and server not in tools.mcp_servers:
                there = ", ".join(tools.mcp_servers) or "none"
                yield f"{path}: no MCP server {server!r}, there are {there}; add it to mcpServers, or name another"
            elif not separator and tool not in known and tool != "*":
                yield f"{path}: there is no such tool or agent; {_suggest_name(tool, known)}"


def _suggest_name(name: str, known: Collection[str]) -> str:
    """Return what to write in place of an unknown name: the nearest one, else any."""
    by_word = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), by_word, n=1)
    return (
        f"did you mean {by_word[near[0]]!r}?"
        if near
        else (f"name one of {', '.join(known)}, or list a function with @tool itself (in JSON: tools.entry_points)")
    )
