"""A process that runs foreign code, as its worker holds it: started, heard, ended with all that it started, reaped.

It runs tools (`child_main`) or one MCP server (`mcp_servers/process.py`). It shares nothing with its worker but one
socket pair for frames and, where tools run, another one, by which it gets the pipes that take what they print.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

from hobus.actors.ho1_executor.tools import keeper
from hobus.actors.ho1_executor.tools.protocol import (
    FRAME_OVERHEAD_BYTES,
    PREFIX_BYTES,
    BadFrame,
    frame_size,
    pack_frame,
    unpack_frame,
)


class HostGone(Exception):
    """The process ended, or sent something that is not an answer."""


class Frames:
    """Frames to and from the other end of a connected socket."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, max_bytes: int = sys.maxsize
    ) -> None:
        self._reader = reader
        self.writer = writer
        self._max_bytes = max_bytes

    def write(self, op: str, **fields: Any) -> None:
        """One frame; nothing where nothing can be sent any more."""
        if not self.writer.transport.is_closing():
            self.writer.write(pack_frame(op, **fields))

    async def send(self, op: str, **fields: Any) -> None:
        """One frame, handed to the kernel; whether it arrives shows in what is received."""
        self.write(op, **fields)
        with suppress(ConnectionError):
            await self.writer.drain()

    async def receive(self) -> dict[str, Any]:
        """The next frame. Raises HostGone."""
        try:
            size = frame_size(await self._reader.readexactly(PREFIX_BYTES), self._max_bytes)
            return unpack_frame(await self._reader.readexactly(size))
        except BadFrame:
            raise HostGone("sent something that is not an answer") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise HostGone("ended") from None

    async def ends_within(self, limit_s: float) -> bool:
        """Whether the other end closes the socket in that time; what it says until then is dropped."""
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(limit_s):
                while await self._reader.read(PREFIX_BYTES * FRAME_OVERHEAD_BYTES):
                    pass
                return True
        return False


class HostProcess:
    """One process from its start to its end."""

    def __init__(self, start: Start, *, frame_max_bytes: int, is_kept: bool, has_line: bool = False) -> None:
        """`start` makes the process, which has its end of the sockets under the descriptors given. Raises OSError.

        Needs no event loop: call it before sockets exist, where they must not be inherited. `is_kept`: it has a keeper.
        `has_line`: it gets pipes to print into; else what it prints goes nowhere.
        """
        self._socket, theirs = socket.socketpair()
        self._line, its_line = socket.socketpair() if has_line else (None, None)
        with theirs, its_line or nullcontext():
            self._process = start(theirs.fileno(), None if its_line is None else its_line.fileno())
        self._socket.setblocking(False)  # noqa: FBT003 - positional only
        self._frame_max_bytes = frame_max_bytes + FRAME_OVERHEAD_BYTES
        self._is_kept = is_kept
        self.frames: Frames | None = None
        """Once it was connected."""

    @property
    def pid(self) -> int:
        """Of the process, and of its group."""
        return self._process.pid

    async def connected(self, configure: Callable[[], bytes]) -> Frames:
        """Its frames; the first one that it gets is `configure`."""
        if self.frames is None:
            reader, writer = await asyncio.open_connection(sock=self._socket)
            writer.write(configure())
            self.frames = Frames(reader, writer, max_bytes=self._frame_max_bytes)
        return self.frames

    def hand(self, pipe: int) -> None:
        """What it is asked next prints into this descriptor. Raises HostGone."""
        if self._line is not None:
            try:
                socket.send_fds(self._line, [b"\0"], [pipe])  # one byte for each call: it is never full
            except OSError:
                raise HostGone("ended") from None

    def has_ended(self) -> bool:
        """Whether it is gone; it is not reaped by the question."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self) -> None:
        """Told or killed, and all that it started with it, unless it is reaped: until then its number is its own."""
        if self._process.returncode is None:
            if self._is_kept:
                keeper.end(self.pid)
            else:
                self.kill_group()

    def kill_group(self) -> None:
        """What is left in its group gets SIGKILL, its keeper too."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def hang_up(self) -> None:
        """The sockets are closed."""
        if self._line is not None:
            self._line.close()
        if self.frames is not None:
            self.frames.writer.transport.abort()
        else:
            self._socket.close()

    def is_reaped(self) -> bool:
        """Whether nothing of it is left to wait for."""
        return self._process.poll() is not None

    def wait(self) -> None:
        """Reaped; after `end` alone."""
        self._process.wait()


def interpreter(module: str, *arguments: str) -> Start:
    """Starts a fresh interpreter with this module: for a worker that has sockets and a loop, which no tool may hold."""

    def start(frames: int, line: int | None) -> Process:
        return subprocess.Popen(  # noqa: S603 - this interpreter, this package's own module
            [sys.executable, "-P", "-m", module, str(os.getpid()), *arguments],
            stdin=frames,
            stdout=subprocess.DEVNULL if line is None else line,
            start_new_session=True,  # so that a kill reaches whatever the tool started
        )

    return start


def may_fork() -> bool:
    """Whether a copy of this process would hold neither a thread nor a loop: true while a worker is being made."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        try:
            return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - counted, no path is made
        except OSError:
            return False
    return False


class ForkedProcess:
    """A child of this process that no `Popen` made; as one, as far as it is used."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self.wait(os.WNOHANG)

    def wait(self, options: int = 0) -> int | None:
        """Its exit code, once it has ended; 0 where somebody else reaped it."""
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
"""(descriptor of its end of the frames' socket, of the line or None) -> the process."""
