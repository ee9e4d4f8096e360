"""The tools that a worker knows, source by source; which there are may change while it runs.

A live, read-only mapping for everybody else: a call goes by what it finds when it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.config.json_schema import Validator, validator_of


class ToolTable(Mapping[str, ToolDefinition]):
    """Tool id -> definition, sorted by id. Of two sources with one id the first that brought it keeps it."""

    def __init__(self, fixed: Mapping[str, ToolDefinition]) -> None:
        """`fixed`: tools that are always there."""
        self._fixed = dict(fixed)
        self._by_source: dict[str, Sequence[ToolDefinition]] = {}
        self._all: dict[str, ToolDefinition] = {}
        self._collect()

    def put(self, source: str, tools: Sequence[ToolDefinition]) -> None:
        """A source has these tools from now on, and no other."""
        self._by_source[source] = tools
        self._collect()

    def of(self, source: str) -> Sequence[ToolDefinition]:
        """What a source has."""
        return self._by_source.get(source, ())

    def _collect(self) -> None:
        found = dict(self._fixed)
        for tools in self._by_source.values():
            for tool in tools:
                found.setdefault(tool.tool_id, tool)
        self._all = dict(sorted(found.items()))

    def __getitem__(self, tool_id: str) -> ToolDefinition:
        return self._all[tool_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


class Validators:
    """The validator of each tool's arguments, made once per definition."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[ToolDefinition, Validator]] = {}

    def of(self, tool: ToolDefinition) -> Validator:
        """Checks arguments against the tool's schema, which was found right when its tool was."""
        known = self._made.get(tool.tool_id)
        if known is None or known[0] is not tool:
            known = (tool, validator_of(tool.parameters))
            self._made[tool.tool_id] = known
        return known[1]
