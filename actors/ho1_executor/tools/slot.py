"""A place for one tool process: started, asked one call at a time, ended, and followed by another one.

The first ones are forked while the worker is being made and has neither loop, nor sockets, nor secret; a running worker
starts fresh interpreters, since a fork would copy all that.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from hobus.actors.ho1_executor.tools import child_main
from hobus.actors.ho1_executor.tools.definition import Bounds, ToolFault, ToolResult
from hobus.actors.ho1_executor.tools.host_process import ForkedProcess, HostGone, HostProcess, interpreter, may_fork
from hobus.actors.ho1_executor.tools.outside import Request
from hobus.actors.ho1_executor.tools.print_pipe import Caller, PrintPipe, caller_of
from hobus.actors.ho1_executor.tools.protocol import is_request, result_in

CHILD_MODULE = "hobus.actors.ho1_executor.tools.child_main"


class ToolSlot:
    """Takes one call at a time; a new process is started whenever the last one is gone."""

    def __init__(
        self,
        *,
        configure: Callable[[], bytes],
        bounds: Bounds,
        kill_grace_s: float,
        leftovers_max: int,
        is_kept: bool,
    ) -> None:
        """`configure`: the first frame of each. `is_kept`: it has a keeper, since its tools may start processes.

        `leftovers_max`: calls of one process that are over and of which something may still print.
        """
        self._configure = configure
        self._bounds = bounds
        self._kill_grace_s = kill_grace_s
        self._leftovers_max = leftovers_max
        self._is_kept = is_kept
        self._process: HostProcess | None = None
        self._ended: list[HostProcess] = []
        self._pipes: list[PrintPipe] = []
        """Of the process's calls, the last one last."""
        self._is_spent = False

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        return None if self._process is None else self._process.pid

    @property
    def is_spent(self) -> bool:
        """Whether its process takes no other call: it has lost its streams, or calls have left too much running."""
        left = sum(not pipe.is_over for pipe in self._pipes[:-1])  # the last one is the process's own still
        return self._is_spent or left > self._leftovers_max

    def start(self) -> HostProcess:
        """A running process: the one there is, or a new one. Needs no event loop: call it before sockets exist."""
        if self._process is not None and self._process.has_ended():
            self._process.end()
            self._discard()
        self._reap()
        if self._process is None:
            self._process = HostProcess(
                self._forked if may_fork() else interpreter(CHILD_MODULE, str(int(self._is_kept))),
                frame_max_bytes=self._bounds.output + self._bounds.said,
                is_kept=self._is_kept,
                has_line=True,
            )
        return self._process

    async def call(self, number: int, fields: Mapping[str, Any], request: Request, *, op: str) -> ToolResult:
        """The result of one call. Raises HostGone; the caller then calls `kill`, as it must after a cancellation."""
        process = self.start()
        frames = await process.connected(self._configure)
        self._pipes.append(pipe := PrintPipe(self._bounds.said, caller_of(fields)))
        try:
            process.hand(pipe.write_end)
        finally:
            pipe.handed()
        await frames.send(op, n=number, **fields)
        while True:
            frame = await frames.receive()
            if frame.get("n") == number and (result := result_in(frame)) is not None:
                self._is_spent = frame.get("spent") is True
                return result
            if not is_request(frame, number):
                raise HostGone("sent something that is not an answer")
            try:
                answer = {"value": await request(frame["service"], frame["type"], frame["body"])}
            except ToolFault as fault:
                answer = {"fault": str(fault)}
            await frames.send("reply", n=number, **answer)

    def printed(self) -> str:
        """What its call has printed so far."""
        return self._pipes[-1].taken() if self._pipes else ""

    def late(self) -> Iterator[tuple[Caller, str]]:
        """What calls that are over have printed since this was last asked, by what they left running."""
        for pipe in self._pipes:
            if text := pipe.taken():
                yield pipe.caller, text
        self._pipes = [pipe for pipe in self._pipes if not pipe.is_over]

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
        for pipe in self._pipes:
            pipe.close()
        self._pipes.clear()
        self._is_spent = False
        self._reap()

    def _reap(self) -> None:
        self._ended = [process for process in self._ended if not process.is_reaped()]

    def _forked(self, frames: int, line: int | None) -> ForkedProcess:
        """A copy of this process, which has loaded everything: it shares that memory, and is there at once."""
        worker = os.getpid()
        pid = os.fork()
        if pid:
            return ForkedProcess(pid)
        try:
            os.setsid()
            os.dup2(frames, 0)
            if line is not None:
                os.dup2(line, 1)
            child_main.live(worker, kept=self._is_kept)
        except BaseException:  # noqa: BLE001 - the last place that can say anything
            traceback.print_exc()
        finally:
            os._exit(1)
