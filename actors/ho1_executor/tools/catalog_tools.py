"""Built-in tools about what the system is made of: packages, frameworks, tools, configuration; from the snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hobus.actors.ho1_executor.tools.definition import ToolDefinition, ToolFault, ToolHost

_NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


async def _list_packages(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
    rows = host.snapshot["packages"]
    return {"count": len(rows), "packages": rows}


async def _list_frameworks(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
    rows = host.snapshot["frameworks"]
    return {"count": len(rows), "frameworks": rows}


async def _list_tools(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
    """The tools of the agent that asks; of an unknown agent none, since it may use none."""
    allowed = host.snapshot["agent_tools"].get(host.context["agent_id"], ())
    rows = [tool for tool in host.snapshot["tools"] if tool["tool_id"] in allowed]
    rows += host.context.get("more_tools", [])  # of MCP servers and packages, which come and go
    return {"count": len(rows), "tools": rows}


async def _show_config(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    path: str = arguments.get("path", "")
    value: Any = host.snapshot["config"]
    if not path:
        return {"config_digest": host.snapshot["digest"], "sections": sorted(value)}
    walked: list[str] = []
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            known = ", ".join(sorted(value)) if isinstance(value, Mapping) else "nothing below it"
            raise ToolFault(f"no setting {'.'.join([*walked, part])[:200]!r}; known there: {known}")
        value = value[part]
        walked.append(part)
    return {"path": path, "value": value}


CATALOG_TOOLS = (
    ToolDefinition(
        tool_id="list_packages",
        description="Lists the governed packages installed in this system: id, version, title, framework.",
        parameters=_NOTHING,
        idempotent=True,
        run=_list_packages,
    ),
    ToolDefinition(
        tool_id="list_frameworks",
        description="Lists the frameworks that govern this system: id, version, title, status.",
        parameters=_NOTHING,
        idempotent=True,
        run=_list_frameworks,
    ),
    ToolDefinition(
        tool_id="list_tools",
        description="Lists the tools that you have, with what each does.",
        parameters=_NOTHING,
        idempotent=True,
        run=_list_tools,
    ),
    ToolDefinition(
        tool_id="show_config",
        description="Shows the running configuration, secrets hidden: a section (`budget`) or one setting "
        "(`budget.session_token_limit`); without a path the names of the sections.",
        parameters={
            "type": "object",
            "properties": {"path": {"type": "string", "description": "dotted path", "maxLength": 200}},
            "additionalProperties": False,
        },
        idempotent=True,
        run=_show_config,
    ),
)
