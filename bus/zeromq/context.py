"""The one ZeroMQ context of a process, owned and ended explicitly: the garbage collector would block the loop.

A socket has either a receive limit or ZMTP heartbeats, never both: one that has reached its limit reads nothing more,
and libzmq 4.3.5 aborts the process when a heartbeat is due after the peer has hung up meanwhile (`Assertion failed:
!_io_error`), or when the heartbeat's time-out has replaced the connection (`_input_stopped`, libzmq#3937 and #4767). So
those who connect send heartbeats, and those who are connected to have the limit. A heartbeat says how long its sender
may be silent, and the other end keeps to it, so that a peer that froze or was cut off is noticed at both ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import zmq

from hobus.bus import limits

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings


class ZeroMQ:
    """Own the context; every socket of the process is made here, as one of these kinds."""

    def __init__(self, settings: BusSettings) -> None:
        self._settings = settings
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)

    def bound(self, kind: int) -> zmq.Socket[bytes]:
        """Make a server's socket: at most `limits.RECEIVE_MAX` messages per connection; no heartbeats.

        It answers those of its peers, and ends a connection whose peer is silent for longer than that one said.
        """
        return self._make_limited(kind, limits.RECEIVE_MAX)

    def feed(self, kind: int) -> zmq.Socket[bytes]:
        """Make either end of the tap: a reader that is slower than `limits.TAP_HWM` batches misses the next ones."""
        return self._make_limited(kind, limits.TAP_HWM)

    def connecting(self, kind: int) -> zmq.Socket[bytes]:
        """Make a peer's socket, with heartbeats; what it takes in is bounded by credit and mailbox, not by ZeroMQ."""
        socket = self._make_socket(kind)
        silence_ms = int(self._settings.peer_timeout_ms * limits.HEARTBEAT_TIMEOUT_SHARE)
        socket.setsockopt(zmq.HEARTBEAT_IVL, limits.HEARTBEAT_INTERVAL_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, silence_ms)
        socket.setsockopt(zmq.HEARTBEAT_TTL, silence_ms)
        socket.setsockopt(zmq.RCVHWM, 0)
        return socket

    def _make_limited(self, kind: int, receive_max: int) -> zmq.Socket[bytes]:
        socket = self._make_socket(kind)
        socket.setsockopt(zmq.RCVHWM, receive_max)
        return socket

    def _make_socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, limits.HIGH_WATER_MARK)
        socket.setsockopt(zmq.RECONNECT_IVL, limits.RECONNECT_MIN_MS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, limits.RECONNECT_MAX_MS)
        socket.setsockopt(zmq.MAXMSGSIZE, limits.BODY_MAX_BYTES)
        return socket

    def close(self) -> None:
        """End the context, after every socket is closed (by its owner, or here with linger 0)."""
        self._context.destroy(linger=0)


def restrict_ipc(endpoint: str) -> None:
    """Make a bound ipc socket's file its user's alone."""
    if endpoint.startswith("ipc://"):
        Path(endpoint.removeprefix("ipc://")).chmod(0o600)


def end_monitor(socket: zmq.Socket[bytes], monitor: zmq.Socket[bytes]) -> None:
    """Stop telling the socket's events; before the socket itself is closed."""
    socket.disable_monitor()
    monitor.close(linger=0)


class Features(NamedTuple):
    """What this process's libzmq is, and can do."""

    version: str
    has_curve: bool
    has_ipc: bool


def read_features() -> Features:
    """Return the version of libzmq, and whether it encrypts (CURVE) and has local sockets (ipc)."""
    return Features(zmq.zmq_version(), zmq.has("curve"), zmq.has("ipc"))
