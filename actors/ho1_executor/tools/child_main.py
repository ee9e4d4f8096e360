"""A tool process: takes one call at a time from its worker, runs it, answers; ends when its worker is gone.

Started as `python -m` this module, <worker pid> <0|1, whether it is kept>, with a socket for frames as standard input
and, as standard output, one for the pipes that tools print into; kept: it has a keeper, for whatever its tools start
(`keeper`). Imports stay few (no bus, no models, no event loop), because every worker keeps several of these.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from hobus.actors.ho1_executor.tools import keeper
from hobus.actors.ho1_executor.tools.definition import (
    NO_HOME,
    Bounds,
    ToolDefinition,
    ToolFault,
    ToolHost,
    ToolResult,
    failed,
    not_done,
    run_tool,
)
from hobus.actors.ho1_executor.tools.protocol import PREFIX_BYTES, pack_frame, result_fields, unpack_frame
from hobus.actors.ho1_executor.tools.standard_streams import StandardStreams, identity

ENTRY_POINTS = "hobus.actors.ho1_executor.tools.entry_points"
"""Imported only where the configuration names some."""


class Pipe:
    """Frames over one descriptor, blocking: a child has nothing to do while it waits."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._was = identity(descriptor)

    def send(self, op: str, **fields: Any) -> None:
        """Writes one frame; the process ends here when a tool has closed the descriptor, or made it another file's."""
        if identity(self.descriptor) != self._was:
            os._exit(1)
        data = memoryview(pack_frame(op, **fields))
        while data:
            data = data[os.write(self.descriptor, data) :]

    def receive(self) -> dict[str, Any]:
        """The next frame; the process ends here when its worker has gone."""
        return unpack_frame(self._exactly(int.from_bytes(self._exactly(PREFIX_BYTES), "big")))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = os.read(self.descriptor, size - len(data))
            if not piece:
                os._exit(0)
            data += piece
        return bytes(data)


@dataclass(frozen=True, slots=True)
class ChildHost:
    """`ToolHost` at the end of a pipe; its awaits block, which is all that one call at a time needs."""

    pipe: Pipe
    number: int
    snapshot: Mapping[str, Any]
    context: Mapping[str, Any]
    checks: Mapping[str, Sequence[str]]

    async def request(self, service: str, type_name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The reply that the worker got."""
        self.pipe.send("request", n=self.number, service=service, type=type_name, body=dict(body))
        answer = self.pipe.receive()
        if "fault" in answer:
            raise ToolFault(answer["fault"])
        return answer["value"]

    async def check(self, name: str) -> Mapping[str, Any]:
        """What the check of this name says, a function of a directory: both are named by the worker's wiring."""
        if name not in self.checks:
            raise ToolFault(NO_HOME)
        path, directory = self.checks[name]
        return plain(resolve(path)(Path(directory)))


def resolve(path: str) -> Any:
    """The object behind `module:name`, imported now: what only some tools need is loaded by those alone."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def plain(report: Any) -> Any:
    """A report as JSON-like values: its records (dataclasses, named tuples) become mappings by field name."""
    if is_dataclass(report):
        return {field.name: plain(getattr(report, field.name)) for field in fields(report)}
    if isinstance(report, tuple) and hasattr(report, "_asdict"):
        return {name: plain(value) for name, value in cast("Any", report)._asdict().items()}
    return report


def drive(steps: Coroutine[Any, Any, Any]) -> Any:
    """The value of a coroutine that only awaits its host. Raises ToolFault if it waits for an event loop."""
    try:
        steps.send(None)
    except StopIteration as end:
        return end.value
    steps.close()
    raise ToolFault("the tool awaited something other than its host")


def serve(pipe: Pipe, streams: StandardStreams) -> None:
    """Configuration first, then calls, as long as one may follow another."""
    settings = pipe.receive()
    keeper.confine(settings["limits"])
    os.environ.update(settings["environment"])
    tools: dict[str, ToolDefinition] = dict(resolve(settings["registry"]))
    bounds = Bounds(settings["output_max_bytes"], settings["said_max_bytes"])
    this = os.getpid()
    while True:
        asked = pipe.receive()
        streams.begin()
        if asked["op"] == "describe":
            result = described(asked["tool_id"], settings["definition_max_bytes"])
        else:
            context = asked["context"]
            host = ChildHost(
                pipe=pipe,
                number=asked["n"],
                snapshot=context.pop("view", settings["view"]),
                context=context,
                checks=settings["checks"],
            )
            if asked["tool_id"] in settings["entry_points"]:
                _load_into(tools, asked["tool_id"])
            try:
                result = drive(run_tool(tools, asked["tool_id"], asked["arguments"], host, bounds))
            except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its result
                result = failed(error, bounds)
        streams.flush()
        if os.getpid() != this:
            os._exit(0)  # a copy that a tool made of this process and let return: the call is the original's
        pipe.send("result", spent=not streams.are_whole, **result_fields(asked["n"], result))


def described(name: str, max_bytes: int) -> ToolResult:
    """What an entry point is, or why it is none."""
    module = importlib.import_module(ENTRY_POINTS)
    try:
        return ToolResult(ok=True, code="", text=module.description_of(name, max_bytes))
    except module.BadEntryPoint as bad:
        return not_done("tool_failed", str(bad))


def _load_into(tools: dict[str, ToolDefinition], name: str) -> None:
    """It is there, or, since it was described in another process, its call says why it is not."""
    if name in tools:
        return
    module = importlib.import_module(ENTRY_POINTS)
    try:
        tools[name] = module.load(name)
    except module.BadEntryPoint as bad:
        why = str(bad)

        async def run(_arguments: Mapping[str, Any], _host: ToolHost) -> Any:
            raise ToolFault(f"{name} cannot be loaded: {why}")

        tools[name] = ToolDefinition(tool_id=name, description=why, parameters={}, idempotent=False, run=run)


def main() -> None:
    """In a fresh interpreter; the worker's pid and whether there is a keeper are its arguments."""
    live(int(sys.argv[1]), kept=sys.argv[2] == "1")


def live(worker: int, *, kept: bool) -> NoReturn:
    """Ties this process's life to its worker's, and serves for ever."""
    frames, line = keeper.only_sockets(worker, is_kept=kept, has_line=True)
    serve(Pipe(frames), StandardStreams(line, frames))
    os._exit(0)


if __name__ == "__main__":
    main()
