"""One configured MCP server at one worker: kept connected, its tools told, its calls made.

Theory of operation. `keep` is the one long-lived task of a server: it starts the server's process, takes its listings
while it lives, and after its end begins again, at once if it had been in order, else with a back-off. As long as a
server comes back at once its tools stay announced and calls wait for it; once a try has failed they are withdrawn.

A server that is `per` session or principal has besides this process, which lists its tools, one for each of them: the
same again under the holder's name, made by its first call, and ended when it has had none for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import structlog
from msgspec import Struct

from hobus.actors.ho1_executor import limits
from hobus.actors.ho1_executor.mcp_servers.listing import NOT_TAKEN, make_printable, take_listed
from hobus.actors.ho1_executor.tools.definition import ToolDefinition, ToolResult, make_not_done
from hobus.actors.ho1_executor.tools.host_process import HostGone, HostProcess, start_interpreter
from hobus.actors.ho1_executor.tools.protocol import pack_frame
from hobus.bus.messages.work_order import ToolCall
from hobus.config.secret_refs import list_referred, select_allowed
from hobus.config.sections.tools import McpServerConfig, ToolsConfig

State = Literal["starting", "ready", "failed"]
_log = structlog.get_logger("ho1_executor")

PROCESS_MODULE = "hobus.actors.ho1_executor.mcp_servers.process"

Listed = Callable[[str, list[dict[str, Any]]], None]
"""(who the server is, its tools) -> None; called at each listing."""


class CallTimes(NamedTuple):
    """How long a call may take in seconds: without a sign of progress from its server, and in all."""

    silent_s: float
    all_s: float


class NotConnected(Exception):
    """Say why the server cannot be used."""


class ServerProcess(HostProcess):
    """One incarnation of a server's process, from start to end."""

    def __init__(self, configure: Mapping[str, Any], on_closed: Callable[[], None]) -> None:
        """Start the process. Raises OSError. `on_closed` is called before anybody can ask a killed process."""
        grace_s = limits.KILL_GRACE_MS / 1000
        super().__init__(
            start_interpreter(PROCESS_MODULE), frame_max_bytes=limits.MESSAGE_MAX_BYTES, kill_grace_s=grace_s
        )
        self._on_closed = on_closed
        self._first_frame = pack_frame("configure", **configure)

    async def serve(self, on_listed: Listed, *, connect_timeout_s: float) -> None:
        """Read until the process ends: first its listing, within the time-out, then results.

        Raises NotConnected if the server never got ready, HostGone when it ends later or talks nonsense. Calls in
        flight fail with HostGone; the process and all it started are gone.
        """
        limit = asyncio.timeout(connect_timeout_s)
        has_listed = False

        def take(frame: Mapping[str, Any]) -> None:
            nonlocal has_listed
            if frame["op"] == "listed":
                if not has_listed:
                    limit.reschedule(None)
                has_listed = True
                on_listed(frame["server"], frame["tools"])
            elif frame["op"] == "failed" and isinstance(why := frame.get("detail"), str):
                raise NotConnected(make_printable(why))
            else:
                raise HostGone("sent something that is not an answer")

        try:
            frames = await self.connected(self._first_frame)
            async with limit:
                await self.read(frames, take)
        except asyncio.CancelledError:
            if self.frames is not None:  # in an orderly end the server has the kill grace to go by itself
                with suppress(OSError):
                    self.frames.writer.write_eof()
                await self.frames.ends_within(self._kill_grace_s)
            raise
        except TimeoutError:
            said = (
                f"it did not say who it is and list its tools within {connect_timeout_s:g} s (its connect_timeout_ms)"
            )
            raise NotConnected(said) from None
        except HostGone as gone:
            if has_listed:
                raise
            raise NotConnected(f"its process {gone} before it was ready") from None
        finally:
            self.kill()

    def end(self) -> None:
        """End the process and all it started; nobody asks it any more."""
        self._on_closed()
        super().end()


class _Held(Struct):
    """A process that one session or principal has alone."""

    source: McpSource
    task: asyncio.Task[None]
    users: int = 0
    idle: asyncio.TimerHandle | None = None  # ends it


