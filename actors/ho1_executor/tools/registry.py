"""The built-in tools by id, sorted: what every worker on the home host announces."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hobus.actors.ho1_executor.tools.catalog_tools import CATALOG_TOOLS
from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.actors.ho1_executor.tools.status_tools import STATUS_TOOLS

BUILTIN: Mapping[str, ToolDefinition] = MappingProxyType(
    {tool.tool_id: tool for tool in sorted((*CATALOG_TOOLS, *STATUS_TOOLS), key=lambda tool: tool.tool_id)}
)
