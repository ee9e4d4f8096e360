"""The process of one MCP server as its worker holds it: started, asked any number of calls at once, killed.

The process keeps the server and all that it starts (`tools/keeper.py`), so that one kill reaches them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from hobus.actors.ho1_executor.mcp_servers.listing import is_listing, printable
from hobus.actors.ho1_executor.tools.definition import ToolResult
from hobus.actors.ho1_executor.tools.host_process import HostGone, HostProcess, interpreter
from hobus.actors.ho1_executor.tools.protocol import pack_frame, result_in

PROCESS_MODULE = "hobus.actors.ho1_executor.mcp_servers.process"

Listed = Callable[[str, list[dict[str, Any]]], None]
"""(who the server is, its tools) -> None; called at each listing."""


class NotConnected(Exception):
    """The server cannot be used; the message says why."""


class ServerProcess(HostProcess):
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
        super().__init__(interpreter(PROCESS_MODULE), frame_max_bytes=frame_max_bytes, is_kept=True)
        self._on_closed = on_closed
        self._kill_grace_s = kill_grace_s
        self._first_frame = pack_frame("configure", **configure)
        self._calls: dict[int, asyncio.Future[ToolResult]] = {}
        self._numbers = count(1)

    async def serve(self, on_listed: Listed, *, connect_timeout_s: float) -> None:
        """Reads until the process ends: first its listing, within the time-out, then results.

        Raises NotConnected if the server never got ready, HostGone when it ends later or talks nonsense. Calls in
        flight fail with HostGone; the process and all it started are gone.
        """
        limit = asyncio.timeout(connect_timeout_s)
        has_listed = False
        try:
            frames = await self.connected(lambda: self._first_frame)
            async with limit:
                while True:
                    frame = await frames.receive()
                    if _is_listed(frame):
                        if not has_listed:
                            limit.reschedule(None)
                        has_listed = True
                        on_listed(frame["server"], frame["tools"])
                    elif frame["op"] == "failed" and isinstance(why := frame.get("detail"), str):
                        raise NotConnected(printable(why))
                    else:
                        self._settle(frame)
        except asyncio.CancelledError:
            if self.frames is not None:  # in an orderly end the server has the kill grace to go by itself
                with suppress(OSError):
                    self.frames.writer.write_eof()
                await self.frames.ends_within(self._kill_grace_s)
            raise
        except TimeoutError:
            said = f"it did not say who it is and list its tools within {connect_timeout_s:.3f} s"
            raise NotConnected(said) from None
        except HostGone as gone:
            if has_listed:
                raise
            raise NotConnected(f"its process {gone} before it was ready") from None
        finally:
            self.kill()

    async def call(self, fields: Mapping[str, Any]) -> ToolResult:
        """The result of one call. Raises HostGone.

        Cancelled: the server is told; if the call has not ended within the kill grace, its process is killed, and what
        else is in flight there with it. When this returns or raises, the call is over.
        """
        if self.frames is None or self.frames.writer.transport.is_closing():
            raise HostGone("ended")
        number = next(self._numbers)
        ended: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._calls[number] = ended
        try:
            self.frames.write("call", n=number, **fields)
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            if not ended.done():
                self.frames.write("cancel", n=number)
                await self._stop(ended)
            raise
        finally:
            self._calls.pop(number, None)
            if ended.done() and not ended.cancelled():
                ended.exception()  # it was awaited, or nobody wants it any more

    async def _stop(self, ended: asyncio.Future[ToolResult]) -> None:
        has_ended = False
        try:
            has_ended = await self._ends_in_time(ended)
            if not has_ended:
                self.end()
                has_ended = await self._ends_in_time(ended)  # by the end of the socket: its keeper goes last
                if not has_ended:
                    self.kill_group()  # the keeper is not heard of
        finally:
            if not has_ended:
                self.kill()

    async def _ends_in_time(self, ended: asyncio.Future[ToolResult]) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._kill_grace_s):
                with suppress(HostGone):
                    await asyncio.shield(ended)
                return True
        return False

    def end(self) -> None:
        """Told to end, with all it started; nobody asks it any more."""
        self._on_closed()
        super().end()

    def kill(self) -> None:
        """The process ends and all it started gets SIGKILL; calls in flight fail. Does no harm twice."""
        self.end()
        self.hang_up()
        for ended in self._calls.values():
            if not ended.done():
                ended.set_exception(HostGone("ended"))
        self._calls.clear()

    def _settle(self, frame: dict[str, Any]) -> None:
        result = result_in(frame)
        if result is None:
            raise HostGone("sent something that is not an answer")
        ended = self._calls.get(frame["n"])
        if ended is not None and not ended.done():
            ended.set_result(result)


def _is_listed(frame: Mapping[str, Any]) -> bool:
    """Whether it is a well-formed listing."""
    return frame["op"] == "listed" and isinstance(frame.get("server"), str) and is_listing(frame.get("tools"))
