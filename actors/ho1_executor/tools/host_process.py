"""A process that runs foreign code, as its worker holds it: started, heard, ended with all that it started, reaped.

It runs tools (`child_main`) or one MCP server (`mcp_servers/process.py`). It shares nothing with its worker but one
socket pair for frames and, where tools run, a pipe that takes what they print.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, NoReturn

from hobus.actors.ho1_executor.tools import keeper
from hobus.actors.ho1_executor.tools.definition import Request, ToolFault, ToolResult, refuse_request
from hobus.actors.ho1_executor.tools.protocol import (
    FRAME_OVERHEAD_BYTES,
    PREFIX_BYTES,
    BadFrame,
    is_request,
    pack_frame,
    read_frame_size,
    read_result,
    unpack_frame,
)

_UNREAD_MAX = 1024
"""Frames of one call that its worker has not looked at: a tool asks and waits, so more is a flood."""
_EXIT_LOOKS, _EXIT_LOOK_S = 50, 0.002
"""At how a process ended, whose socket has."""
ENDED = "ended"
"""By itself."""
_NOT_BEGUN: dict[str, Any] = {"op": "result"}
"""Stands for the answer to a call that the process will never begin."""


class HostGone(Exception):
    """Say that the process ended, or sent something that is not an answer."""


class CallNotBegun(Exception):
    """Say that the process has not begun this call, and never will: another one may take it."""


@dataclass(slots=True, eq=False)
class Frames:
    """Send and receive frames over a connected socket."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    max_bytes: int = sys.maxsize

    def write(self, op: str, **fields: Any) -> None:
        """Send one frame, or nothing where nothing can be sent any more."""
        if not self.writer.transport.is_closing():
            self.writer.write(pack_frame(op, **fields))

    async def send(self, op: str, **fields: Any) -> None:
        """Hand one frame to the kernel; whether it arrives shows in what is received."""
        self.write(op, **fields)
        with suppress(ConnectionError):
            await self.writer.drain()

    async def receive(self) -> dict[str, Any]:
        """Return the next frame. Raises HostGone."""
        try:
            size = read_frame_size(await self.reader.readexactly(PREFIX_BYTES), self.max_bytes)
            return unpack_frame(await self.reader.readexactly(size))
        except BadFrame:
            raise HostGone("sent something that is not an answer") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise HostGone(ENDED) from None

    async def ends_within(self, limit_s: float) -> bool:
        """Return whether the other end closes the socket in that time; drop what it says until then."""
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(limit_s):
                while await self.reader.read(PREFIX_BYTES * FRAME_OVERHEAD_BYTES):
                    pass
                return True
        return False


