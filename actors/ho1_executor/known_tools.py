"""What a worker may tell a model about: its own tools, and those that other workers alone can run.

A server that is not for workers elsewhere, or that this worker is still connecting to, has its tools at others; whoever
happens to make the model call, the model is told of the same ones. Source: spec page "Work orders", section Tools.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from actors.ho1_executor.tools.definition import ToolDefinition, ToolHost
from bus.errors import RuntimeFault
from bus.messages.control import ToolWord
from bus.paging import read_tools
from bus.port import Bus
from config.schema import AdminConfig


class KnownTools:
    """Asks the broker only when an order allows what this worker has not, and not again within a beat."""

    def __init__(self, bus: Bus, own: Mapping[str, ToolDefinition], config: AdminConfig) -> None:
        self._bus = bus
        self._own = own
        self._timeout_s = config.bus.peer_timeout_ms / 1000
        self._fresh_s = config.bus.beat_interval_ms / 1000
        self._others: Mapping[str, ToolDefinition] = {}
        self._asked_at: float | None = None

    async def allowed_by(self, names: Sequence[str]) -> Mapping[str, ToolDefinition]:
        """Definitions among which everything that `names` may mean can be found, if anybody has it."""
        if not is_missing(names, self._own):
            return self._own
        now = self._bus.clock.monotonic()
        if self._asked_at is None or now - self._asked_at >= self._fresh_s:
            self._asked_at = now
            await self._ask()
        return {**self._others, **self._own}

    async def _ask(self) -> None:
        try:
            told = await read_tools(self._bus, timeout_s=self._timeout_s)
        except RuntimeFault:
            return  # what was known a moment ago still holds
        self._others = {row.tool_id: definition_of(row) for row in told.tools}


def is_missing(names: Sequence[str], own: Mapping[str, ToolDefinition]) -> bool:
    """Whether `names` may mean tools that are not among these."""
    return any(
        name not in own if not name.endswith("*") else not any(tool.startswith(name[:-1]) for tool in own)
        for name in names
        if name != "*"
    )


def definition_of(word: ToolWord) -> ToolDefinition:
    """The tool that a worker told of; it runs there."""
    return ToolDefinition(
        tool_id=word.tool_id,
        description=word.description,
        parameters=json.loads(word.parameters),
        idempotent=word.idempotent,
        run=_at_its_worker,
        writes=word.writes,
        source=word.source,
    )


async def _at_its_worker(_arguments: Mapping[str, Any], _host: ToolHost) -> NoReturn:
    raise AssertionError("another worker's tool runs there")
