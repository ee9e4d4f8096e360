"""One tool process as its worker holds it: started, asked, killed, replaced. One call at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from hobus.actors.ho1_executor.tools import child_main, keeper
from hobus.actors.ho1_executor.tools.definition import ToolFault, ToolResult
from hobus.actors.ho1_executor.tools.outside import Request
from hobus.actors.ho1_executor.tools.protocol import (
    FRAME_OVERHEAD_BYTES,
    PREFIX_BYTES,
    BadFrame,
    frame_size,
    is_request,
    is_result,
    pack_frame,
    unpack_frame,
)

CHILD_MODULE = "hobus.actors.ho1_executor.tools.child_main"


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """What every process of one worker is started with."""

    configure: Callable[[], bytes]  # the first frame
    output_max_bytes: int
    kill_grace_s: float  # how long the end of a killed process is waited for
    kept: bool  # whether it has a keeper, since its tools may start processes


class ChildGone(Exception):
    """The process ended, or said something that is no answer, in the middle of a call."""


class Child:
    """A place for one process; `call` starts a new one whenever the last one is gone."""

    def __init__(self, settings: ChildSettings) -> None:
        self._settings = settings
        self._process: Process | None = None
        self._socket: socket.socket | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._killed: list[Process] = []

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """A running process; nothing to do if there is one. Needs no event loop: call it before sockets exist."""
        self._reap()
        if self._process is not None:
            if not has_ended(self._process.pid):
                return
            self._end()
            self._discard()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = (_forked if may_fork() else _started)(theirs.fileno(), kept=self._settings.kept)
        ours.settimeout(0)
        self._socket = ours

    async def call(self, number: int, fields: Mapping[str, Any], request: Request, *, op: str = "call") -> ToolResult:
        """The result of one call. Raises ChildGone; the caller then calls `kill`, as it must after a cancellation."""
        self.start()
        try:
            reader, writer = await self._connected()
            writer.write(pack_frame(op, n=number, **fields))
            while True:
                await writer.drain()
                frame = await self._receive(reader)
                if is_result(frame, number):
                    return ToolResult(frame["ok"], frame["code"], frame["text"], frame["truncated"])
                if not is_request(frame, number):
                    raise ChildGone("said something that is no answer")
                writer.write(await _answer(number, frame, request))
        except BadFrame:
            raise ChildGone("said something that is no answer") from None
        except (asyncio.IncompleteReadError, ConnectionError, BrokenPipeError):
            raise ChildGone("ended") from None

    async def kill(self) -> None:
        """The process and all it started are gone (SIGKILL), seen by the end of its socket within the kill grace."""
        reader = self._reader
        if self._process is None:
            return
        self._end()
        try:
            async with asyncio.timeout(self._settings.kill_grace_s):
                while reader is not None and await reader.read(PREFIX_BYTES * FRAME_OVERHEAD_BYTES):
                    pass
        except (TimeoutError, ConnectionError):
            self._kill_group()  # dying in the kernel, or its keeper is not heard of; it is reaped later
        finally:
            self._discard()

    async def close(self) -> None:
        """Killed, reaped, its socket closed; for the end of the worker."""
        if self._process is not None:
            self._end()
        writer = self._writer
        self._discard()
        if writer is not None:
            with suppress(ConnectionError):
                await writer.wait_closed()
        for process in self._killed:
            process.wait()
        self._killed.clear()

    def _end(self) -> None:
        """Told or killed, and all it started with it; it is not reaped yet, so that its number is its own."""
        if self._process is None:
            return
        if self._settings.kept:
            keeper.end(self._process.pid)
        else:
            self._kill_group()

    def _kill_group(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(sock=self._socket)
            self._writer.write(self._settings.configure())
        return self._reader, self._writer

    async def _receive(self, reader: asyncio.StreamReader) -> dict[str, Any]:
        limit = self._settings.output_max_bytes + FRAME_OVERHEAD_BYTES
        size = frame_size(await reader.readexactly(PREFIX_BYTES), limit)
        return unpack_frame(await reader.readexactly(size))

    def _discard(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        elif self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._killed.append(self._process)
        self._process = self._socket = self._reader = self._writer = None
        self._reap()

    def _reap(self) -> None:
        self._killed = [process for process in self._killed if process.poll() is None]


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


def has_ended(pid: int) -> bool:
    """Whether a child of this process has; it is not reaped by the question."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _started(frames: int, *, kept: bool) -> Process:
    """A fresh interpreter: for a worker that has sockets and a loop, which no tool may hold."""
    return subprocess.Popen(  # noqa: S603 - this interpreter, this package's own module
        [sys.executable, "-P", "-m", CHILD_MODULE, str(os.getpid()), str(int(kept))],
        stdin=frames,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # so that a kill reaches whatever the tool started
    )


def _forked(frames: int, *, kept: bool) -> Process:
    """A copy of this process, which has loaded everything: it shares that memory, and is there at once."""
    worker = os.getpid()
    pid = os.fork()
    if pid:
        return ForkedProcess(pid)
    try:
        os.setsid()
        os.dup2(frames, 0)
        child_main.live(worker, kept=kept)
    except BaseException:  # noqa: BLE001 - the last place that can say anything
        traceback.print_exc()
    finally:
        os._exit(1)


class Process(Protocol):
    """What a started process and a forked one have in common."""

    @property
    def pid(self) -> int:
        """Its own until it is reaped."""
        ...

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        ...

    def wait(self) -> int:
        """The same, when it has ended."""
        ...


class ForkedProcess:
    """A child of this process that no `Popen` made."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        """The same, when it has ended."""
        code = self._reap(0)
        return 0 if code is None else code

    def _reap(self, options: int) -> int | None:
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


async def _answer(number: int, frame: Mapping[str, Any], request: Request) -> bytes:
    try:
        return pack_frame("reply", n=number, value=await request(frame["service"], frame["type"], frame["body"]))
    except ToolFault as fault:
        return pack_frame("reply", n=number, fault=str(fault))