class HostProcess:
    """One process from its start to its end, and the calls that are made in it.

    Theory of operation. `read` is its one long-lived task: it hands what comes to the calls that it is for, until the
    process ends or talks nonsense; then every call in flight raises HostGone. A call that is cancelled ends in the
    process, or the process does.
    """

    def __init__(self, start: Start, *, frame_max_bytes: int, kill_grace_s: float, prints: int | None = None) -> None:
        """Start the process; `start` gives it its end of the socket. Raises OSError.

        `prints`: what it prints into; None: nowhere.
        """
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = start(theirs.fileno(), prints)
        self._socket.setblocking(False)  # noqa: FBT003 - positional only
        self._frame_max_bytes = frame_max_bytes + FRAME_OVERHEAD_BYTES
        self._kill_grace_s = kill_grace_s
        self._calls: dict[int, asyncio.Queue[dict[str, Any] | None]] = {}
        self._numbers = count(1)
        self._why_ended = ENDED
        self.frames: Frames | None = None
        """Once it was connected."""

    @property
    def pid(self) -> int:
        """Return the pid of the process, which is that of its group."""
        return self._process.pid

    async def connected(self, first_frame: bytes) -> Frames:
        if self.frames is None:
            reader, writer = await asyncio.open_connection(sock=self._socket)
            writer.write(first_frame)
            self.frames = Frames(reader, writer, max_bytes=self._frame_max_bytes)
        return self.frames

    async def read(self, frames: Frames, take_other: Callable[[dict[str, Any]], None]) -> NoReturn:
        """Hand frames to their calls, others to `take_other`. Raises HostGone; the caller then kills the process."""
        while True:
            frame = await frames.receive()
            if frame["op"] not in ("result", "request", "progress"):
                take_other(frame)
                continue
            number = frame.get("n")
            heard = self._calls.get(number) if isinstance(number, int) else None
            is_answer = frame["op"] == "progress" or is_request(frame) or read_result(frame) is not None
            if heard is None or heard.qsize() >= _UNREAD_MAX or not is_answer:
                raise HostGone("sent something that is not an answer")
            heard.put_nowait(frame)

    async def call(
        self,
        fields: Mapping[str, Any],
        request: Request = refuse_request,
        *,
        op: str = "call",
        may_yield: bool = True,
        on_progress: Callable[[], None] = lambda: None,
    ) -> ToolResult:
        """Return the result of one call; `on_progress` hears when the process goes on with it. Raises HostGone.

        Cancelled: the process is told; if the call has not ended within the kill grace (`may_yield`: it might), the
        process is killed, and what else is in flight there with it. When this returns or raises, the call is over.
        """
        frames = self.frames
        if frames is None or frames.writer.transport.is_closing():
            raise HostGone(self._why_ended)
        number = next(self._numbers)
        heard = self._calls[number] = asyncio.Queue[dict[str, Any] | None]()
        try:
            await frames.send(op, n=number, **fields)
            while (frame := await heard.get()) is not None:
                if frame is _NOT_BEGUN:
                    raise CallNotBegun
                if (result := read_result(frame)) is not None:
                    return result
                if frame["op"] == "progress":
                    on_progress()
                    continue
                try:
                    answer = {"value": await request(frame["service"], frame["type"], frame["body"])}
                except ToolFault as fault:
                    answer = {"fault": str(fault)}
                await frames.send("reply", n=number, **answer)
            raise HostGone(self._why_ended)
        except asyncio.CancelledError:
            await self._stop(number, heard, frames, str(fields.get("tool_id") or fields["tool"]), may_yield=may_yield)
            raise
        finally:
            self._calls.pop(number, None)

    async def _stop(
        self,
        number: int,
        heard: asyncio.Queue[dict[str, Any] | None],
        frames: Frames,
        name: str,
        *,
        may_yield: bool,
    ) -> None:
        has_ended = False
        try:
            if may_yield:
                frames.write("cancel", n=number)
                has_ended = await self._ends_in_time(heard)
            if not has_ended:
                self._why_ended = f"was ended, since {name} in it did not stop"
                self.end()
                has_ended = await self._ends_in_time(heard)  # by the end of the socket: its keeper goes last
                if not has_ended:
                    self.kill_group()  # dying in the kernel, or the keeper is not heard of
        finally:
            if not has_ended:
                self.kill()

    async def _ends_in_time(self, heard: asyncio.Queue[dict[str, Any] | None]) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._kill_grace_s):
                while (frame := await heard.get()) is not None and frame["op"] != "result":
                    pass  # it asks; nobody answers it any more
                return True
        return False

    def give_back(self, begun: Collection[int]) -> None:
        """Have every call but those that have begun raise CallNotBegun: the process will not begin them."""
        for number, heard in self._calls.items():
            if number not in begun:
                heard.put_nowait(_NOT_BEGUN)

    def has_ended(self) -> bool:
        """Return whether the process is gone, without reaping it."""
        if self._process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self) -> None:
        """End or kill the process with all that it started, unless it is reaped: until then its pid is its own."""
        if self._process.returncode is None:
            keeper.end(self.pid)

    def kill(self) -> None:
        """Kill the process and all it started with SIGKILL; calls in flight fail. Idempotent."""
        self.end()
        if self.frames is not None:
            self.frames.writer.transport.abort()
        else:
            self._socket.close()
        for heard in self._calls.values():
            heard.put_nowait(None)
        self._calls.clear()

    def kill_group(self) -> None:
        """Kill what is left in the process's group with SIGKILL, its keeper too."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def is_reaped(self) -> bool:
        """Return whether nothing of the process is left to wait for."""
        return self._process.poll() is not None

    async def exit_words(self) -> str:
        """How it ended by itself, behind that it has; its socket is over a moment earlier than it is."""
        for _ in range(_EXIT_LOOKS):
            if (code := self._process.poll()) is not None:
                number = -code if code < 0 else code - keeper.SIGNAL_EXIT
                if number > 0:
                    return f" by signal {number} ({signal.strsignal(number)})"
                return f" with exit status {code}"
            with suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_LOOK_S):
                    await asyncio.get_running_loop().create_future()
        return ""

    def wait(self) -> None:
        """Reap the process; after `end` alone."""
        self._process.wait()


def start_interpreter(module: str, *arguments: str) -> Start:
    """Start a fresh interpreter with this module: for a worker that has sockets and a loop, which no tool may hold."""

    def start(frames: int, prints: int | None) -> Process:
        return subprocess.Popen(  # noqa: S603 - this interpreter, this package's own module
            [sys.executable, "-P", "-m", module, str(os.getpid()), *arguments],
            stdin=frames,
            stdout=subprocess.DEVNULL if prints is None else prints,
            start_new_session=True,  # so that a kill reaches whatever the tool started
        )

    return start


def may_fork() -> bool:
    """Return whether a copy of this process would hold neither a thread nor a loop: while a worker is being made."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        try:
            return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - counted, no path is made
        except OSError:
            return False
    return False


class ForkedProcess:
    """A child of this process that no `Popen` made, with the parts of Popen that are used."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        return self.wait(os.WNOHANG)

    def wait(self, options: int = 0) -> int | None:
        """Return the exit code once the process has ended; 0 where somebody else reaped it."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


Process = subprocess.Popen[bytes] | ForkedProcess
Start = Callable[[int, int | None], Process]
"""(descriptor of its end of the frames' socket, of the pipe that it prints into or None) -> the process."""
