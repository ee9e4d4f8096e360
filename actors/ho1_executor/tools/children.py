"""Runs tools in killable, pre-started processes, so that a cancel or a deadline really stops them.

They share nothing with the worker but one socket pair each: the first
ones are forked while the worker is being made and has neither loop, nor sockets, nor secret; a running worker starts
fresh interpreters, since a fork would copy all that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from hobus.actors.ho1_executor.tools import keeper
from hobus.actors.ho1_executor.tools.child import Child, ChildGone, ChildSettings
from hobus.actors.ho1_executor.tools.definition import ToolDefinition, ToolFault, ToolResult, not_done
from hobus.actors.ho1_executor.tools.protocol import pack_frame
from hobus.bus.messages.work_order import ToolCall

BUILTIN_REGISTRY = "hobus.actors.ho1_executor.tools.registry:BUILTIN"


class ChildToolRunner:
    """`bus.port.ToolRunner` over `children` processes; more calls than processes wait their turn in order."""

    def __init__(  # noqa: PLR0913 - what a tool process needs to know
        self,
        *,
        children: int,
        tools: Mapping[str, ToolDefinition],
        view: Mapping[str, Any],
        output_max_bytes: int,
        kill_grace_ms: int,
        ledger_dir: str = "",
        verifier: str = "",
        registry: str = BUILTIN_REGISTRY,
        entry_points: Sequence[str] = (),
        definition_max_bytes: int = 0,
        limits: Mapping[str, int | None],
    ) -> None:
        """Starts nothing.

        `registry` and `verifier` are `module:name` paths that the processes import: a mapping of ToolDefinitions
        (with the ids of `tools`), and a function from the ledger's directory to a report. `entry_points` are the names
        of further tools, which the processes load when they are first asked about them; they are available once
        `describe` has brought what they are. `limits`: of `tools.limits`, for every process and what it starts.
        """
        self._tools = tuple(sorted(tools))
        self._entry_points = tuple(entry_points)
        self._environment: Mapping[str, str] = {}
        fields: dict[str, Any] = {
            "view": view,
            "registry": registry,
            "ledger_dir": ledger_dir,
            "verifier": verifier,
            "output_max_bytes": output_max_bytes,
            "definition_max_bytes": definition_max_bytes,
            "entry_points": list(entry_points),
            "limits": dict(limits),
        }
        settings = ChildSettings(
            configure=lambda: pack_frame("configure", environment=self._environment, **fields),
            output_max_bytes=output_max_bytes,
            kill_grace_s=kill_grace_ms / 1000,
            kept=bool(entry_points) and keeper.KEEPS,
        )
        self._children = [Child(settings) for _ in range(children)]
        self._idle: asyncio.Queue[Child] = asyncio.Queue()
        for child in self._children:
            self._idle.put_nowait(child)
        self._numbers = count(1)

    def start(self) -> None:
        """All processes run; call it before the worker opens sockets. Later ones are started when they are needed."""
        for child in self._children:
            child.start()

    def give(self, environment: Mapping[str, str]) -> None:
        """Variables that the processes get besides their own, each through its socket; before the first call."""
        self._environment = dict(environment)

    async def close(self) -> None:
        """No process is left."""
        for child in self._children:
            await child.close()

    def pids(self) -> list[int]:
        """Of the processes that run."""
        return [child.pid for child in self._children if child.pid is not None]

    def available(self) -> Sequence[str]:
        """Ids of the tools it can run without having described them, sorted."""
        return self._tools

    @property
    def entry_points(self) -> Sequence[str]:
        """The names that `describe` knows."""
        return self._entry_points

    async def describe(self, name: str, *, timeout_s: float) -> ToolResult:
        """What the entry point of this name is, as JSON text, or why it is none; loaded within `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                child = await self._idle.get()
                try:
                    return await self._run_in(child, {"tool_id": name}, _no_request, op="describe")
                finally:
                    self._idle.put_nowait(child)
        except TimeoutError:
            return not_done("deadline_exceeded", f"it did not load within {timeout_s:.3f} s")

    async def run(self, call: ToolCall, *, context: dict[str, Any], timeout_s: float) -> ToolResult:
        """One call within `timeout_s`, waiting included; `context["request"]` is its way out (`outside.Request`).

        Cancelled or over time: its process is killed before this returns. A process that dies by itself, or answers
        nonsense, leaves what the tool did unknown: code `unknown_outcome`.
        """
        fields = {
            "tool_id": call.tool_id,
            "arguments": call.arguments,
            "context": {name: value for name, value in context.items() if name != "request"},
        }
        has_begun = False
        try:
            async with asyncio.timeout(timeout_s):
                child = await self._idle.get()
                has_begun = True
                try:
                    return await self._run_in(child, fields, context["request"])
                finally:
                    self._idle.put_nowait(child)
        except TimeoutError:
            over = f"{call.tool_id} ran over {timeout_s:.3f} s and was killed; what it had done by then is not known"
            busy = f"no tool process was free for {call.tool_id} within {timeout_s:.3f} s; nothing was run"
            return not_done("deadline_exceeded", over if has_begun else busy)

    async def _run_in(self, child: Child, fields: Mapping[str, Any], request: Any, *, op: str = "call") -> ToolResult:
        is_clean = False
        try:
            result = await child.call(next(self._numbers), fields, request, op=op)
            is_clean = True
        except ChildGone as gone:
            return not_done("unknown_outcome", f"the process of {fields['tool_id']} {gone}")
        else:
            return result
        finally:
            if not is_clean:
                await child.kill()
                child.start()


async def _no_request(_service: str, _type_name: str, _body: Mapping[str, Any]) -> dict[str, Any]:
    raise ToolFault("nothing is asked while a tool is described")
