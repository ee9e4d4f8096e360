"""The snapshot as tools see it: plain values, sorted, secrets hidden. Made once per worker, not in tool processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.config.assets import Agent
from hobus.config.secret_refs import redacted
from hobus.config.snapshot import Snapshot


def snapshot_view(snapshot: Snapshot, tools: Mapping[str, ToolDefinition]) -> dict[str, Any]:
    """digest, packages, frameworks, tools, agent_tools (agent id -> tool ids), config."""
    return {
        "digest": snapshot.digest,
        "packages": _rows(snapshot.packages, "package_id", "version", "title", "framework_id"),
        "frameworks": _rows(snapshot.frameworks, "framework_id", "version", "title", "status"),
        "tools": _rows(tools, "tool_id", "description", "idempotent"),
        "agent_tools": {agent_id: permitted_tools(agent, tools) for agent_id, agent in sorted(snapshot.agents.items())},
        "config": redacted(snapshot.config.model_dump(mode="json")),
    }


def _rows(by_id: Mapping[str, Any], *fields: str) -> list[dict[str, Any]]:
    return [{name: getattr(one, name) for name in fields} for _, one in sorted(by_id.items())]


def permitted_tools(agent: Agent, tools: Mapping[str, ToolDefinition]) -> list[str]:
    """The tools, of these, that an agent has and may use, sorted."""
    return sorted(tool_id for tool_id, tool in tools.items() if agent.may_use(tool_id, writes=tool.writes))
