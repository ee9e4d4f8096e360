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
        "packages": [
            {
                "package_id": package.package_id,
                "version": package.version,
                "title": package.title,
                "framework_id": package.framework_id,
            }
            for _, package in sorted(snapshot.packages.items())
        ],
        "frameworks": [
            {
                "framework_id": framework.framework_id,
                "version": framework.version,
                "title": framework.title,
                "status": framework.status,
            }
            for _, framework in sorted(snapshot.frameworks.items())
        ],
        "tools": [
            {"tool_id": tool.tool_id, "description": tool.description, "idempotent": tool.idempotent}
            for _, tool in sorted(tools.items())
        ],
        "agent_tools": {agent_id: permitted_tools(agent, tools) for agent_id, agent in sorted(snapshot.agents.items())},
        "config": redacted(snapshot.config.model_dump(mode="json")),
    }


def permitted_tools(agent: Agent, tools: Mapping[str, ToolDefinition]) -> list[str]:
    """The tools, of these, that an agent has and may use, sorted."""
    return sorted(tool_id for tool_id, tool in tools.items() if agent.may_use(tool_id, writes=tool.writes))
