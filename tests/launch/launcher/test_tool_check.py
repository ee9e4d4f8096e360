"""What can be seen of a server before anything is started."""

from __future__ import annotations

import sys

import pytest

from bench.builders import shipped_snapshot
from hobus.config.sections.tools import HttpServer, StdioServer
from hobus.launch.launcher.tool_check import check_configured, find_server_faults

COMMON = {
    "tools": None,
    "reads": [],
    "idempotent": [],
    "connect_timeout_ms": 1000,
    "timeout_ms": None,
    "per": "worker",
    "elsewhere": False,
}


def stdio(command, **env):
    return StdioServer.model_validate(COMMON | {"transport": "stdio", "command": [command], "env": env})


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (stdio("no-such-program-anywhere"), "no-such-program-anywhere is not there"),
        (stdio("sh", PATH="/nowhere"), "sh is not there"),
        (stdio(sys.executable, KEY="env:NOT_SET_ANYWHERE"), "NOT_SET_ANYWHERE, which is not set"),
        (stdio(sys.executable, KEY="file:/nowhere/key"), "/nowhere/key, which cannot be read"),
        (
            HttpServer.model_validate(
                COMMON | {"transport": "http", "url": "http://x/", "headers": {"Authorization": "env:NOT_SET_ANYWHERE"}}
            ),
            "NOT_SET_ANYWHERE",
        ),
    ],
)
def test_what_is_missing_is_named_with_its_fix(server, said):
    ((what, fix),) = find_server_faults(server)
    assert said in what
    assert fix


def test_findings_of_a_whole_configuration():
    """One per server; nothing where nothing is configured."""
    config = shipped_snapshot().config
    assert check_configured(config) == []
    servers = {"good": stdio(sys.executable), "bad": stdio("no-such-program-anywhere")}
    found = check_configured(
        config.model_copy(update={"tools": config.tools.model_copy(update={"mcp_servers": servers})})
    )
    assert [(one.check, one.verdict) for one in found] == [("mcp good", "ok"), ("mcp bad", "fail")]
