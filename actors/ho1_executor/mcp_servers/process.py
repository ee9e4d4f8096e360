"""The process of one MCP server: connects to it with the official SDK, lists its tools, makes calls, stops them.

Started as `python -m` this module and its worker's pid, with a socket as standard input. It ends
when its worker is gone, when its server is gone, and when the server cannot be reached: its worker starts another one.
Everything that it starts dies with it, by its keeper (`tools/keeper.py`). The SDK is imported here and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

from hobus.actors.ho1_executor.mcp_servers.frames import printable
from hobus.actors.ho1_executor.tools.confine import confine
from hobus.actors.ho1_executor.tools.keeper import die_with, split
from hobus.actors.ho1_executor.tools.protocol import PREFIX_BYTES, pack_frame, unpack_frame


class Line:
    """Frames to and from the worker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, op: str, **fields: Any) -> None:
        """One frame, handed to the kernel."""
        self._writer.write(pack_frame(op, **fields))
        with suppress(ConnectionError):
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next frame; None when the worker is gone."""
        try:
            prefix = await self._reader.readexactly(PREFIX_BYTES)
            return unpack_frame(await self._reader.readexactly(int.from_bytes(prefix, "big")))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


def main() -> None:
    """Ties its life to its worker's, has a keeper for all that it starts, and serves."""
    worker = int(sys.argv[1])
    die_with(worker)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable(logging.CRITICAL)  # the SDK logs what servers say, which may be anything
    descriptor = os.dup(0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    split(worker, descriptor)
    asyncio.run(_serve(socket.socket(fileno=descriptor)))
    os._exit(0)


async def _serve(line: socket.socket) -> None:
    line.setblocking(False)  # noqa: FBT003 - positional only
    to_worker = Line(*await asyncio.open_connection(sock=line))
    settings = await to_worker.receive()
    if settings is None:
        return
    confine(settings["limits"])
    try:
        from hobus.actors.ho1_executor.mcp_servers.session import serve  # noqa: PLC0415 - half a second, and an extra
    except ImportError as error:
        missing = printable(str(error.name or error))
        await to_worker.send("failed", detail=f"{missing} is not installed: pip install 'hobus[mcp]'")
        return
    os.dup2(1, 2)  # until here standard error shows why it cannot start; what a server makes it say may be anything
    await serve(to_worker, settings)


if __name__ == "__main__":
    main()
