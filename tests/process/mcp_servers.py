"""Real MCP servers for process tests, and a cluster whose agent may use them. Nothing is downloaded by a test."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.builders import write_config
from bench.cluster import Cluster
from hobus.config.snapshot import load_snapshot

EVERYTHING = "HOBUS_TEST_MCP_EVERYTHING"
"""Names the reference everything server's `index.js`; else it is looked for beside the virtual environment."""

SCRIPTED = Path(__file__).with_name("scripted_mcp_server.py")
ROOT = Path(__file__).parents[2]


def stdio(*command: str, **changes: Any) -> dict[str, Any]:
    """The configuration of one server; what it has is held to write unless `reads` says otherwise."""
    server: dict[str, Any] = {
        "transport": "stdio",
        "command": list(command),
        "env": {},
        "tools": None,
        "reads": [],
        "idempotent": [],
        "connect_timeout_ms": 20_000,
        "timeout_ms": None,
        "per": "worker",
        "elsewhere": False,
    }
    return server | changes


def http(url: str, **changes: Any) -> dict[str, Any]:
    server = stdio("", **{"transport": "http", "url": url, "headers": {}, **changes})
    return {name: value for name, value in server.items() if name not in ("command", "env")}


def scripted(directory: Path, **changes: Any) -> dict[str, Any]:
    """The server of `scripted_mcp_server.py`, which leaves its marks in `directory`."""
    return stdio(sys.executable, str(SCRIPTED), str(directory), **changes)


def time_server(**changes: Any) -> dict[str, Any]:
    return stdio(str(Path(sys.executable).with_name("mcp-server-time")), **{"reads": ["*"], **changes})


def everything_server(*transport: str) -> list[str]:
    node = shutil.which("node")
    package = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    script = Path(os.environ.get(EVERYTHING) or Path(sys.prefix) / "mcp-node" / package)
    if node is None:
        pytest.skip("no node on this machine: the reference everything server needs it")
    if not script.is_file():
        pytest.skip(f"the reference everything server is not at {script}; {EVERYTHING} may name its index.js")
    return [node, str(script), *(transport or ("stdio",))]


def configure(
    cluster: Cluster, servers: dict[str, Any], *, tools: list[str], permitted: list[str], **settings: Any
) -> list[str]:
    """Words for `up`: a cluster with these servers, whose agent has `tools` and the permissions `permitted`."""
    agent = load_snapshot().agents["ADMIN"].model_dump(mode="json")
    agent["tools"] = [*agent["tools"], *tools]
    agent["permissions"]["tools"] = [*agent["permissions"]["tools"], *permitted]
    agents = cluster.home.config / "agents"
    agents.mkdir(parents=True, exist_ok=True)
    (agents / "ADMIN.json").write_text(json.dumps(agent), encoding="utf-8")
    changes = [(name.replace("__", "."), value) for name, value in settings.items()]
    config = write_config(cluster.home.root / "tested.json", ("tools.mcp_servers", servers), *changes)
    return ["--config", str(config)]


def use(tool_id: str, **arguments: Any) -> str:
    return f"use {tool_id} {json.dumps(arguments)}"
