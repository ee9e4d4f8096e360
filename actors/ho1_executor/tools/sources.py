"""All tools of one worker: built-in ones, those of Python packages, those of MCP servers; run where each belongs.

The worker is there at once with the built-in tools. What packages and servers bring is learned while it works already,
and announced whenever it changes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from hobus.actors.ho1_executor.mcp_servers.listing import make_printable
from hobus.actors.ho1_executor.mcp_servers.server import CallTimes, McpSource
from hobus.actors.ho1_executor.tools.children import ChildToolRunner
from hobus.actors.ho1_executor.tools.definition import ANNOUNCED, ToolDefinition, ToolResult, make_not_done
from hobus.actors.ho1_executor.tools.table import ToolTable
from hobus.bus import limits
from hobus.bus.messages.base import pack
from hobus.bus.messages.control import REASON_MAX_CHARS, REFUSED_SHOWN_MAX, AnnounceTools, ToolSource, ToolWord
from hobus.bus.messages.work_order import ToolCall
from hobus.bus.text import cut
from hobus.config.secret_refs import select_allowed
from hobus.config.sections.tools import McpServerConfig, ToolsConfig

PYTHON = "python"
_log = structlog.get_logger("ho1_executor")
Announce = Callable[[AnnounceTools], None]


@dataclass(eq=False, repr=False, kw_only=True)
class ToolSources:
    """Implement `bus.port.ToolRunner` for a real worker; own the tasks that keep its servers connected.

    `children` has started; nothing else is started before `begin`.
    """

    children: ChildToolRunner
    table: ToolTable
    servers: Mapping[str, McpServerConfig]
    limits: ToolsConfig
    random: Callable[[], float]
    _servers: dict[str, McpSource] = field(default_factory=dict[str, McpSource])
    _python: ToolSource = field(default_factory=lambda: ToolSource(name=PYTHON, kind="python", state="starting"))
    _given: Mapping[str, str] = field(default_factory=dict[str, str])
    _announce: Announce = lambda _tools: None  # before `begin` to nobody
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def give(self, given: Mapping[str, str]) -> None:
        """Give each process the variables that the configuration names for it. Before `begin`."""
        self._given = given
        self.children.give(select_allowed(self.limits.environment, given))

    def begin(self, announce: Announce) -> None:
        """Connect servers and load packages on the running loop, once; `announce` hears of every change."""
        self._announce = announce
        loop = asyncio.get_running_loop()
        for name, config in self.servers.items():
            server = McpSource(
                name, config, self.limits, given=self._given, random=self.random, on_change=self._on_change
            )
            self._servers[name] = server
            self._tasks.append(loop.create_task(server.keep(), name=name))
        if self.children.entry_points:
            self._tasks.append(loop.create_task(self._load_packages(), name=PYTHON))
        for task in self._tasks:
            task.add_done_callback(_notice_bug)
        self._on_change()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for server in self._servers.values():
            await server.close()
        await self.children.close()

    def available(self) -> Sequence[str]:
        """Return the ids of tools that can be run here now, sorted."""
        servers = [tool_id for server in self._servers.values() for tool_id in server.tools]
        packages = [tool.tool_id for tool in self.table.of(PYTHON)]
        return sorted({*self.children.available(), *servers, *packages})

    async def run(self, call: ToolCall, *, context: dict[str, Any], timeout_s: float) -> ToolResult:
        tool = self.table.get(call.tool_id)
        if tool is None:
            return make_not_done("tool_not_found", f"no tool {call.tool_id[:64]}")
        holder, remaining_s = context.pop("holder", ""), context.pop("remaining_s", timeout_s)
        server = self._servers.get(tool.source)
        if server is None:
            return await self.children.run(call, context=context, timeout_s=timeout_s)
        key = context["idempotency_key"]
        times = CallTimes(timeout_s, remaining_s)
        return await server.call(tool, call, holder=holder, idempotency_key=key, times=times)

    def announcement(self) -> AnnounceTools:
        """Return what can be run here now, and the state of each source."""
        able = set(self.available())
        words, left_out = bound_words([make_word(tool) for name, tool in self.table.items() if name in able])
        sources = [ToolSource(name="builtin", kind="builtin", state="ready")]
        if self.children.entry_points:
            sources.append(self._python)
        for name, server in sorted(self._servers.items()):
            refused = bound_refused([*server.refused, *left_out.get(name, ())])
            row = ToolSource(name=name, kind="mcp", state=server.state, detail=server.detail, refused=refused)
            sources.append(row)
        return AnnounceTools(tools=words, sources=sources)

    def _on_change(self) -> None:
        for name, server in self._servers.items():
            self.table.put(name, list(server.tools.values()))
        self._announce(self.announcement())

    async def _load_packages(self) -> None:
        """Have each entry point described by a tool process, one after the other; report those that are no tools."""
        found: list[ToolDefinition] = []
        refused: list[str] = []
        for name in self.children.entry_points:
            result = await self.children.describe(name, timeout_s=self.limits.timeout_ms / 1000)
            tool = read_described(name, result)
            if isinstance(tool, str):
                refused.append(make_printable(f"{name}: {tool}"))
            else:
                found.append(tool)
                if not tool.is_alone:
                    self.children.share(name)
        self.table.put(PYTHON, found)
        detail = "" if found or not refused else "not one of them can be loaded"
        state = "failed" if refused else "ready"
        self._python = ToolSource(
            name=PYTHON, kind="python", state=state, detail=detail, refused=bound_refused(refused)
        )
        self._on_change()


def read_described(name: str, result: ToolResult) -> ToolDefinition | str:
    """Return the tool that a tool process described, or why it is none."""
    if not result.ok:
        return result.text
    return ToolDefinition(tool_id=name, source=PYTHON, **json.loads(result.text))


def make_word(tool: ToolDefinition) -> ToolWord:
    """Return the tool as it is announced: models elsewhere are told the same bytes as by this worker."""
    return ToolWord(parameters=json.dumps(tool.parameters), **{name: getattr(tool, name) for name in ANNOUNCED})


def bound_words(words: Sequence[ToolWord]) -> tuple[list[ToolWord], dict[str, list[str]]]:
    """Return as many as the broker takes of one worker, in order; of the rest, by source, how many were left out.

    So that no server, however much it lists, keeps the others' tools from being announced. One page is left for what is
    said of the sources.
    """
    kept: list[ToolWord] = []
    dropped: dict[str, int] = {}
    left = limits.ANNOUNCEMENT_MAX_BYTES - limits.PAGE_MAX_BYTES
    for word in words:
        left -= len(pack(word.model_dump()))
        if left >= 0 and len(kept) < limits.TOOLS_MAX:
            kept.append(word)
        else:
            dropped[word.source] = dropped.get(word.source, 0) + 1
    said = {name: [f"{count} tools: with them a worker would announce too much"] for name, count in dropped.items()}
    return kept, said


def bound_refused(refused: Sequence[str]) -> list[str]:
    named = [cut(words, REASON_MAX_CHARS) for words in refused[: REFUSED_SHOWN_MAX - 1]]
    more = len(refused) - len(named)
    return [*named, f"and {more} more"] if more else named


def _notice_bug(task: asyncio.Task[None]) -> None:
    """Log a task that keeps a source and ended without being told to: a defect."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("tool_source_ended", source=task.get_name(), type=type(error).__name__, exc_info=error)
