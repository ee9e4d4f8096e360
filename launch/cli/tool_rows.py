"""Tools as `hobus tools` lists them: the workers' words beside the configuration's. Pure."""

from __future__ import annotations

from pydantic import Field

from hobus.bus.messages.base import Record
from hobus.bus.messages.control import Tools
from hobus.config.assets import Agent, needs_approval
from hobus.config.snapshot import Snapshot


class ToolLine(Record):
    """One tool; the shape of `--json` is stable."""

    tool_id: str
    source: str = Field(description="`builtin`, `python`, or an MCP server")
    description: str
    workers: list[str] = Field(description="instances that can run it now, the first of them if many")
    worker_count: int = Field(description="how many can")
    idempotent: bool
    writes: bool
    needs_approval: bool = Field(description="its calls wait for an operator (tools.approval)")
    agents: list[str] = Field(description="who may use it")


class SourceLine(Record):
    """One source of tools at one worker."""

    name: str
    kind: str
    worker: str = Field(description="instance; empty: no worker tells of it")
    state: str
    detail: str
    tools: int
    refused: list[str]


def tool_lines(tools: Tools, snapshot: Snapshot) -> list[ToolLine]:
    """Every tool that some worker announces."""
    return [
        ToolLine(
            tool_id=row.tool_id,
            source=row.source,
            description=row.description,
            workers=row.workers,
            worker_count=row.worker_count,
            idempotent=row.idempotent,
            writes=row.writes,
            needs_approval=needs_approval(snapshot.config.tools, row.tool_id),
            agents=users_of(row.tool_id, snapshot, writes=row.writes),
        )
        for row in tools.tools
    ]


def source_lines(tools: Tools, snapshot: Snapshot) -> list[SourceLine]:
    """Every source of every worker, and configured ones of which no worker tells."""
    lines = [
        SourceLine(
            name=source.name,
            kind=source.kind,
            worker=source.instance,
            state=source.state,
            detail=source.detail,
            tools=source.tools,
            refused=source.refused,
        )
        for source in tools.sources
    ]
    told = {line.name for line in lines}
    silent = [name for name in snapshot.config.tools.mcp_servers if name not in told]
    return lines + [
        SourceLine(
            name=name, kind="mcp", worker="", state="failed", detail="no worker tells of it", tools=0, refused=[]
        )
        for name in silent
    ]


def users_of(tool_id: str, snapshot: Snapshot, *, writes: bool) -> list[str]:
    """Agents that may use it, sorted."""
    agents: dict[str, Agent] = dict(snapshot.agents)
    return sorted(agent_id for agent_id, agent in agents.items() if agent.may_use(tool_id, writes=writes))
