"""The process of one MCP server: connects to it with the official SDK, lists its tools, makes calls, stops them.

Started as `python -m` this module and its worker's pid, with a socket as standard input. It ends
when its worker is gone, when its server is gone, and when the server cannot be reached: its worker starts another one.
Everything that it starts dies with it, by its keeper (`tools/keeper.py`). The SDK is imported here and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys

from hobus.actors.ho1_executor.mcp_servers.listing import make_printable
from hobus.actors.ho1_executor.tools import keeper
from hobus.actors.ho1_executor.tools.host_process import Frames, HostGone


def main() -> None:
    """Tie this process's life to its worker's, have a keeper for all that it starts, and serve."""
    frames = keeper.only_socket(int(sys.argv[1]), is_kept=True)
    logging.disable(logging.CRITICAL)  # the SDK logs what servers say, which may be anything
    asyncio.run(_serve(socket.socket(fileno=frames)))
    os._exit(0)


async def _serve(line: socket.socket) -> None:
    line.setblocking(False)  # noqa: FBT003 - positional only
    to_worker = Frames(*await asyncio.open_connection(sock=line))
    try:
        settings = await to_worker.receive()
    except HostGone:
        return
    keeper.confine(settings["limits"])
    try:
        from hobus.actors.ho1_executor.mcp_servers.session import serve  # noqa: PLC0415 - half a second, and an extra
    except ImportError as error:
        missing = make_printable(str(error.name or error))
        await to_worker.send("failed", detail=f"{missing} is not installed: pip install 'hobus[mcp]'")
        return
    os.dup2(1, 2)  # until here standard error shows why it cannot start; what a server makes it say may be anything
    await serve(to_worker, settings)


if __name__ == "__main__":
    main()
