"""What `hobus tools` lists, from the workers' words and the configuration."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.messages.control import SourceRow, ToolRow, Tools
from hobus.config.sections.tools import StdioServer
from hobus.launch.cli.commands.tool_call import check_arguments
from hobus.launch.cli.commands.tools import make_source_rows, make_tool_rows
from hobus.launch.cluster.home import make_home
from hobus.launch.console.errors import UsageFault
from hobus.launch.console.finding import DoctorFinding
from hobus.launch.launcher.tool_check import check_running

SHIPPED = shipped_snapshot()


def row(tool_id, *, writes, workers=("ho1/1@a",)):
    return ToolRow(
        tool_id=tool_id, source="s", description="d", parameters="{}", idempotent=not writes, writes=writes,
        workers=list(workers), worker_count=len(workers),
    )  # fmt: skip


def source(state, detail="", name="s", worker="ho1/1@a", *, refused=(), tools=0):
    return SourceRow(
        name=name, kind="mcp", state=state, detail=detail, refused=list(refused), instance=worker, tools=tools
    )


def snapshot(*, permitted, approval=()):
    """The shipped one, its agent with all tools of `s` and these permissions, two servers configured."""
    fields = {
        "transport": "stdio", "command": ["x"], "env": {}, "tools": None, "reads": [], "idempotent": [],
        "connect_timeout_ms": 1000, "timeout_ms": None, "per": "worker", "elsewhere": False,
    }  # fmt: skip
    servers = {name: StdioServer.model_validate(fields) for name in ("s", "silent")}
    agent = SHIPPED.agents["ADMIN"]
    permissions = agent.permissions.model_copy(update={"tools": permitted})
    agent = agent.model_copy(update={"tools": ("s__*",), "permissions": permissions})
    tools = SHIPPED.config.tools.model_copy(update={"mcp_servers": servers, "approval": list(approval)})
    config = SHIPPED.config.model_copy(update={"tools": tools})
    return replace(SHIPPED, config=config, agents={"ADMIN": agent})


def test_each_tool_says_who_may_use_it_and_what_waits_for_an_operator():
    """One that writes needs its exact name; patterns of tools.approval count."""
    told = Tools(
        epoch="e", tools=[row("s__a", writes=False), row("s__b", writes=True), row("s__c", writes=True)], sources=[]
    )
    rows = make_tool_rows(told, snapshot(permitted=("s__*", "s__c"), approval=("s__[bc]",)))
    assert [(one["tool_id"], one["agents"], one["needs_approval"]) for one in rows] == [
        ("s__a", ["ADMIN"], False),
        ("s__b", [], True),
        ("s__c", ["ADMIN"], True),
    ]


def test_an_agent_that_others_call_is_among_the_tools():
    there = snapshot(permitted=("DESK",), approval=("DESK",))
    admin = there.agents["ADMIN"].model_copy(update={"tools": ("DESK",)})
    desk = admin.model_copy(update={"agent_id": "DESK", "tools": (), "system_prompt": "You book.\nPolitely."})
    there = replace(there, agents={"ADMIN": admin, "DESK": desk})
    rows = make_tool_rows(Tools(epoch="e", tools=[], sources=[]), there)
    assert [(one["tool_id"], one["source"], one["agents"], one["needs_approval"]) for one in rows] == [
        ("DESK", "agent", ["ADMIN"], True)
    ]
    assert "You book." in rows[0]["description"]


def test_each_source_counts_its_tools_and_a_silent_one_is_said():
    """Of a server that is configured and that no worker tells of, that is what is known."""
    told = Tools(
        epoch="e",
        tools=[row("s__a", writes=False)],
        sources=[source("ready", tools=1), source("failed", "gone", worker="ho1/2@a")],
    )
    rows = make_source_rows(told, snapshot(permitted=("*",)))
    assert [tuple(one[name] for name in ("name", "worker", "state", "tools", "detail")) for one in rows] == [
        ("s", "ho1/1@a", "ready", 1, ""),
        ("s", "ho1/2@a", "failed", 0, "gone"),
        ("silent", "", "failed", 0, "no worker reports it"),
    ]


def test_doctor_says_each_trouble_once_with_all_who_have_it(tmp_path):
    told = Tools(
        epoch="e",
        tools=[],
        sources=[
            source("failed", "gone"),
            source("failed", "gone", worker="ho1/2@a"),
            source("ready", "s 1.0", name="t", refused=["x: bad"]),
        ],
    )
    found = check_running(told, make_home(tmp_path))
    assert all(isinstance(one, DoctorFinding) and one.verdict == "warn" and "tools" in one.fix for one in found)
    assert [(one.check, one.detail) for one in found] == [
        ("tools of s", "gone (at ho1/1, ho1/2)"),
        ("tools of t", "rejected: x: bad (at ho1/1)"),
    ]


def test_arguments_of_a_call_are_checked_and_a_default_need_not_be_written():
    schema = {
        "properties": {"a": {"type": "integer", "default": 1}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }
    tool = row("x", writes=False).model_copy(update={"parameters": json.dumps(schema)})
    known = Tools(epoch="e", tools=[tool], sources=[])
    assert check_arguments("x", '{"b": 2}', known) == {"a": 1, "b": 2}
    for name, text, said in (
        ("x", "{}", r"required, missing b$"),
        ("x", "21", "are not a JSON object: 21"),
        ("y", "{}", "there is no tool y; there are x"),
    ):
        with pytest.raises(UsageFault, match=said):
            check_arguments(name, text, known)
