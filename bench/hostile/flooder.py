"""`flooder.py`: connects as it is told on its standard input and sends without end, as fast as it can.

One JSON object: `endpoint`, `kind` (dealer, or xsub for the tap), `shape` (see SHAPES), and for CURVE `server`,
`public`, `secret`. Prints `flooding` once it has begun.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import zmq

SHAPES = {"bytes": 1, "frames": 65_536, "bodies": 8_000_000}
"""Bytes of each message."""


def flood(words: dict[str, str], said: Callable[[], None]) -> None:
    """Never returns."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.XSUB if words["kind"] == "xsub" else zmq.DEALER)
    if "server" in words:
        socket.curve_serverkey = words["server"].encode()
        socket.curve_publickey, socket.curve_secretkey = words["public"].encode(), words["secret"].encode()
    socket.setsockopt(zmq.RECONNECT_IVL, 1)
    socket.connect(words["endpoint"])
    message = b"x" * SHAPES[words["shape"]]
    socket.send(message)
    said()
    while True:
        for _ in range(1000):
            socket.send(message)


if __name__ == "__main__":
    flood(json.loads(sys.stdin.readline()), lambda: print("flooding", flush=True))
