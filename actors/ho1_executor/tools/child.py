"""One tool process: alone with one call at a time, or shared by calls that wait; and what they print."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from hobus.actors.ho1_executor.tools.definition import Bounds, Request, ToolResult
from hobus.actors.ho1_executor.tools.host_process import HostGone, HostProcess, Start
from hobus.actors.ho1_executor.tools.print_pipe import PrintCaller, PrintPipe, caller_of

OWN = PrintCaller("", "")
"""Of what a shared process prints by its descriptors: nobody knows for which call."""


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
        leftovers_max: int,
        is_shared: bool,
        on_blocked: Callable[[str], None],
        on_late: Callable[[PrintCaller, str], None],
    ) -> None:
        """Start the process.

        `leftovers_max`: calls of a process of its own that are over and of which something may still print.
        `on_blocked` hears of a tool that keeps the others of a shared process waiting; `on_late` what is printed for
        calls that have their end already. Raises OSError.
        """
        size = bounds.output + bounds.said + bounds.files
        super().__init__(start, frame_max_bytes=size, kill_grace_s=kill_grace_s, has_line=True)
        self.is_shared = is_shared
        self.is_spent = False
        """It takes no other call: it has lost its streams, calls have left too much running, or one holds it up."""
        self.users = 0
        self.idle: asyncio.TimerHandle | None = None  # ends it
        self._first_frame = first_frame
        self._said_bytes = bounds.said
        self._leftovers_max = leftovers_max
        self._on_blocked = on_blocked
        self._on_late = on_late
        self._over: list[PrintPipe] = []  # of calls that are over
        self._is_ready = asyncio.Event()
        self._is_gone = False

    async def serve(self) -> None:
        """Serve until the process ends; then nothing of it is left but its exit code."""
        try:
            if self.is_shared:
                self._over.append(self._handed(OWN))
            with suppress(HostGone, OSError):
                frames = await self.connected(self._first_frame)
                self._is_ready.set()
                await self.read(frames, self._take)
        finally:
            self._is_gone = True
            self.kill()
            self._is_ready.set()
            self.tell_late()
            for pipe in self._over:
                pipe.close()

    async def run(self, fields: Mapping[str, Any], attempt: ProcessAttempt) -> ToolResult:
        """Return the result of one call; what it printed stands in the attempt, whatever happens. Raises HostGone."""
        await self._is_ready.wait()
        pipe = self._handed(caller_of(fields))
        try:
            return await self.call(fields, attempt.request, op=attempt.op, may_yield=self.is_shared)
        finally:
            attempt.printed = pipe.taken()
            self._over.append(pipe)
            if self._is_gone:
                pipe.close()
            # The last pipe is that of a process of its own itself, still.
            left = 0 if self.is_shared else sum(not one.is_over for one in self._over[:-1])
            self.is_spent = self.is_spent or left > self._leftovers_max

    def kill(self) -> None:
        """Kill the process; whoever is about to ask it takes another one."""
        self.is_spent = True
        super().kill()

    def tell_late(self) -> None:
        """Tell what finished calls printed since this was last asked, by what they left running."""
        for pipe in self._over:
            if text := pipe.taken():
                self._on_late(pipe.caller, text)
        self._over = [pipe for pipe in self._over if not pipe.is_over]

    def _handed(self, caller: PrintCaller) -> PrintPipe:
        """Hand the process the pipe for what is asked next. Raises HostGone."""
        pipe = PrintPipe(self._said_bytes, caller)
        try:
            self.hand(pipe.write_end)
        except HostGone:
            pipe.close()
            raise
        finally:
            pipe.handed()
        return pipe

    def _take(self, frame: Mapping[str, Any]) -> None:
        if frame["op"] == "blocked" and isinstance(frame.get("tool_id"), str):
            self._on_blocked(frame["tool_id"])
        elif frame["op"] != "spent":
            raise HostGone("sent something that is not an answer")
        self.is_spent = True
