"""Runs tools in killable, pre-started processes, so that a cancel or a deadline really stops them.

The first ones are forked while the worker is being made and has neither loop, nor sockets, nor secret; a running worker
starts fresh interpreters, since a fork would copy all that.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import structlog

from hobus.actors.ho1_executor.mcp_servers.secrets import without
from hobus.actors.ho1_executor.tools import child_main, keeper
from hobus.actors.ho1_executor.tools.definition import Bounds, ToolDefinition, ToolFault, ToolResult, not_done
from hobus.actors.ho1_executor.tools.host_process import (
    ForkedProcess,
    HostGone,
    HostProcess,
    PrintPipe,
    interpreter,
    may_fork,
)
from hobus.actors.ho1_executor.tools.outside import Request
from hobus.actors.ho1_executor.tools.protocol import is_request, pack_frame, result_in
from hobus.bus.messages.ids import turn_in
from hobus.bus.messages.work_order import ToolCall
from hobus.config.schema import ToolsConfig
from hobus.config.secret_refs import is_secret_name

BUILTIN_REGISTRY = "hobus.actors.ho1_executor.tools.registry:BUILTIN"
_log = structlog.get_logger("ho1_executor")
CHILD_MODULE = "hobus.actors.ho1_executor.tools.child_main"


class ToolSlot:
    """A place for one process, which takes one call at a time; a new one is started whenever the last one is gone."""

    def __init__(self, *, configure: Callable[[], bytes], bounds: Bounds, kill_grace_s: float, is_kept: bool) -> None:
        """`configure`: the first frame of each. `is_kept`: it has a keeper, since its tools may start processes."""
        self._configure = configure
        self._bounds = bounds
        self._kill_grace_s = kill_grace_s
        self._is_kept = is_kept
        self._process: HostProcess | None = None
        self._ended: list[HostProcess] = []

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        return None if self._process is None else self._process.pid

    def start(self) -> HostProcess:
        """A running process: the one there is, or a new one. Needs no event loop: call it before sockets exist."""
        if self._process is not None and self._process.has_ended():
            self._process.end()
            self._discard()
        self._reap()
        if self._process is None:
            start = self._forked if may_fork() else interpreter(CHILD_MODULE, str(int(self._is_kept)))
            self._process = HostProcess(
                start,
                frame_max_bytes=self._bounds.output + self._bounds.said,
                is_kept=self._is_kept,
                prints=PrintPipe(self._bounds.said),
            )
        return self._process

    async def call(self, number: int, fields: Mapping[str, Any], request: Request, *, op: str) -> ToolResult:
        """The result of one call. Raises HostGone; the caller then calls `kill`, as it must after a cancellation."""
        frames = await self.start().connected(self._configure)
        await frames.send(op, n=number, **fields)
        while True:
            frame = await frames.receive()
            if frame.get("n") == number and (result := result_in(frame)) is not None:
                return result
            if not is_request(frame, number):
                raise HostGone("sent something that is not an answer")
            try:
                answer = {"value": await request(frame["service"], frame["type"], frame["body"])}
            except ToolFault as fault:
                answer = {"fault": str(fault)}
            await frames.send("reply", n=number, **answer)

    def printed(self) -> str:
        """What its process has printed since it was last asked."""
        return "" if self._process is None else self._process.printed()

    async def kill(self) -> None:
        """The process and all it started are gone (SIGKILL), seen by the end of its socket within the kill grace."""
        process = self._process
        if process is None:
            return
        process.end()
        try:
            if process.frames is not None and not await process.frames.ends_within(self._kill_grace_s):
                process.kill_group()  # dying in the kernel, or its keeper is not heard of; it is reaped later
        finally:
            self._discard()

    async def close(self) -> None:
        """Killed, reaped, its socket closed; for the end of the worker."""
        process = self._process
        if process is not None:
            process.end()
            self._discard()
            if process.frames is not None:
                with suppress(ConnectionError):
                    await process.frames.writer.wait_closed()
        for ended in self._ended:
            ended.wait()
        self._ended.clear()

    def _discard(self) -> None:
        if self._process is not None:
            self._process.hang_up()
            self._ended.append(self._process)
        self._process = None
        self._reap()

    def _reap(self) -> None:
        self._ended = [process for process in self._ended if not process.is_reaped()]

    def _forked(self, frames: int, prints: int | None) -> ForkedProcess:
        """A copy of this process, which has loaded everything: it shares that memory, and is there at once."""
        worker = os.getpid()
        pid = os.fork()
        if pid:
            return ForkedProcess(pid)
        try:
            os.setsid()
            os.dup2(frames, 0)
            if prints is not None:
                os.dup2(prints, 1)
            child_main.live(worker, kept=self._is_kept)
        except BaseException:  # noqa: BLE001 - the last place that can say anything
            traceback.print_exc()
        finally:
            os._exit(1)


class ChildToolRunner:
    """`bus.port.ToolRunner` over `children` processes; more calls than processes wait their turn in order."""

    def __init__(  # noqa: PLR0913 - what a tool process needs to know
        self,
        settings: ToolsConfig,
        *,
        tools: Mapping[str, ToolDefinition],
        view: Mapping[str, Any],
        ledger_dir: str = "",
        verifier: str = "",
        registry: str = BUILTIN_REGISTRY,
    ) -> None:
        """Starts nothing.

        `registry` and `verifier` are `module:name` paths that the processes import: a mapping of ToolDefinitions
        (with the ids of `tools`), and a function from the ledger's directory to a report. The entry points of the
        settings are loaded when they are first asked about, and available once `describe` has brought what they are.
        """
        self._tools = tuple(sorted(tools))
        self.entry_points = tuple(settings.entry_points)
        """The names that `describe` knows."""
        self._environment: Mapping[str, str] = {}
        own = {"view": view, "registry": registry, "ledger_dir": ledger_dir, "verifier": verifier}
        fields = own | settings.model_dump(
            include={"output_max_bytes", "said_max_bytes", "definition_max_bytes", "entry_points", "limits"}
        )
        self._children = [
            ToolSlot(
                configure=lambda: pack_frame("configure", environment=self._environment, **fields),
                bounds=Bounds(settings.output_max_bytes, settings.said_max_bytes),
                kill_grace_s=settings.kill_grace_ms / 1000,
                is_kept=bool(self.entry_points) and keeper.KEEPS,
            )
            for _ in range(settings.children)
        ]
        self._idle: asyncio.Queue[ToolSlot] = asyncio.Queue()
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
            self._log(fields, attempt.printed, "" if result is None else result.traceback)

    async def _run_in(self, child: ToolSlot, fields: Mapping[str, Any], attempt: _Attempt) -> ToolResult:
        is_clean = False
        self._log({}, self._without_secrets(child.printed()), "")  # by what a tool left running
        try:
            result = await child.call(next(self._numbers), fields, attempt.request, op=attempt.op)
            is_clean = True
        except HostGone as gone:
            return not_done("unknown_outcome", f"the process of {fields['tool_id']} {gone}")
        else:
            return result
        finally:
            attempt.printed = self._without_secrets(child.printed())
            if not is_clean:
                await child.kill()
                child.start()

    def _without_secrets(self, text: str) -> str:
        """Of what the processes were given, nothing whose name says that it is a secret gets into log or record."""
        return without(text, [value for name, value in self._environment.items() if is_secret_name(name)])

    def _log(self, fields: Mapping[str, Any], printed: str, traceback_text: str) -> None:
        """A tool's own words, marked as such, with the turn and the call that they belong to."""
        if not printed and not traceback_text:
            return
        wo_id: str = fields.get("context", {}).get("wo_id", "")
        tell = _log.warning if traceback_text else _log.info
        tell(
            "tool_said",
            turn=turn_in([wo_id]).run if wo_id else "",
            work_order=wo_id,
            tool=fields.get("tool_id", ""),
            printed=printed,
            exception=traceback_text,
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
