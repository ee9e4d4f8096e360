"""The process of one MCP server as its worker holds it: started, asked any number of calls at once, killed.

The process keeps the server and all that it starts (`tools/keeper.py`), so that one kill reaches them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from hobus.actors.ho1_executor.mcp_servers.listing import is_listing, printable
from hobus.actors.ho1_executor.tools.host_process import HostGone, HostProcess, interpreter
from hobus.actors.ho1_executor.tools.protocol import pack_frame

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
        super().__init__(interpreter(PROCESS_MODULE), frame_max_bytes=frame_max_bytes, kill_grace_s=kill_grace_s)
        self._on_closed = on_closed
        self._first_frame = pack_frame("configure", **configure)

    async def serve(self, on_listed: Listed, *, connect_timeout_s: float) -> None:
        """Reads until the process ends: first its listing, within the time-out, then results.

        Raises NotConnected if the server never got ready, HostGone when it ends later or talks nonsense. Calls in
        flight fail with HostGone; the process and all it started are gone.
        """
        limit = asyncio.timeout(connect_timeout_s)
        has_listed = False

        def take(frame: Mapping[str, Any]) -> None:
            nonlocal has_listed
            if _is_listed(frame):
                if not has_listed:
                    limit.reschedule(None)
                has_listed = True
                on_listed(frame["server"], frame["tools"])
            elif frame["op"] == "failed" and isinstance(why := frame.get("detail"), str):
                raise NotConnected(printable(why))
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
            said = f"it did not say who it is and list its tools within {connect_timeout_s:.3f} s"
            raise NotConnected(said) from None
        except HostGone as gone:
            if has_listed:
                raise
            raise NotConnected(f"its process {gone} before it was ready") from None
        finally:
            self.kill()

    def end(self) -> None:
        """Told to end, with all it started; nobody asks it any more."""
        self._on_closed()
        super().end()


def _is_listed(frame: Mapping[str, Any]) -> bool:
    """Whether it is a well-formed listing."""
    return frame["op"] == "listed" and isinstance(frame.get("server"), str) and is_listing(frame.get("tools"))
