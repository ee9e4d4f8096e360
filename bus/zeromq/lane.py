"""A lane over ZeroMQ: the ROUTER that a service binds. The rules are `bus/lane_server.py`'s.

Routing ids are ZeroMQ's own random ones; MANDATORY tells us when nobody is there; sends never block.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog
import zmq

from hobus.bus.lane_server import LaneServer
from hobus.bus.zeromq.callers import Callers
from hobus.bus.zeromq.context import ZeroMQ, private_ipc
from hobus.bus.zeromq.drained import DrainedSocket
from hobus.bus.zeromq.unsent import Unsent

_log = structlog.get_logger("bus")


class ZeroMQLane:
    """`bus.link.LaneTransport`; made on a running event loop."""

    def __init__(self, zeromq: ZeroMQ, server: LaneServer, endpoint: str) -> None:
        socket = zeromq.bound(zmq.ROUTER)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._door = zeromq.door(socket, server.clock, what=server.service)
        socket.bind(endpoint)
        self.endpoint: str = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        private_ipc(self.endpoint)
        self._server = server
        server.bind(self)
        self._callers = Callers(server.settings, server.clock, self._door)
        self._socket = DrainedSocket(socket, server.settings, self._received, receive=self._callers.receiver_of(socket))
        self._unsent = Unsent(socket, self._socket, server.settings.mailbox_max)

    def unsent(self) -> Mapping[bytes, int]:
        """Bytes of answers that have not left yet, by connection."""
        return self._unsent.by_connection()

    def _received(self, frames: list[bytes]) -> None:
        self._server.receive(frames[0], frames[1:])

    def send(self, routing: bytes, header: bytes, body: bytes) -> bool:
        """Whether the connection took the frames: False if it is gone (or full, far beyond any bound of ours)."""
        try:
            return self._unsent.send(routing, header, body)
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return False
            raise

    def cut(self, routing: bytes, peer: str, why: str) -> None:
        """The connection is over, and whoever had it comes back no sooner than `bus.ban_ms`."""
        who = self._callers.cut(routing)
        _log.warning("connection_cut_off", peer=peer, who=who, why=why)

    def close(self) -> None:
        """Answers already taken by ZeroMQ still leave within its linger of 0: the requester asks again elsewhere."""
        self._door.close()
        self._socket.close()
