"""Runs tools in killable processes (`child`): a cancel or a deadline really stops them, and no wait holds others up.

Tools that wait (`async def`) share a process; any other has one alone. Processes are made when they are needed
(`nursery`), and go when nobody has needed them for a while.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog

from hobus.actors.ho1_executor import limits
from hobus.actors.ho1_executor.mcp_servers.secrets import without
from hobus.actors.ho1_executor.tools.child import ProcessAttempt, ToolChild
from hobus.actors.ho1_executor.tools.definition import Bounds, ToolDefinition, ToolResult, make_not_done, refuse_request
from hobus.actors.ho1_executor.tools.host_process import ENDED, CallNotBegun, HostGone
from hobus.actors.ho1_executor.tools.nursery import Nursery
from hobus.actors.ho1_executor.tools.print_pipe import PrintCaller, read_caller
from hobus.actors.ho1_executor.tools.protocol import pack_frame
from hobus.bus.messages.ids import find_turn
from hobus.bus.messages.work_order import ToolCall
from hobus.config.limits import FILES_MAX_BYTES, SAID_MAX_BYTES
from hobus.config.secret_refs import is_secret_name
from hobus.config.sections.tools import ToolsConfig

BUILTIN_REGISTRY = "hobus.actors.ho1_executor.tools.registry:BUILTIN"
_log = structlog.get_logger("ho1_executor")


class ChildToolRunner:
    """Implement `bus.port.ToolRunner`; calls that need a process each wait in order while `children_max` are busy."""

    def __init__(
        self,
        settings: ToolsConfig,
        *,
        tools: Mapping[str, ToolDefinition],
        view: Mapping[str, Any],
        checks: Mapping[str, tuple[str, str]] | None = None,
        registry: str = BUILTIN_REGISTRY,
    ) -> None:
        """Build a runner; start nothing.

        `registry` is a `module:name` path that the processes import, of a mapping of ToolDefinitions (with the ids of
        `tools`); `checks`: name -> such a path of a function from a directory to a report, and the directory. The
        entry points of the settings are loaded when they are first asked about, and available once `describe` has
        brought what they are.
        """
        self._tools = tuple(sorted(tools))
        self.entry_points = settings.python_tools
        """The names that `describe` knows."""
        self._settings = settings
        self._environment: Mapping[str, str] = {}
        self._fields = {
            "view": view, "registry": registry, "checks": checks or {}, "said_max_bytes": SAID_MAX_BYTES,
            "files_max_bytes": FILES_MAX_BYTES, "definition_max_bytes": limits.DEFINITION_MAX_BYTES,
            **settings.model_dump(include={"output_max_bytes", "limits"}),
            "entry_points": self.entry_points,
        }  # fmt: skip
        self._nursery = Nursery(has_apps=any(".py:" in entry for entry in self.entry_points.values()))
        self._alone = {name for name, tool in tools.items() if tool.is_alone} | set(self.entry_points)
        self._places = asyncio.Semaphore(settings.children_max)
        self._alive: dict[ToolChild, asyncio.Task[None]] = {}
        self._free: list[ToolChild] = []  # with nobody's call, used last last
        self._shared: ToolChild | None = None
        self._ended: list[ToolChild] = []
        self._context = contextvars.copy_context()  # what is late is logged for its own call, not in the present one's

    def start(self) -> None:
        """Start what forks the processes; call it before the worker opens sockets."""
        self._nursery.start()

    def give(self, environment: Mapping[str, str]) -> None:
        """Give the processes further variables, each through its socket; call it before the first call."""
        self._environment = dict(environment)

    def share(self, name: str) -> None:
        """Note that this entry point waits without holding up its process."""
        self._alone.discard(name)

    async def close(self) -> None:
        tasks = list(self._alive.values())
        for child in list(self._alive):
            child.kill()
        await asyncio.gather(*tasks, return_exceptions=True)
        for child in self._ended:
            child.wait()
        self._nursery.close()

    def pids(self) -> list[int]:
        """Return the pids of the processes that take calls."""
        return [child.pid for child in self._alive if not child.is_spent]

    def available(self) -> Sequence[str]:
        """Return the ids of tools that can run without having been described, sorted."""
        return self._tools

    async def describe(self, name: str, *, timeout_s: float) -> ToolResult:
        """Return what this entry point is, as JSON text, or why it is none; loaded within `timeout_s`."""
        result = await self._take_result(
            {"tool_id": name}, ProcessAttempt(timeout_s, refuse_request, op="describe"), is_alone=True
        )
        return result or make_not_done("deadline_exceeded", f"it did not load within {timeout_s:.3f} s")

    async def run(self, call: ToolCall, *, context: dict[str, Any], timeout_s: float) -> ToolResult:
        """Run one call within `timeout_s`, waiting included; `context["request"]` is its way out (`outside.Request`).

        Cancelled or over time: it has ended, or its process was killed, before this returns. A process that dies by
        itself, or answers nonsense, leaves what the tool did unknown: code `unknown_outcome`. What it printed is there
        in any case.
        """
        plain = {name: value for name, value in context.items() if name != "request"}
        fields = {"tool_id": call.tool_id, "arguments": call.arguments, "context": plain}
        attempt = ProcessAttempt(timeout_s, context["request"])
        result = await self._take_result(fields, attempt, is_alone=call.tool_id in self._alone)
        over = f"{call.tool_id} ran over {timeout_s:.3f} s and was stopped; what it had done by then is not known"
        busy = f"no tool process was free for {call.tool_id} within {timeout_s:.3f} s; nothing was run"
        result = result or make_not_done("deadline_exceeded", over if attempt.has_begun else busy)
        result.printed = attempt.printed
        return result

    async def _take_result(
        self, fields: Mapping[str, Any], attempt: ProcessAttempt, *, is_alone: bool
    ) -> ToolResult | None:
        """Return the result of a process that was free in time, None over time; log what the tool told people."""
        result: ToolResult | None = None
        try:
            async with asyncio.timeout(attempt.timeout_s):
                if is_alone:
                    async with self._places:
                        result = await self._run_in(self._take_own_child(), fields, attempt)
                else:
                    result = await self._run_shared(fields, attempt)
        except TimeoutError:
            return None
        except OSError as error:
            result = make_not_done("tool_failed", f"no tool process can be started ({error.strerror}); nothing was run")
            return result
        else:
            return result
        finally:
            attempt.printed = self._without_secrets(attempt.printed)
            if result is not None:
                result.traceback = self._without_secrets(result.traceback)
            self._log(read_caller(fields), attempt.printed, "" if result is None else result.traceback)

    async def _run_shared(self, fields: Mapping[str, Any], attempt: ProcessAttempt) -> ToolResult:
        while True:
            with suppress(CallNotBegun):  # one that was begun before holds that process up
                return await self._run_in(self._take_shared_child(), fields, attempt)

    def _take_own_child(self) -> ToolChild:
        """Return a process that nobody uses. Raises OSError."""
        while self._free:
            child = self._free.pop()
            if not child.is_spent and not child.has_ended():  # spent: it is being ended, and its keeper goes last
                return child
            child.kill()
        return self._start_child(is_shared=False)

    def _take_shared_child(self) -> ToolChild:
        """Return the process of the tools that wait. Raises OSError."""
        child = self._shared
        if child is None or child.is_spent or child.has_ended():
            child = self._shared = self._start_child(is_shared=True)
        return child

    def _start_child(self, *, is_shared: bool) -> ToolChild:
        settings = self._settings
        child = ToolChild(
            self._nursery.start_tool_process,
            first_frame=pack_frame("configure", environment=self._environment, is_shared=is_shared, **self._fields),
            bounds=Bounds(settings.output_max_bytes, SAID_MAX_BYTES, FILES_MAX_BYTES),
            kill_grace_s=limits.KILL_GRACE_MS / 1000,
            is_shared=is_shared,
            on_blocked=self._isolate_blocking,
            on_late=self._log_late,
        )
        self._alive[child] = task = asyncio.get_running_loop().create_task(child.serve())
        task.add_done_callback(lambda _task: self._note_gone(child))
        return child

    def _note_gone(self, child: ToolChild) -> None:
        del self._alive[child]
        self._ended.append(child)
        if child in self._free:
            self._free.remove(child)
        if child.idle is not None:
            child.idle.cancel()
        asyncio.get_running_loop().call_later(limits.CHILDREN_REAPED_MS / 1000, self._reap)

    def _reap(self) -> None:
        self._ended = [child for child in self._ended if not child.is_reaped()]

    async def _run_in(self, child: ToolChild, fields: Mapping[str, Any], attempt: ProcessAttempt) -> ToolResult:
        attempt.has_begun = True
        child.users += 1
        if child.idle is not None:
            child.idle.cancel()
        try:
            return await child.run(fields, attempt)
        except HostGone as gone:
            how = await child.exit_words() if str(gone) == ENDED else ""
            return make_not_done("unknown_outcome", f"the process of {fields['tool_id']} {gone}{how}")
        finally:
            child.users -= 1
            if not child.users:
                self._let_rest(child)

    def _let_rest(self, child: ToolChild) -> None:
        """Offer an unused process to the next call, or let it go."""
        if child.is_spent:
            child.kill()
            return
        if not child.is_shared:
            self._free.append(child)
        idle_s = limits.CHILDREN_IDLE_MS / 1000
        child.idle = asyncio.get_running_loop().call_later(idle_s, child.kill)

    def _isolate_blocking(self, tool_id: str) -> None:
        """Give this tool a process alone from now on, and the others another one than it holds up."""
        if tool_id in self.entry_points and tool_id not in self._alone:
            self._alone.add(tool_id)
            _log.warning("tool_blocks", tool=tool_id, mend="await what it waits for, or make it a def")

    def _without_secrets(self, text: str) -> str:
        """Hide the values of secretly named variables before text gets into log or record."""
        return without(text, [value for name, value in self._environment.items() if is_secret_name(name)])

    def _log_late(self, caller: PrintCaller, printed: str) -> None:
        """Log what is printed beside calls: by what one left running, or by one of several."""
        self._context.run(self._log, caller, self._without_secrets(printed), "", is_late=True)

    def _log(self, caller: PrintCaller, printed: str, traceback_text: str, *, is_late: bool = False) -> None:
        """Log a tool's own words, marked as such, with the turn and the call that they belong to."""
        if not printed and not traceback_text:
            return
        tell = _log.warning if traceback_text else _log.info
        tell(
            "tool_said",
            turn=find_turn([caller.wo_id]).run if caller.wo_id else "",
            work_order=caller.wo_id,
            tool=caller.tool_id,
            printed=printed,
            exception=traceback_text,
            **({"is_late": True} if is_late else {}),
        )
