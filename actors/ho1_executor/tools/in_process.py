"""Runs tools in the calling process, under the same limits: for the simulation, where a kill is the kill of a task.

A real worker uses `children.ChildToolRunner`; one conformance suite runs against both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hobus.actors.ho1_executor.tools.definition import (
    NO_HOME,
    Bounds,
    ToolDefinition,
    ToolFault,
    ToolResult,
    make_not_done,
    run_tool,
)
from hobus.actors.ho1_executor.tools.outside import Request
from hobus.bus.messages.work_order import ToolCall

Check = Callable[[], Awaitable[Mapping[str, Any]]]


class InProcessHost(Struct, frozen=True):
    """Implement `ToolHost` beside the executor's own bus."""

    snapshot: Mapping[str, Any]
    context: Mapping[str, Any]
    ask: Request
    checks: Mapping[str, Check]

    async def request(self, service: str, type_name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self.ask(service, type_name, body)

    async def check(self, name: str) -> Mapping[str, Any]:
        if name not in self.checks:
            raise ToolFault(NO_HOME)
        return await self.checks[name]()


class InProcessToolRunner(Struct, frozen=True, kw_only=True):
    """Implement `bus.port.ToolRunner` without processes."""

    tools: Mapping[str, ToolDefinition]
    view: Mapping[str, Any]
    bounds: Bounds
    checks: Mapping[str, Check] = {}

    def available(self) -> Sequence[str]:
        return sorted(self.tools)

    async def run(self, call: ToolCall, *, context: dict[str, Any], timeout_s: float) -> ToolResult:
        """Run one call within `timeout_s`; `context["request"]` is its way out (`outside.Request`)."""
        plain = {name: value for name, value in context.items() if name != "request"}
        host = InProcessHost(plain.pop("view", self.view), plain, context["request"], self.checks)
        try:
            async with asyncio.timeout(timeout_s):
                return await run_tool(self.tools, call.tool_id, call.arguments, host, self.bounds)
        except TimeoutError:
            return make_not_done("deadline_exceeded", f"{call.tool_id} ran over {timeout_s:.3f} s and was stopped")
