"""The process of one MCP server as its worker holds it: started, asked any number of calls at once, killed.

The process keeps the server and all that it starts (`tools/keeper.py`), so that one kill reaches them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from hobus.actors.ho1_executor.mcp_servers.frames import failure_in, is_listed
from hobus.actors.ho1_executor.tools import keeper
from hobus.actors.ho1_executor.tools.child import ChildGone
from hobus.actors.ho1_executor.tools.definition import ToolResult, not_done
from hobus.actors.ho1_executor.tools.protocol import (
    FRAME_OVERHEAD_BYTES,
    PREFIX_BYTES,
    BadFrame,
    frame_size,
    is_result,
    pack_frame,
    unpack_frame,
)

PROCESS_MODULE = "hobus.actors.ho1_executor.mcp_servers.process"

Listed = Callable[[str, list[dict[str, Any]]], None]
"""(who the server is, its tools) -> None; called at each listing."""


class NotConnected(Exception):
    """The server cannot be used; the message says why."""


class Connection:
    """One incarnation of a server's process, from start to end."""

    def __init__(
        self,
        configure: Mapping[str, Any],
        *,
        frame_max_bytes: int,
        kill_grace_s: float,
        on_closed: Callable[[], None],
    ) -> None:
        """Starts it. Raises OSError. `on_closed` is called before anybody can ask a killed process for a call."""
        self._on_closed = on_closed
        self._frame_max_bytes = frame_max_bytes + FRAME_OVERHEAD_BYTES
        self._kill_grace_s = kill_grace_s
        self._configure = pack_frame("configure", **configure)
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, this package's own module
                [sys.executable, "-P", "-m", PROCESS_MODULE, str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        ours.setblocking(False)  # noqa: FBT003 - positional only
        self._socket = ours
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._calls: dict[int, asyncio.Future[ToolResult]] = {}
        self._numbers = count(1)

    @property
    def pid(self) -> int:
        """Of the process, and of its group."""
        return self._process.pid

    async def serve(self, on_listed: Listed, *, connect_timeout_s: float) -> None:
        """Reads until the process ends: first its listing, within the time-out, then results.

        Raises NotConnected if the server never got ready, ChildGone when it ends later or talks nonsense. Calls in
        flight fail with ChildGone; the process and all it started are gone.
        """
        has_listed = False
        try:
            self._reader, self._writer = await asyncio.open_connection(sock=self._socket)
            reader = self._reader
            self._writer.write(self._configure)
            limit = asyncio.timeout(connect_timeout_s)
            async with limit:
                while True:
                    frame = await self._receive(reader)
                    if is_listed(frame):
                        if not has_listed:
                            limit.reschedule(None)
                        has_listed = True
                        on_listed(frame["server"], frame["tools"])
                    elif (why := failure_in(frame)) is not None:
                        raise NotConnected(why)
                    elif not self._settle(frame):
                        raise ChildGone("said something that is no answer")
        except asyncio.CancelledError:
            await self._let_end()
            raise
        except TimeoutError:
            said = f"it did not say who it is and list its tools within {connect_timeout_s:.3f} s"
            raise NotConnected(said) from None
        except (BadFrame, asyncio.IncompleteReadError, ConnectionError) as error:
            how = "said something that is no answer" if isinstance(error, BadFrame) else "ended"
            raise (ChildGone(how) if has_listed else NotConnected(f"its process {how} before it was ready")) from None
        finally:
            self.kill()

    async def call(self, fields: Mapping[str, Any]) -> ToolResult:
        """The result of one call. Raises ChildGone.

        Cancelled: the server is told; if the call has not ended within the kill grace, its process is killed, and what
        else is in flight there with it. When this returns or raises, the call is over.
        """
        if self._writer is None or self._writer.transport.is_closing():
            raise ChildGone("ended")
        number = next(self._numbers)
        ended: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._calls[number] = ended
        try:
            self._write("call", n=number, **fields)
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            if not ended.done():
                await self._stop(number, ended)
            raise
        finally:
            self._calls.pop(number, None)
            if ended.done() and not ended.cancelled():
                ended.exception()  # it was awaited, or nobody wants it any more

    async def _stop(self, number: int, ended: asyncio.Future[ToolResult]) -> None:
        has_ended = False
        try:
            self._write("cancel", n=number)
            has_ended = await self._ends_in_time(ended)
            if not has_ended:
                self._end()
                has_ended = await self._ends_in_time(ended)  # by the end of the socket: its keeper goes last
                if not has_ended:
                    os.killpg(self._process.pid, signal.SIGKILL)  # the keeper is not heard of
        finally:
            if not has_ended:
                self.kill()

    async def _ends_in_time(self, ended: asyncio.Future[ToolResult]) -> bool:
        try:
            async with asyncio.timeout(self._kill_grace_s):
                with suppress(ChildGone):
                    await asyncio.shield(ended)
        except TimeoutError:
            return False
        return True

    def _end(self) -> None:
        """Told to end, with all it started; nobody asks it any more."""
        self._on_closed()
        if self._process.returncode is None:  # not reaped yet, dead or not: its number is its own
            keeper.end(self._process.pid)

    async def _let_end(self) -> None:
        """In an orderly end the server sees the end of its input, and has the kill grace to go by itself."""
        if self._writer is None or self._reader is None:
            return
        with suppress(TimeoutError, ConnectionError):
            self._writer.write_eof()
            async with asyncio.timeout(self._kill_grace_s):
                while await self._reader.read(PREFIX_BYTES * FRAME_OVERHEAD_BYTES):
                    pass

    def kill(self) -> None:
        """The process ends and all it started gets SIGKILL; calls in flight fail. Does no harm twice."""
        self._end()
        if self._writer is not None:
            self._writer.transport.abort()
        else:
            self._socket.close()
        for ended in self._calls.values():
            if not ended.done():
                ended.set_exception(ChildGone("ended"))
        self._calls.clear()

    def is_reaped(self) -> bool:
        """Whether nothing of it is left to wait for."""
        return self._process.poll() is not None

    def wait(self) -> None:
        """Reaped; call it after `kill` alone."""
        self._process.wait()

    def _write(self, op: str, **fields: Any) -> None:
        if self._writer is not None and not self._writer.transport.is_closing():
            self._writer.write(pack_frame(op, **fields))

    def _settle(self, frame: dict[str, Any]) -> bool:
        number = frame.get("n")
        if not isinstance(number, int) or not is_result(frame, number):
            return False
        ended = self._calls.get(number)
        if ended is not None and not ended.done():
            ended.set_result(ToolResult(frame["ok"], frame["code"], frame["text"], frame["truncated"]))
        return True

    async def _receive(self, reader: asyncio.StreamReader) -> dict[str, Any]:
        size = frame_size(await reader.readexactly(PREFIX_BYTES), self._frame_max_bytes)
        return unpack_frame(await reader.readexactly(size))


def gone_result(tool_id: str, gone: ChildGone) -> ToolResult:
    """What stands for the result of a call whose process went away under it."""
    return not_done("unknown_outcome", f"the MCP server of {tool_id} {gone} while the call was running")
