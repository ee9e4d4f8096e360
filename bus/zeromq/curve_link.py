"""A link over TCP and CURVE: one DEALER that connects to a broker on another host, and knows why it cannot.

ZeroMQ's own reconnecting is off: it ends for good when a key is refused or something else answers at the port, it asks
twenty times a second when the handshake fails, and it has no jitter. Here every failed or lost connection ends its
socket, and a new one is made after a pause that doubles, with jitter, up to `limits.RECONNECT_MAX_MS`; for ever. The
socket's monitor tells what happened, so that a refused key is named within a second and never waited for in silence.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import zmq

from hobus.bus import limits
from hobus.bus.port import Clock
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.curve import KeyPair
from hobus.bus.zeromq.drained import DrainedSocket
from hobus.bus.zeromq.link import DealerLink

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

_EVENTS = int(
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_CLOSED
    | zmq.EVENT_DISCONNECTED
)


class Happened(NamedTuple):
    """What became of a connection.

    connected: both proved their keys. refused: the broker does not know this key. no_handshake: whoever answered does
    not hold the broker's key, or is no broker. unreachable: nobody answered. lost: it was there, and is gone.
    """

    what: Literal["connected", "refused", "no_handshake", "unreachable", "lost"]
    why: str = ""


_HAPPENED: dict[int, Literal["refused", "no_handshake", "unreachable"]] = {
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): "refused",
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "no_handshake",
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "no_handshake",
    int(zmq.EVENT_DISCONNECTED): "no_handshake",
    int(zmq.EVENT_CLOSED): "unreachable",
}


@dataclass(frozen=True, slots=True)
class CurveEnds:
    """Both ends of a connection: `HOST:PORT` and public key (Z85) of the broker, and the own pair."""

    address: str
    broker_key: bytes
    pair: KeyPair = field(repr=False)


class CurveLink(DealerLink):
    """A link to a broker on another host."""

    def __init__(
        self,
        zeromq: ZeroMQ,
        settings: BusSettings,
        ends: CurveEnds,
        *,
        clock: Clock,
        on_happened: Callable[[Happened], None],
    ) -> None:
        super().__init__(zeromq, settings)
        self._ends = ends
        self._clock = clock
        self._on_happened = on_happened
        self._loop = asyncio.get_running_loop()
        self._raw: zmq.Socket[bytes] | None = None
        self._monitor: DrainedSocket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_connected = False
        self._failures = 0
        self._open()

    def close(self) -> None:
        """Close; what ZeroMQ has taken (a goodbye) has one heartbeat interval to leave; nothing is tried any more."""
        self._is_open = False
        self._waiting.clear()
        self._end(linger_ms=limits.HEARTBEAT_INTERVAL_MS)

    def use(self, ends: CurveEnds) -> None:
        """Have the next connection by these ends."""
        self._ends = ends

    # --- one connection after the other -----------------------------------------------------------------------------

    def _open(self) -> None:
        ends = self._ends
        self._raw = dealer = self._make_dealer()
        dealer.setsockopt(zmq.RECONNECT_IVL, -1)
        dealer.setsockopt(zmq.RECONNECT_IVL_MAX, 0)
        dealer.setsockopt(zmq.HANDSHAKE_IVL, limits.HANDSHAKE_TIMEOUT_MS)
        dealer.setsockopt(zmq.CONNECT_TIMEOUT, limits.HANDSHAKE_TIMEOUT_MS)
        dealer.setsockopt(zmq.IPV6, int(ends.address.startswith("[")))
        dealer.setsockopt(zmq.CURVE_SERVERKEY, ends.broker_key)
        dealer.setsockopt(zmq.CURVE_PUBLICKEY, ends.pair.public)
        dealer.setsockopt(zmq.CURVE_SECRETKEY, ends.pair.secret)
        monitor = dealer.get_monitor_socket(_EVENTS)
        self._socket = self._watch_socket(dealer, self._received)
        self._monitor = DrainedSocket(monitor, self._on_monitor)
        # Both time-outs of the socket are over by then: it is stuck, whatever the reason.
        self._timer = self._loop.call_later(3 * limits.HANDSHAKE_TIMEOUT_MS / 1000, self._end_failed, "unreachable", "")
        try:
            dealer.connect(f"tcp://{ends.address}")
        except zmq.ZMQError as error:  # a name that resolves to nothing, now
            self._loop.call_soon(self._end_failed, "unreachable", str(error))

    def _on_monitor(self, frames: list[bytes]) -> None:
        event: int = struct.unpack("=hi", frames[0])[0]
        if event == int(zmq.EVENT_HANDSHAKE_SUCCEEDED):
            self._is_connected = True
            self._failures = 0
            self._cancel_timer()
            self._on_happened(Happened("connected"))
        elif self._is_connected:
            self._end_failed("lost", "")
        else:
            self._end_failed(_HAPPENED[event], "")

    def _end_failed(self, what: Literal["refused", "no_handshake", "unreachable", "lost"], why: str) -> None:
        """End this connection, and try the next one after a pause."""
        if self._socket is None:
            return
        self._end(linger_ms=0)
        pause_ms = min(limits.RECONNECT_MAX_MS, limits.RECONNECT_MIN_MS * 2 ** min(self._failures, 20))
        self._failures += 1
        self._timer = self._loop.call_later(pause_ms * (0.5 + self._clock.random() / 2) / 1000, self._open)
        self._on_happened(Happened(what, why))

    def _end(self, *, linger_ms: int) -> None:
        self._cancel_timer()
        self._is_connected = False
        if self._socket is None or self._monitor is None or self._raw is None:
            return
        self._raw.disable_monitor()
        self._monitor.close()
        self._socket.close(linger_ms=linger_ms)
        self._socket = self._monitor = self._raw = None

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
