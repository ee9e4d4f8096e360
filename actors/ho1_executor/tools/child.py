"""One tool process: alone with one call at a time, or shared by calls that wait; and whose words its prints are."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from hobus.actors.ho1_executor.tools.definition import Bounds, Request, ToolResult
from hobus.actors.ho1_executor.tools.host_process import HostGone, HostProcess, Start
from hobus.actors.ho1_executor.tools.print_pipe import PrintCaller, PrintPipe, cut_middle, read_caller

NOBODY = PrintCaller("", "")


class ProcessAttempt(Struct):
    """One try to run something in some process, and how far that came."""

    timeout_s: float
    request: Request
    op: str = "call"
    has_begun: bool = False
    printed: str = ""


class ToolChild(HostProcess):
    """One tool process. `serve` is its one task; `run` may be asked at once."""

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        start: Start,
        *,
        first_frame: bytes,
        bounds: Bounds,
        kill_grace_s: float,
        is_shared: bool,
        on_blocked: Callable[[str], None],
        on_late: Callable[[PrintCaller, str], None],
    ) -> None:
        """Start the process.

        `on_blocked` hears of a tool that keeps the others of a shared process waiting; `on_late` what is printed that
        belongs to no call under way, with its last caller, or nobody where several calls run. Raises OSError.
        """
        size = bounds.output + bounds.said + bounds.files
        self._prints, self._said_bytes = PrintPipe(bounds.said), bounds.said
        try:
            super().__init__(start, frame_max_bytes=size, kill_grace_s=kill_grace_s, prints=self._prints.write_end)
        except OSError:
            self._prints.close()
            raise
        finally:
            os.close(self._prints.write_end)
        self.is_shared = is_shared
        self.is_spent = False
        """It takes no other call: it has lost its streams, or a call holds it up."""
        self.users = 0
        self.idle: asyncio.TimerHandle | None = None  # ends it
        self._first_frame = first_frame
        self._on_blocked = on_blocked
        self._on_late = on_late
        self._running: list[ProcessAttempt] = []
        self._caller = NOBODY
        self._is_ready = asyncio.Event()

    async def serve(self) -> None:
        """Serve until the process ends; then nothing of it is left but its exit code."""
        try:
            with suppress(HostGone, OSError):
                frames = await self.connected(self._first_frame)
                self._is_ready.set()
                await self.read(frames, self._take)
        finally:
            self.kill()
            self._is_ready.set()
            self._share_out()
            self._prints.close()

    async def run(self, fields: Mapping[str, Any], attempt: ProcessAttempt) -> ToolResult:
        """Return the result of one call; what it printed stands in the attempt, whatever happens. Raises HostGone."""
        await self._is_ready.wait()
        self._share_out()
        self._running.append(attempt)
        self._caller = read_caller(fields)
        try:
            return await self.call(fields, attempt.request, op=attempt.op, may_yield=self.is_shared)
        finally:
            self._share_out()
            self._running = [one for one in self._running if one is not attempt]

    def kill(self) -> None:
        """Kill the process; whoever is about to ask it takes another one."""
        self.is_spent = True
        super().kill()

    def _share_out(self) -> None:
        """Give what was printed since a call last began or ended to the one that ran meanwhile, if one did."""
        if text := self._prints.taken():
            if len(self._running) == 1:
                [one] = self._running
                one.printed = cut_middle(one.printed + text, self._said_bytes) if one.printed else text
            else:
                self._on_late(NOBODY if self._running else self._caller, text)

    def _take(self, frame: Mapping[str, Any]) -> None:
        if frame["op"] == "blocked" and isinstance(frame.get("tool_id"), str) and isinstance(frame.get("begun"), list):
            self._on_blocked(frame["tool_id"])
            self.give_back(frame["begun"])
        elif frame["op"] != "spent":
            raise HostGone("sent something that is not an answer")
        self.is_spent = True
