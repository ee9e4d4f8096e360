"""A tool process: takes calls from its worker, runs them, answers; ends when its worker is gone.

Started as `python -m` this module, <worker pid>, with a socket for frames as standard input and, as standard output, a
pipe that tools print into; it has a keeper, for whatever its tools start (`keeper`). Imports stay few (no bus, no
models), because there may be many of these.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from msgspec import Struct

from hobus.actors.ho1_executor.tools import keeper
from hobus.actors.ho1_executor.tools.definition import (
    NO_HOME,
    Bounds,
    ToolDefinition,
    ToolFault,
    ToolResult,
    make_failed,
    make_not_done,
    run_tool,
)
from hobus.actors.ho1_executor.tools.host_process import Frames, HostGone
from hobus.actors.ho1_executor.tools.protocol import list_result_fields
from hobus.actors.ho1_executor.tools.standard_streams import StandardStreams, find_identity

ENTRY_POINTS = "hobus.actors.ho1_executor.tools.entry_points"
"""Imported only where the configuration names some."""


_LAG_S = 0.25
"""A tool that keeps the loop of a shared process for two of these blocks it; in each the loop says that it runs."""


class ToolProcess:
    """Run calls as tasks of one loop. A tool that does not wait keeps the loop, so its process has no other call."""

    def __init__(self, frames: Frames, descriptor: int, streams: StandardStreams, settings: Mapping[str, Any]) -> None:
        self._frames = frames
        self._descriptor, self._was = descriptor, find_identity(descriptor)
        self._streams = streams
        self.settings = settings
        self._this = os.getpid()
        self._tools: dict[str, ToolDefinition] = dict(resolve(settings["registry"]))
        self._faults: dict[str, str] = {}  # of those that cannot be loaded
        self._bounds = Bounds(*(settings[f"{name}_max_bytes"] for name in ("output", "said", "files")))
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._begun: set[int] = set()  # of them, those that had their first step
        self._is_given_up = False  # a call holds it up: what is not begun is another process's
        self._asked: dict[int, deque[asyncio.Future[dict[str, Any]]]] = {}
        self._lags = 0
        self._is_watched = False

    def serve_alone(self, runner: asyncio.Runner) -> None:
        """Run one call after another, until the worker is gone. A `def` runs outside the loop: it may run its own."""
        while True:
            frame = runner.run(self._frames.receive())
            self._streams.begin()
            self._load(frame)
            tool, steps = self._tools.get(frame["tool_id"]), self._answer(frame)
            if tool is None or tool.is_alone:
                drive(steps)
            else:
                runner.run(steps)

    async def serve_all(self) -> None:
        """Run any number of calls at once, until the worker is gone."""
        loop = asyncio.get_running_loop()
        while True:
            frame = await self._frames.receive()
            number = frame["n"]
            if frame["op"] == "reply":
                waiting = self._asked.get(number)  # none of a call that did not wait for it
                if waiting and not (answered := waiting.popleft()).done():
                    answered.set_result(frame)
            elif frame["op"] == "cancel":
                if number in self._tasks:
                    self._tasks[number].cancel()
            else:
                self._load(frame)
                task = self._tasks[number] = loop.create_task(self._answer(frame), name=frame["tool_id"])
                task.add_done_callback(functools.partial(self._note_over, number))
                if not self._is_watched:
                    self._watch()

    async def ask(self, number: int, **question: Any) -> dict[str, Any]:
        """Return the reply that the worker got."""
        answered = asyncio.get_running_loop().create_future()
        self._asked.setdefault(number, deque()).append(answered)
        self._send("request", n=number, **question)
        answer: dict[str, Any] = await answered
        if "fault" in answer:
            raise ToolFault(answer["fault"])
        return answer["value"]

    def _note_over(self, number: int, task: asyncio.Task[None]) -> None:
        del self._tasks[number]
        self._begun.discard(number)
        if task.cancelled() and not self._is_given_up:  # before its first step
            self._send("result", **list_result_fields(number, make_not_done("cancelled", "it was not begun")))

    async def _answer(self, asked: Mapping[str, Any]) -> None:
        """Run one call from its first step to its result."""
        if self._is_given_up:
            return
        self._begun.add(asked["n"])
        try:
            result = await self._make_result(asked)
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its result, a cancel as well
            result = make_failed(error, self._bounds)
        self._streams.flush()
        if os.getpid() != self._this:
            os._exit(0)  # a copy that a tool made of this process and let return: the call is the original's
        self._asked.pop(asked["n"], None)
        if not self._streams.are_whole:
            self._send("spent")
        self._send("result", **list_result_fields(asked["n"], result))

    async def _make_result(self, asked: Mapping[str, Any]) -> ToolResult:
        if asked["op"] == "describe":
            entry = self.settings["entry_points"].get(asked["tool_id"], asked["tool_id"])
            module = importlib.import_module(ENTRY_POINTS)
            try:
                said = module.describe_entry_point(entry, self.settings["definition_max_bytes"])
            except module.BadEntryPoint as bad:
                return make_not_done("tool_failed", str(bad))
            return ToolResult(ok=True, code="", text=said)
        if asked["tool_id"] in self._faults:
            return make_not_done("tool_failed", self._faults[asked["tool_id"]])
        context = dict(asked["context"])
        host = ChildHost(self, asked["n"], context.pop("view", self.settings["view"]), context)
        return await run_tool(self._tools, asked["tool_id"], asked["arguments"], host, self._bounds)

    def _load(self, asked: Mapping[str, Any]) -> None:
        """Load the tool of a package, or have its call say why that fails: it was described in another process."""
        name = asked["tool_id"]
        if asked["op"] == "describe" or name in self._tools or name not in self.settings["entry_points"]:
            return
        module = importlib.import_module(ENTRY_POINTS)
        try:
            self._tools[name] = module.load(self.settings["entry_points"][name])
        except module.BadEntryPoint as bad:
            self._faults[name] = f"{name} cannot be loaded: {bad}"

    def _send(self, op: str, **fields: Any) -> None:
        """Send one frame; end the process when a tool has closed the descriptor, or made it another file's."""
        if find_identity(self._descriptor) != self._was:
            os._exit(1)
        self._frames.write(op, **fields)

    def _watch(self) -> None:
        """Put off the alarm as long as the loop runs and there are calls."""
        self._is_watched, self._lags = bool(self._tasks), 0
        lag_s = _LAG_S if self._is_watched else 0.0
        signal.setitimer(signal.ITIMER_REAL, lag_s, lag_s)
        if self._is_watched:
            asyncio.get_running_loop().call_later(_LAG_S / 4, self._watch)

    def report_held_up(self, _number: int, _frame: object) -> None:
        """Report that the loop has not run for a while. The first alarm may be a sleep of the whole process."""
        self._lags += 1
        task = asyncio.current_task()
        if self._lags == 2 and task is not None and task in self._tasks.values():  # noqa: PLR2004
            self._is_given_up = True
            self._send("blocked", tool_id=task.get_name(), begun=[*self._begun])


