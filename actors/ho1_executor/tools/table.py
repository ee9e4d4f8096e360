"""The tools that a worker knows, source by source, and the snapshot as tools see it.

Which tools there are may change while it runs: a live, read-only mapping for everybody else, and a call goes by what it
finds when it begins. The snapshot is made once per worker, of plain values, sorted, secrets hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.config.assets import AgentFile
from hobus.config.registries import list_rows
from hobus.config.secret_refs import redact
from hobus.config.snapshot import Snapshot


def make_snapshot_view(snapshot: Snapshot, tools: Mapping[str, ToolDefinition]) -> dict[str, Any]:
    """Return digest, the rows of the registries, tools, agent_tools (agent id -> tool ids), config."""
    return {
        "digest": snapshot.digest,
        "packages": _list_registry("packages", snapshot, "package_id", "version", "title", "framework_id"),
        "frameworks": _list_registry("frameworks", snapshot, "framework_id", "version", "title", "status"),
        "specs": _list_registry("specs", snapshot, "spec_id", "framework_id", "title", "version"),
        "files": _list_registry("file_ownership", snapshot, "path", "package_id", "classification", "sha256"),
        "tools": _list_rows(tools, "tool_id", "description", "idempotent"),
        "agent_tools": {
            agent_id: list_permitted_tools(agent, tools) for agent_id, agent in sorted(snapshot.agents.items())
        },
        "config": redact(snapshot.config.model_dump(mode="json")),
    }


@lru_cache(maxsize=4)
def make_builtin_view(snapshot: Snapshot) -> dict[str, Any]:
    """Return the snapshot as tool processes see it; made once, as that takes longer than the rest of an executor."""
    return make_snapshot_view(snapshot, BUILTIN)


def _list_rows(by_id: Mapping[str, Any], *fields: str) -> list[dict[str, Any]]:
    return [{name: getattr(one, name) for name in fields} for _, one in sorted(by_id.items())]


def _list_registry(name: str, snapshot: Snapshot, *fields: str) -> list[dict[str, str]]:
    return [{field: row.fields[field] for field in fields} for row in list_rows(name, snapshot.manifests, {})]


def list_permitted_tools(agent: AgentFile, tools: Mapping[str, ToolDefinition]) -> list[str]:
    """Return which of these tools an agent has and may use, sorted."""
    return sorted(tool_id for tool_id, tool in tools.items() if agent.may_use(tool_id, writes=tool.writes))


class ToolTable(Mapping[str, ToolDefinition]):
    """Map tool id to definition, sorted by id. Of two sources with one id the first that brought it keeps it."""

    def __init__(self, fixed: Mapping[str, ToolDefinition]) -> None:
        """Begin with `fixed`, the tools that are always there."""
        self._fixed = dict(fixed)
        self._by_source: dict[str, Sequence[ToolDefinition]] = {}
        self._all: dict[str, ToolDefinition] = {}
        self._collect()

    def put(self, source: str, tools: Sequence[ToolDefinition]) -> None:
        """Replace the tools of a source."""
        self._by_source[source] = tools
        self._collect()

    def of(self, source: str) -> Sequence[ToolDefinition]:
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
