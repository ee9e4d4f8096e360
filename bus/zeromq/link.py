"""A link over ZeroMQ: one DEALER that connects out, with the first frame for it. Frames: [header, body].

IMMEDIATE: with nobody connected a send is EAGAIN at once instead of queueing blindly; the frames then wait here,
bounded, and leave when the socket is writable, or are forgotten (`discard`) when the peer says hello anew.
PROBE_ROUTER: each new connection begins with an empty message, which its server answers with a rehello; so a peer that
believed itself bound learns of the server's restart at once and not with its next beat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import zmq

from hobus.bus import limits
from hobus.bus.errors import BusError
from hobus.bus.link import OnFrames
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.drained import DrainedSocket, make_receiver

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

_FRAMES = 2


class DealerLink:
    """Implement `bus.link.Link` over a DEALER that its kind opens; made and used on a running event loop."""

    def __init__(self, zeromq: ZeroMQ, settings: BusSettings) -> None:
        self._zeromq = zeromq
        self._settings = settings
        self._waiting: deque[tuple[bytes, bytes]] = deque()
        self._on_frames: OnFrames | None = None
        self._socket: DrainedSocket | None = None
        self._is_open = True
        self.garbage = 0

    def _make_dealer(self) -> zmq.Socket[bytes]:
        dealer = self._zeromq.connecting(zmq.DEALER)
        dealer.setsockopt(zmq.IMMEDIATE, 1)
        dealer.setsockopt(zmq.PROBE_ROUTER, 1)
        return dealer

    def _watch_socket(
        self, dealer: zmq.Socket[bytes], on_message: Callable[[list[bytes]], None] | None = None
    ) -> DrainedSocket:
        """Watch the socket from now on; broker and lanes send nothing but header and body."""
        receive = make_receiver(dealer, _FRAMES)
        return DrainedSocket(dealer, on_message or self._received, self._flush, receive=receive)

    def _begin(self) -> None:
        """Open the socket, since there is a frame to send."""

    def attach(self, on_frames: OnFrames) -> None:
        self._on_frames = on_frames

    def send(self, header: bytes, body: bytes) -> None:
        """Hand the frame to ZeroMQ, or queue it for the connection; BusError(busy) beyond `limits.HIGH_WATER_MARK`."""
        if not self._is_open:
            return
        if self._socket is None:
            self._begin()
        if not self._waiting and self._socket is not None and self._socket.send((header, body)):
            return
        if len(self._waiting) >= limits.HIGH_WATER_MARK:
            raise BusError("busy", f"{len(self._waiting)} frames wait for the connection")
        self._waiting.append((header, body))

    def _flush(self) -> bool:
        has_sent = False
        while self._socket is not None and self._waiting and self._socket.send(self._waiting[0]):
            self._waiting.popleft()
            has_sent = True
        return has_sent

    def _received(self, frames: list[bytes]) -> None:
        if len(frames) == _FRAMES and self._on_frames is not None:
            self._on_frames(frames[0], frames[1])
        else:
            self.garbage += 1

    def discard(self) -> None:
        self._waiting.clear()

    def close(self) -> None:
        """Close; what ZeroMQ has taken (a goodbye) has one heartbeat interval to leave, and the rest is dropped."""
        self._is_open = False
        self._waiting.clear()
        if self._socket is not None:
            self._socket.close(linger_ms=limits.HEARTBEAT_INTERVAL_MS)


class ZeroMQLink(DealerLink):
    """A link to an endpoint of this machine."""

    def __init__(self, zeromq: ZeroMQ, settings: BusSettings, endpoint: str) -> None:
        super().__init__(zeromq, settings)
        self._endpoint = endpoint

    def _begin(self) -> None:
        dealer = self._make_dealer()
        if self._endpoint.startswith("ipc://"):
            dealer.setsockopt(zmq.RECONNECT_IVL, limits.LOCAL_RECONNECT_MIN_MS)
            dealer.setsockopt(zmq.RECONNECT_IVL_MAX, limits.LOCAL_RECONNECT_MAX_MS)
        dealer.connect(self._endpoint)
        self._socket = self._watch_socket(dealer)