class ChildHost(Struct, frozen=True):
    """Implement `ToolHost` at the end of a pipe."""

    process: ToolProcess
    number: int
    snapshot: Mapping[str, Any]
    context: Mapping[str, Any]

    async def request(self, service: str, type_name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self.process.ask(self.number, service=service, type=type_name, body=dict(body))

    async def check(self, name: str) -> Mapping[str, Any]:
        """Return what this check says, a function of a directory: both are named by the worker's wiring."""
        checks = self.process.settings["checks"]
        if name not in checks:
            raise ToolFault(NO_HOME)
        path, directory = checks[name]
        return make_plain(resolve(path)(Path(directory)))


def resolve(path: str) -> Any:
    """Import and return the object behind `module:name`, so that only tools that need it load it."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def make_plain(report: Any) -> Any:
    """Return a report as JSON-like values: its records (dataclasses, named tuples) become mappings by field name."""
    if is_dataclass(report):
        return {field.name: make_plain(getattr(report, field.name)) for field in fields(report)}
    if isinstance(report, tuple) and hasattr(report, "_asdict"):
        return {name: make_plain(value) for name, value in cast("Any", report)._asdict().items()}
    return report


def drive(steps: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that has no loop to wait for, to its end."""
    with suppress(StopIteration):
        steps.send(None)
        while True:
            steps.throw(ToolFault("the tool awaited something, but is not an async def"))


def serve(descriptor: int, streams: StandardStreams) -> None:
    """Take the configuration first, then calls, until the worker is gone."""
    line = socket.socket(fileno=descriptor)
    line.setblocking(False)  # noqa: FBT003 - positional only
    with asyncio.Runner() as runner, suppress(HostGone):
        frames = Frames(*runner.run(asyncio.open_connection(sock=line)))
        settings = runner.run(frames.receive())
        keeper.confine(settings["limits"])
        os.environ.update(settings["environment"])
        process = ToolProcess(frames, descriptor, streams, settings)
        if settings["is_shared"]:
            streams.begin()
            signal.signal(signal.SIGALRM, process.report_held_up)
            runner.run(process.serve_all())
        else:
            process.serve_alone(runner)


def main() -> None:
    """Start in a fresh interpreter; the worker's pid is the argument."""
    live(int(sys.argv[1]))


def live(worker: int) -> NoReturn:
    """Tie this process's life to its worker's, and serve for ever."""
    frames = keeper.only_socket(worker, is_kept=True, prints=True)
    try:
        serve(frames, StandardStreams(frames))
    finally:
        os._exit(0)  # whatever a tool has made of the loop, and of its descriptors


if __name__ == "__main__":
    main()
