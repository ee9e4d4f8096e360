"""Runs tools in killable, pre-started processes (`slot`), so that a cancel or a deadline really stops them."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import structlog

from hobus.actors.ho1_executor.mcp_servers.secrets import without
from hobus.actors.ho1_executor.tools import keeper
from hobus.actors.ho1_executor.tools.definition import Bounds, ToolDefinition, ToolFault, ToolResult, not_done
from hobus.actors.ho1_executor.tools.host_process import HostGone
from hobus.actors.ho1_executor.tools.outside import Request
from hobus.actors.ho1_executor.tools.print_pipe import Caller, caller_of
from hobus.actors.ho1_executor.tools.protocol import pack_frame
from hobus.actors.ho1_executor.tools.slot import ToolSlot
from hobus.bus.messages.ids import turn_in
from hobus.bus.messages.work_order import ToolCall
from hobus.config.secret_refs import is_secret_name
from hobus.config.sections.tools import ToolsConfig

BUILTIN_REGISTRY = "hobus.actors.ho1_executor.tools.registry:BUILTIN"
_log = structlog.get_logger("ho1_executor")


class ChildToolRunner:
    """`bus.port.ToolRunner` over `children` processes; more calls than processes wait their turn in order."""

    def __init__(
        self,
        settings: ToolsConfig,
        *,
        tools: Mapping[str, ToolDefinition],
        view: Mapping[str, Any],
        checks: Mapping[str, tuple[str, str]] | None = None,
        registry: str = BUILTIN_REGISTRY,
    ) -> None:
        """Starts nothing.

        `registry` is a `module:name` path that the processes import, of a mapping of ToolDefinitions (with the ids of
        `tools`); `checks`: name -> such a path of a function from a directory to a report, and the directory. The
        entry points of the settings are loaded when they are first asked about, and available once `describe` has
        brought what they are.
        """
        self._tools = tuple(sorted(tools))
        self.entry_points = tuple(settings.entry_points)
        """The names that `describe` knows."""
        self._environment: Mapping[str, str] = {}
        own = {"view": view, "registry": registry, "checks": checks or {}}
        fields = own | settings.model_dump(
            include={"output_max_bytes", "said_max_bytes", "definition_max_bytes", "entry_points", "limits"}
        )
        self._children = [
            ToolSlot(
                configure=lambda: pack_frame("configure", environment=self._environment, **fields),
                bounds=Bounds(settings.output_max_bytes, settings.said_max_bytes),
                kill_grace_s=settings.kill_grace_ms / 1000,
                leftovers_max=settings.leftovers_max,
                is_kept=bool(self.entry_points) and keeper.KEEPS,
            )
            for _ in range(settings.children)
        ]
        self._idle: asyncio.Queue[ToolSlot] = asyncio.Queue()
        for child in self._children:
            self._idle.put_nowait(child)
        self._numbers = count(1)
        self._context = contextvars.copy_context()  # what is late is logged for its own call, not in the present one's

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
            self._log_late(child)
            await child.close()

    def pids(self) -> list[int]:
        """Of the processes that run."""
        return [child.pid for child in self._children if child.pid is not None]

    def available(self) -> Sequence[str]:
        """Ids of the tools it can run without having described them, sorted."""
        return self._tools

    async def describe(self, name: str, *, timeout_s: float) -> ToolResult:
        """What the entry point of this name is, as JSON text, or why it is none; loaded within `timeout_s`."""
        result = await self._told({"tool_id": name}, _Attempt(timeout_s, _no_request, op="describe"))
        return result or not_done("deadline_exceeded", f"it did not load within {timeout_s:.3f} s")

    async def run(self, call: ToolCall, *, context: dict[str, Any], timeout_s: float) -> ToolResult:
        """One call within `timeout_s`, waiting included; `context["request"]` is its way out (`outside.Request`).

        Cancelled or over time: its process is killed before this returns. A process that dies by itself, or answers
        nonsense, leaves what the tool did unknown: code `unknown_outcome`. What it printed is there in any case.
        """
        plain = {name: value for name, value in context.items() if name != "request"}
        fields = {"tool_id": call.tool_id, "arguments": call.arguments, "context": plain}
        attempt = _Attempt(timeout_s, context["request"])
        result = await self._told(fields, attempt)
        over = f"{call.tool_id} ran over {timeout_s:.3f} s and was killed; what it had done by then is not known"
        busy = f"no tool process was free for {call.tool_id} within {timeout_s:.3f} s; nothing was run"
        result = result or not_done("deadline_exceeded", over if attempt.has_begun else busy)
        result.printed = attempt.printed
        return result

    async def _told(self, fields: Mapping[str, Any], attempt: _Attempt) -> ToolResult | None:
        """The result of a process that was free in time, None over time; what the tool told people is in the log."""
        result: ToolResult | None = None
        try:
            async with asyncio.timeout(attempt.timeout_s):
                child = await self._idle.get()
                attempt.has_begun = True
                try:
                    result = await self._run_in(child, fields, attempt)
                finally:
                    self._idle.put_nowait(child)
        except TimeoutError:
            return None
        else:
            return result
        finally:
            if result is not None:
                result.traceback = self._without_secrets(result.traceback)
            self._log(caller_of(fields), attempt.printed, "" if result is None else result.traceback)

    async def _run_in(self, child: ToolSlot, fields: Mapping[str, Any], attempt: _Attempt) -> ToolResult:
        is_clean = False
        self._log_late(child)
        try:
            result = await child.call(next(self._numbers), fields, attempt.request, op=attempt.op)
            is_clean = True
        except HostGone as gone:
            return not_done("unknown_outcome", f"the process of {fields['tool_id']} {gone}")
        else:
            return result
        finally:
            attempt.printed = self._without_secrets(child.printed())
            if not is_clean or child.is_spent:
                self._log_late(child)
                await child.kill()
                child.start()

    def _without_secrets(self, text: str) -> str:
        """Of what the processes were given, nothing whose name says that it is a secret gets into log or record."""
        return without(text, [value for name, value in self._environment.items() if is_secret_name(name)])

    def _log_late(self, child: ToolSlot) -> None:
        """What is printed for a call that has its end already, by what it left running."""
        for caller, printed in child.late():
            self._context.run(self._log, caller, self._without_secrets(printed), "", is_late=True)

    def _log(self, caller: Caller, printed: str, traceback_text: str, *, is_late: bool = False) -> None:
        """A tool's own words, marked as such, with the turn and the call that they belong to."""
        if not printed and not traceback_text:
            return
        tell = _log.warning if traceback_text else _log.info
        tell(
            "tool_said",
            turn=turn_in([caller.wo_id]).run if caller.wo_id else "",
            work_order=caller.wo_id,
            tool=caller.tool_id,
            printed=printed,
            exception=traceback_text,
            **({"is_late": True} if is_late else {}),
        )


@dataclass(slots=True)
class _Attempt:
    """To run one thing in some process, and how far that came."""

    timeout_s: float
    request: Request
    op: str = "call"
    has_begun: bool = False
    printed: str = ""


async def _no_request(_service: str, _type_name: str, _body: Mapping[str, Any]) -> dict[str, Any]:
    raise ToolFault("nothing is asked while a tool is described")
