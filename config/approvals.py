"""Which tool calls wait for an operator."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hobus.config.schema import ToolsConfig


def needs_approval(tools: ToolsConfig, tool_id: str) -> bool:
    """Whether a pattern of `tools.approval` fits."""
    return any(fnmatchcase(tool_id, pattern) for pattern in tools.approval)
