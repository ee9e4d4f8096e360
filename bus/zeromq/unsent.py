"""What a server has handed to libzmq and its peers have not taken yet, in bytes: libzmq counts messages alone.

pyzmq can tell when the memory of a message is free again, which it is once the last of it was written to the
connection, or the connection is gone. That costs a message to a thread of pyzmq's, so it is asked for once per
`_MARK_BYTES` of a connection: messages leave in order, so that everything before such a mark has left with it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

import zmq

from hobus.bus.conduct import FRAME_BYTES
from hobus.bus.zeromq.drained import DrainedSocket

_MARK_BYTES = 65_536
"""Less than this of each connection is not counted; only cost depends on it."""


@dataclass(slots=True)
class _Marks:
    since: int = 0
    """Bytes handed over behind the last mark."""
    size_bytes: int = 0
    """Up to the last mark."""
    waiting: deque[tuple[zmq.MessageTracker, int]] = field(default_factory=deque[tuple[zmq.MessageTracker, int]])


class Unsent:
    """Sends by one ROUTER; remembers as many connections as `bus.mailbox_max`, and whoever has something to take."""

    def __init__(self, router: zmq.Socket[bytes], socket: DrainedSocket, connections_max: int) -> None:
        router.copy_threshold = 0  # of tracked messages alone: what is small is copied otherwise, and never tracked
        self._socket = socket
        self._connections_max = connections_max
        self._of: OrderedDict[bytes, _Marks] = OrderedDict()

    def send(self, routing: bytes, header: bytes, body: bytes) -> bool:
        """As `DrainedSocket.send`."""
        marks = self._of.get(routing) or _Marks()
        if marks.since + len(body) < _MARK_BYTES:
            if not self._socket.send((routing, header, body)):
                return False
            marks.since += FRAME_BYTES + len(body)
        else:
            tracker = self._socket.send_tracked((routing, header, body))
            if tracker is None:
                return False
            size, marks.since = marks.since + len(body), 0
            marks.size_bytes += size
            marks.waiting.append((tracker, size))
        self._of[routing] = marks
        self._of.move_to_end(routing)
        if len(self._of) > self._connections_max:
            self.by_connection()
            self._forget_one()
        return True

    def by_connection(self) -> dict[bytes, int]:
        """Bytes that have not left yet, of those connections that have any."""
        left: dict[bytes, int] = {}
        for routing, marks in self._of.items():
            while marks.waiting and marks.waiting[0][0].done:
                marks.size_bytes -= marks.waiting.popleft()[1]
            if marks.size_bytes:
                left[routing] = marks.size_bytes
        return left

    def _forget_one(self) -> None:
        idle = next((routing for routing, marks in self._of.items() if not marks.waiting), None)
        if idle is not None:
            del self._of[idle]
