"""Faults of the tools in a configuration, each with its fix."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.config.parse import check_model
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import load_snapshot
from hobus.config.tool_faults import BUILTIN_TOOLS, find_tool_faults

SNAPSHOT = load_snapshot()
STDIO = {
    "transport": "stdio", "command": ["x"], "env": {}, "tools": None, "reads": [], "idempotent": [],
    "connect_timeout_ms": 1000, "timeout_ms": None, "per": "worker", "elsewhere": False,
}  # fmt: skip
HTTP = {name: value for name, value in STDIO.items() if name not in ("command", "env")} | {
    "transport": "http", "url": "https://example.org/mcp", "headers": {},
}  # fmt: skip


def faults(servers: dict[str, Any], entry_points: tuple[str, ...] = (), agent_tools: tuple[str, ...] = ()) -> list[str]:
    """Of a configuration with these."""
    value = SNAPSHOT.config.model_dump(mode="json")
    value["tools"] |= {"mcp_servers": servers, "entry_points": list(entry_points)}
    config, found = check_model(AdminConfig, value, strict=True)
    if config is None:
        return found
    agent = SNAPSHOT.agents["ADMIN"]
    agents = {"ADMIN": agent.model_copy(update={"tools": (*agent.tools, *agent_tools)})}
    return find_tool_faults(config.tools, agents)


def test_what_is_right_has_no_fault():
    servers = {
        "files": STDIO | {"env": {"API_TOKEN": "env:TOKEN", "LANG": "C"}, "tools": ["ab"], "reads": ["ab", "a*", "*"]},
        "far-1": HTTP | {"headers": {"Authorization": "file:/k"}},
    }
    assert faults(servers, ("greet = /a/b.py:greet", "a-b_c = m.n:f"), ("files__*", "far-1__x")) == []


@pytest.mark.parametrize(
    ("servers", "part"),
    [
        ({"Files": STDIO}, "a server's name"),
        ({"a__b": STDIO}, "a server's name"),
        ({"builtin": STDIO}, "a server's name"),
        ({"x" * 33: STDIO}, "a server's name"),
        ({"a": STDIO | {"command": [" "]}}, "a.command.0"),
        ({"a": STDIO | {"command": []}}, "a.command"),
        ({"a": STDIO | {"url": "x"}}, "unknown key"),
        ({"a": STDIO | {"transport": "carrier pigeon"}}, "tools.mcp_servers.a"),
        ({"a": STDIO | {"tools": ["x"], "reads": ["y*"]}}, "'y*' is not in its `tools`"),
        ({"a": STDIO | {"env": {"GITHUB_TOKEN": "ghp_123"}}}, "a.env.GITHUB_TOKEN: a secret must not stand here"),
        ({"a": HTTP | {"headers": {"Authorization": "Bearer 1"}}}, "a.headers.Authorization: a secret"),
        ({"a": HTTP | {"headers": {"X-Api-Key": "1"}}}, "a.headers.X-Api-Key: a secret"),
        ({"a": HTTP | {"url": "ftp://x"}}, "a.url: expected http"),
        ({"a": HTTP | {"url": "http://[::1/"}}, "a.url: expected http"),
        ({"a": HTTP | {"url": "http://x:99999/"}}, "a.url: expected http"),
        ({"a": HTTP | {"headers": {"X A:": "1"}}}, "a.headers: 'X A:' is not a name"),
        ({"a": HTTP | {"headers": {"X-A": "1\r\nB: 2"}}}, "a.headers.X-A: a character"),
        ({"a": HTTP | {"headers": {"X-A": "\u20ac"}}}, "a.headers.X-A: a character"),
        ({"a": STDIO | {"env": {"A=B": "1"}}}, "a.env: 'A=B' is not a name"),
        ({"a": STDIO | {"env": {"": "1"}}}, "a.env: '' is not a name"),
        ({"a": STDIO | {"env": {"A": "1\0"}}}, "a.env.A: a character"),
        ({"a": STDIO | {"command": ["x", "\0"]}}, "a.command: a zero character"),
        ({"a": HTTP | {"url": "https://me:pw@x/"}}, "a.url: holds a user or password"),
    ],
)
def test_each_fault_of_a_server_names_its_place_and_no_value(servers, part):
    (fault,) = faults(servers)
    assert part in fault
    assert "ghp_123" not in fault
    assert "pw@" not in fault


@pytest.mark.parametrize(
    "names",
    [("a b = m:f",), ("a__b = m:f",), (" = m:f",), ("x" * 65 + " = m:f",), ("a = m:f", "a = m:g"), ("a",), ("a = m",)],
)
def test_names_of_entry_points_are_names_of_tools(names):
    (fault,) = faults({}, names)
    assert fault.startswith("tools.entry_points")


def test_an_agent_names_only_tools_of_servers_that_are_there():
    (fault,) = faults({"files": STDIO}, (), ("fils__read",))
    assert "no MCP server 'fils', there are files; add it" in fault


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("wether", "did you mean 'weather'?"),
        ("WEATHER", "did you mean 'weather'?"),
        ("search_", "did you mean 'search'?"),
        ("admin", "did you mean 'ADMIN'?"),
        ("THREE", "name one of budget_status, "),
    ],
)
def test_a_misspelt_tool_is_told_with_the_nearest_name(named: str, said: str):
    names = ("weather = m:weather",)
    (fault,) = faults({}, names, (named, "weather", "list_tools", "*"))
    assert fault.startswith(f"agents/ADMIN.json: tools: {named!r}: there is no such tool or agent; {said}")


def test_the_built_in_tools_are_those_that_the_configuration_knows():
    """One list for who checks names, one registry for who runs them."""
    assert tuple(BUILTIN) == BUILTIN_TOOLS
