"""A provider that takes no time, in a process of its own, for who measures what lies in front of it.

`python -m bench.gateway.upstream` prints its port and serves until its standard input ends: chat completions, whole or as
twenty pieces, over connections that stay open. Every answer is made beforehand.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from bench.gateway.servers import DONE, USAGE_PIECE, completion, piece

WORDS = 20
_TEXT = "The quick brown fox jumps over the lazy dog. " * 4


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps({"id": "c1", "created": 1, "model": "tiny-0417", **value}).encode() + b"\n\n"


_BODY = json.dumps({"created": 1, **completion(_TEXT)}).encode()
_WHOLE = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(_BODY)}\r\n\r\n".encode() + _BODY
_SAID = [_event(piece(content=f"word{number} ")) for number in range(WORDS)]
_END = [_event(piece("stop")), _event({"object": "chat.completion.chunk", **USAGE_PIECE}), DONE]
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_STREAM = [_chunk(event) for event in _SAID + _END]


class _Connection(asyncio.Protocol):
    """Requests of one connection, answered in order as soon as each is whole."""

    def __init__(self) -> None:
        self._data = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            lines = self._data[:end].lower().split(b"\r\n")
            length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
            if len(self._data) < end + 4 + length:
                return
            body, self._data = self._data[end + 4 : end + 4 + length], self._data[end + 4 + length :]
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        if not json.loads(body or b"{}").get("stream"):
            self._transport.write(_WHOLE)
            return
        self._transport.write(_STREAM_HEAD)
        for one in _STREAM:
            self._transport.write(one)
        self._transport.write(b"0\r\n\r\n")


async def main() -> None:
    """Serves until nobody holds the other end of its standard input."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