@dataclass(eq=False, repr=False)
class McpSource:
    """Keep one server connected: run `keep` as a task, `call` its tools; `on_change` hears of each change."""

    name: str
    config: McpServerConfig
    limits: ToolsConfig
    given: Mapping[str, str]
    random: Callable[[], float]
    on_change: Callable[[], None]
    state: State = "starting"
    detail: str = ""
    refused: Sequence[str] = ()
    tools: Mapping[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    ended: list[ServerProcess] = field(default_factory=list[ServerProcess])
    _names: Mapping[str, str] = field(default_factory=dict[str, str])
    _connection: ServerProcess | None = None
    _settled: asyncio.Event = field(default_factory=asyncio.Event)  # ready, or failed: a call need not wait
    _failures: int = 0
    _held: dict[str, _Held] = field(default_factory=dict[str, _Held])  # by whom
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])  # that keep those, or end them

    @property
    def pid(self) -> int | None:
        return None if self._connection is None else self._connection.pid

    async def keep(self) -> None:
        """Stay connected for ever; cancel to end, and the process is gone then."""
        while True:
            await self._live()
            if pause_s := self._pause_s():
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        """End every process of this source, after `keep` has ended."""
        for holder in list(self._held):
            self._let_go(holder)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self.ended:
            connection.wait()
        self.ended.clear()

    async def call(
        self, tool: ToolDefinition, call: ToolCall, *, holder: str, idempotency_key: str, times: CallTimes
    ) -> ToolResult:
        """Make one call within its times, waiting for the server included, in the process that its holder has.

        A call whose server goes away under it is made again if it may be, once; else its outcome is unknown. Over time
        or cancelled: it has ended, or its server's process was killed, before this returns.
        """
        if self.config.per != "worker":
            return await self._call_in_own(holder, tool, call, idempotency_key=idempotency_key, times=times)
        fields = {"arguments": call.arguments, "idempotency_key": idempotency_key}
        loop = asyncio.get_running_loop()
        went = ""
        limit, until = asyncio.timeout(times.silent_s), loop.time() + times.all_s

        def go_on() -> None:
            limit.reschedule(min(until, loop.time() + times.silent_s))

        try:
            async with limit:
                try:
                    result = await self._call_once(tool, fields, go_on)
                    if result.code != NOT_TAKEN:
                        return result
                except HostGone as fault:
                    if not tool.idempotent:
                        raise
                    went = f"the MCP server of {tool.tool_id} {fault} while the call was running; made again, "
                result = await self._call_once(tool, fields, go_on)
                return make_not_done("tool_failed", result.text) if result.code == NOT_TAKEN else result
        except HostGone as gone:
            said = f"the MCP server of {tool.tool_id} {gone} while the call was running"
            return make_not_done("unknown_outcome", f"{said}; what it held between calls is gone")
        except TimeoutError:
            if not limit.expired():
                raise
            is_whole, own = loop.time() >= until, self.config.timeout_ms is not None
            setting = f"tools.mcp_servers.{self.name}.timeout_ms" if own else "tools.timeout_ms"
            over_s, bound = (times.all_s, "its turn's time") if is_whole else (times.silent_s, setting)
            over = f"{went}{tool.tool_id} ran over {over_s:.3f} s ({bound}) and was stopped"
            return make_not_done("deadline_exceeded", f"{over}; what it had done by then is not known")

    async def _call_once(
        self, tool: ToolDefinition, fields: Mapping[str, Any], go_on: Callable[[], None]
    ) -> ToolResult:
        await self._settled.wait()
        connection = self._connection
        if connection is None or self.state != "ready":
            said = f"the MCP server {self.name} is not connected: {self.detail}; nothing was run"
            return make_not_done("tool_failed", said)
        if tool.tool_id not in self._names:
            return make_not_done(
                "tool_failed", f"the MCP server {self.name} lists {tool.tool_id} no more; nothing was run"
            )
        result = await connection.call({"tool": self._names[tool.tool_id], **fields}, on_progress=go_on)
        result.held_by = f"{self.name}/{connection.pid}"
        if result.code == NOT_TAKEN:
            connection.end()  # whoever calls next waits for another one
        return result

    async def _call_in_own(
        self, holder: str, tool: ToolDefinition, call: ToolCall, *, idempotency_key: str, times: CallTimes
    ) -> ToolResult:
        """Make the call in the process of this session, or principal, alone."""
        held = self._held.get(holder) or self._make_for(holder)
        if held is None:
            said = f"{len(self._held)} processes of the MCP server {self.name} are at work"
            return make_not_done("tool_failed", f"{said}; nothing was run: try again later")
        held.users += 1
        if held.idle is not None:
            held.idle.cancel()
        try:
            return await held.source.call(tool, call, holder=holder, idempotency_key=idempotency_key, times=times)
        finally:
            held.users -= 1
            if not held.users:
                idle_s = limits.MCP_IDLE_MS / 1000
                held.idle = asyncio.get_running_loop().call_later(idle_s, self._let_go, holder)

    def _make_for(self, holder: str) -> _Held | None:
        """Return a process for this holder, in place of an unused one if there are many; None if all are in use."""
        if len(self._held) >= limits.MCP_PROCESSES_MAX:
            unused = next((name for name, held in self._held.items() if not held.users), None)
            if unused is None:
                return None
            self._let_go(unused)
        source = McpSource(
            self.name, self.config.model_copy(update={"per": "worker"}), self.limits,
            given=self.given, random=self.random, on_change=_tell_nobody,
        )  # fmt: skip
        task = asyncio.get_running_loop().create_task(source.keep())
        task.add_done_callback(lambda _task: self._tasks.discard(task) or self._reap_soon(source.ended))
        self._tasks.add(task)
        held = self._held[holder] = _Held(source, task)
        return held

    def _let_go(self, holder: str) -> None:
        held = self._held.pop(holder)
        if held.idle is not None:
            held.idle.cancel()
        held.task.cancel()

    def _reap_soon(self, ended: Sequence[ServerProcess]) -> None:
        """Let these processes go; after the end of their sockets none stays in the table of processes."""
        self.ended += ended
        asyncio.get_running_loop().call_later(limits.CHILDREN_REAPED_MS / 1000, self._reap)

    def _reap(self) -> None:
        self.ended = [one for one in self.ended if one is self._connection or not one.is_reaped()]

    async def _live(self) -> None:
        """Live one life of the process, from start to end."""
        settings = self.limits.model_dump(include={"limits", "output_max_bytes"})
        configure = {
            "server": self.config.model_dump(mode="json"),
            "given": select_allowed(list(list_referred(self.config.model_dump(mode="json"))), self.given),
            "message_max_bytes": limits.MESSAGE_MAX_BYTES,
            "listed_max": limits.LISTED_MAX,
            **settings,
        }
        began = asyncio.get_running_loop().time()
        try:
            self._connection = ServerProcess(configure, self._settled.clear)
            self.ended.append(self._connection)
            await self._connection.serve(self._take_listing, connect_timeout_s=self.config.connect_timeout_ms / 1000)
        except NotConnected as error:
            self._failures += 1
            self._note_lost("failed", str(error))
        except OSError as error:
            self._failures += 1
            self._note_lost("failed", f"its process cannot be started: {error.strerror}")
        except HostGone as gone:
            # It had been in order: the next try says more. One that ends again and again has ever longer pauses.
            lived_s = asyncio.get_running_loop().time() - began
            self._failures = 0 if lived_s > limits.RECONNECT_MAX_MS / 1000 else self._failures + 1
            self._note_lost("starting", f"its process {gone}: connecting again")
        finally:
            self._connection = None
            self._reap_soon(())
            if self.state == "failed":
                self._settled.set()  # calls are told so at once

    def _take_listing(self, who: str, listed: Sequence[Mapping[str, Any]]) -> None:
        found = take_listed(self.name, self.config, listed)
        self.tools, self._names = found.tools, found.names
        self.state, self.detail = "ready", make_printable(who)
        self.refused = [make_printable(line) for line in found.refused]
        self._settled.set()
        _log.info("mcp_server_ready", server=self.name, tools=len(found.tools), refused=len(found.refused))
        self.on_change()

    def _note_lost(self, state: State, detail: str) -> None:
        _log.warning("mcp_server_lost", server=self.name, state=state, detail=detail)
        self.state, self.detail, self.refused = state, make_printable(detail), ()
        if state == "failed":
            self.tools, self._names = {}, {}
        self.on_change()

    def _pause_s(self) -> float:
        """Return the back-off: doubled with each failure in a row, with jitter to spread workers out."""
        if not self._failures:
            return 0.0
        most = limits.RECONNECT_MAX_MS / 1000
        pause = min(most, limits.RECONNECT_MIN_MS / 1000 * 2 ** min(self._failures - 1, 30))
        return pause * (0.5 + self.random() / 2)


def _tell_nobody() -> None:
    """Do nothing: the process that everybody shares has told of the tools."""
