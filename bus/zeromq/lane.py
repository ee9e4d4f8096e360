"""A lane over ZeroMQ: the ROUTER that a service binds. The rules are `bus/lane_server.py`'s.

Routing ids are ZeroMQ's own random ones; MANDATORY tells us when nobody is there; sends never block.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping

import zmq
from msgspec import Struct, field

from hobus.bus import limits
from hobus.bus.conduct import FRAME_BYTES
from hobus.bus.link import LaneEnd
from hobus.bus.zeromq.context import ZeroMQ, restrict_ipc
from hobus.bus.zeromq.drained import DrainedSocket


class ZeroMQLane:
    """Implement `bus.link.LaneTransport`; made on a running event loop."""

    def __init__(self, zeromq: ZeroMQ, server: LaneEnd, endpoint: str) -> None:
        socket = zeromq.bound(zmq.ROUTER)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.bind(endpoint)
        self.endpoint: str = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        restrict_ipc(self.endpoint)
        self._server = server
        server.bind(self)
        self._socket = DrainedSocket(socket, self._received)
        self._unsent = Unsent(socket, self._socket, limits.MAILBOX_MAX)

    def unsent(self) -> Mapping[bytes, int]:
        """Return bytes of answers that have not left yet, by connection."""
        return self._unsent.map_by_connection()

    def _received(self, frames: list[bytes]) -> None:
        self._server.receive(frames[0], frames[1:])

    def send(self, routing: bytes, header: bytes, body: bytes) -> bool:
        """Return whether the connection took the frames: False if it is gone (or full, far beyond any bound)."""
        try:
            return self._unsent.send(routing, header, body)
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return False
            raise

    def close(self) -> None:
        """Close; the last answers have one heartbeat interval to leave, and whoever misses one asks again elsewhere."""
        self._socket.close(linger_ms=limits.HEARTBEAT_INTERVAL_MS)


_MARK_BYTES = 65_536
"""Less than this of each connection is not counted; only cost depends on it."""


class _Marks(Struct):
    since: int = 0
    """Bytes handed over behind the last mark."""
    size_bytes: int = 0
    """Up to the last mark."""
    waiting: deque[tuple[zmq.MessageTracker, int]] = field(default_factory=deque[tuple[zmq.MessageTracker, int]])


class Unsent:
    """Send by one ROUTER, and count in bytes what its peers have not taken yet: libzmq counts messages alone.

    pyzmq can tell when the memory of a message is free again: once the last of it was written to the connection, or
    that is gone. It costs a message to a thread of pyzmq's, so it is asked for once per `_MARK_BYTES` of a connection;
    what was handed over before such a mark has left with it. Remembers as many connections as `limits.MAILBOX_MAX`, and
    whoever has something to take.
    """

    def __init__(self, router: zmq.Socket[bytes], socket: DrainedSocket, connections_max: int) -> None:
        router.copy_threshold = 0  # of tracked messages alone: what is small is copied otherwise, and never tracked
        self._socket = socket
        self._connections_max = connections_max
        self._of: OrderedDict[bytes, _Marks] = OrderedDict()
        self._marked: dict[bytes, _Marks] = {}
        """Those of them that had something to take at the last look."""

    def send(self, routing: bytes, header: bytes, body: bytes) -> bool:
        """Return whether the socket took the message; False at EAGAIN. Raises zmq.ZMQError for an unreachable peer."""
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
            self._marked[routing] = marks
        self._of[routing] = marks
        self._of.move_to_end(routing)
        if len(self._of) > self._connections_max:
            self.map_by_connection()
            idle = next((one for one, held in self._of.items() if not held.waiting), None)
            if idle is not None:
                del self._of[idle]
        return True

    def map_by_connection(self) -> dict[bytes, int]:
        """Return bytes that have not left yet, of those connections that have any."""
        if not self._marked:  # as a rule
            return {}
        for marks in self._marked.values():
            while marks.waiting and marks.waiting[0][0].done:
                marks.size_bytes -= marks.waiting.popleft()[1]
        self._marked = {routing: marks for routing, marks in self._marked.items() if marks.waiting}
        return {routing: marks.size_bytes for routing, marks in self._marked.items()}
