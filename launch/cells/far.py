"""A cell on another machine, asked through ssh: `hobus cell serve` there asks its bus, as an operator of that machine.

Frames on its standard input and output: four bytes of length, then msgpack. First comes `[version, timeout_s]`, then
for each `[service, type, body, timeout_s, key, trace]` one `[type, body]`, of a Failure where there is no answer.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from asyncio import IncompleteReadError, StreamReader, StreamReaderProtocol, StreamWriter
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, BinaryIO, TypeVar, cast

from msgspec.msgpack import decode as decoded
from msgspec.msgpack import encode as encoded

from hobus.bus.catalog import find_row
from hobus.bus.clock import SystemClock
from hobus.bus.codec import decode, encode
from hobus.bus.errors import BusError, RuntimeFault, make_fault
from hobus.bus.limits import BODY_MAX_BYTES
from hobus.bus.messages.base import Message
from hobus.bus.messages.failure import Failure
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.version import __version__

R = TypeVar("R", bound=Message)


class FarBus:
    """Of a bus elsewhere what a side of a move asks of one; one request at a time."""

    def __init__(self, reader: StreamReader, writer: StreamWriter, host: str) -> None:
        self.clock = SystemClock()
        self.now, self.sleep = self.clock.now, asyncio.sleep
        self._reader, self._writer, self._host = reader, writer, host

    async def hello(self) -> float:
        """How long its requests may take. Raises BusError, for another version too."""
        version, timeout_s = await self._read()
        if version != __version__:
            said = f"{self._host} runs hobus {version}, this is {__version__}: install one version on both"
            raise BusError("rejected", said)
        return float(timeout_s)

    async def request(  # noqa: PLR0913 - as `Bus.request`
        self, service: str, message: Message, *, expect: type[R], timeout_s: float, key: str = "", trace: str = ""
    ) -> R:
        """As `Bus.request`."""
        body = encode(message, BODY_MAX_BYTES)
        _write(self._writer, [service, message.TYPE, body, timeout_s, key, trace])
        name, answer = await self._read()
        if name == Failure.TYPE:
            raise make_fault(decode(Failure, answer, BODY_MAX_BYTES))
        return decode(expect, answer, BODY_MAX_BYTES)

    async def _read(self) -> Any:
        try:
            return await _read(self._reader)
        except (IncompleteReadError, OSError):
            said = f"`hobus cell serve` on {self._host}, asked through ssh, has ended: it says above why"
            raise BusError("peer_lost", said) from None


@asynccontextmanager
async def connect_far(host: str, home: str) -> AsyncGenerator[tuple[Bus, float]]:
    """Connect to the bus of a home there; also say how long its requests may take.

    HOBUS_RSH: a command in place of ssh.
    """
    words = shlex.split(os.environ.get("HOBUS_RSH", "ssh"))
    there = shlex.join(["hobus", "cell", "serve", "--home", home])
    process = await asyncio.create_subprocess_exec(*words, host, there, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - pipes were asked for
    try:
        bus = FarBus(process.stdout, process.stdin, host)
        yield cast("Bus", bus), await bus.hello()
    finally:
        process.stdin.close()  # which ends it
        await process.wait()


async def serve(place: Place) -> None:
    """On this process's standard input and output, until there is no more input."""
    reader, out = StreamReader(), sys.stdout.buffer
    await asyncio.get_running_loop().connect_read_pipe(lambda: StreamReaderProtocol(reader), sys.stdin)
    async with connect_bus(place, "operator") as bus:
        _write(out, [__version__, place.client_timeout_s])
        while True:
            try:
                service, name, body, within_s, key, trace = await _read(reader)
            except IncompleteReadError:
                return
            row = find_row(service, name)
            answer: Message
            try:
                if row is None or row.reply is None:
                    raise BusError("rejected", f"{service} takes no {name}")
                message = decode(row.cls, body, BODY_MAX_BYTES)
                answer = await bus.request(service, message, expect=row.reply, timeout_s=within_s, key=key, trace=trace)
            except RuntimeFault as fault:
                answer = fault.as_failure()
            _write(out, [answer.TYPE, encode(answer, BODY_MAX_BYTES)])


def _write(to: StreamWriter | BinaryIO, frame: list[Any]) -> None:
    data = encoded(frame)
    to.write(len(data).to_bytes(4) + data)
    if not isinstance(to, StreamWriter):
        to.flush()


async def _read(reader: StreamReader) -> Any:
    return decoded(await reader.readexactly(int.from_bytes(await reader.readexactly(4))))
