"""The one ZeroMQ context of a process, owned and ended explicitly: the garbage collector would block the loop."""

from __future__ import annotations

from pathlib import Path

import zmq

from bus.settings import BusSettings


class ZeroMQ:
    """Owns the context; sockets are made here with the options that all of them share."""

    def __init__(self, settings: BusSettings) -> None:
        self._settings = settings
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)

    def socket(self, kind: int) -> zmq.Socket[bytes]:
        """A socket with linger 0, heartbeats, reconnect bounds, high-water marks and the message size limit set."""
        settings, socket = self._settings, self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, settings.high_water_mark)
        socket.setsockopt(zmq.RCVHWM, settings.high_water_mark)
        socket.setsockopt(zmq.HEARTBEAT_IVL, settings.heartbeat_interval_ms)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, settings.heartbeat_timeout_ms)
        socket.setsockopt(zmq.HEARTBEAT_TTL, settings.heartbeat_timeout_ms)
        socket.setsockopt(zmq.RECONNECT_IVL, settings.reconnect_min_ms)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, settings.reconnect_max_ms)
        socket.setsockopt(zmq.MAXMSGSIZE, settings.body_max_bytes)
        return socket

    def close(self) -> None:
        """Every socket is closed first (by its owner, or here with linger 0), then the context ends."""
        self._context.destroy(linger=0)


def without_receive_limit(socket: zmq.Socket[bytes]) -> None:
    """For a socket that connects and has heartbeats: what arrives is bounded by credit and mailbox, not by ZeroMQ.

    A connection whose inbound pipe is at its high-water mark stops reading, pongs included; its heartbeat then times
    out, and the engine that replaces it aborts the process (`Assertion failed: _input_stopped`, libzmq#3937 and #4767,
    open).
    """
    socket.setsockopt(zmq.RCVHWM, 0)


def private_ipc(endpoint: str) -> None:
    """After a bind: an ipc socket's file is for its user alone."""
    if endpoint.startswith("ipc://"):
        Path(endpoint.removeprefix("ipc://")).chmod(0o600)


def end_monitor(socket: zmq.Socket[bytes], monitor: zmq.Socket[bytes]) -> None:
    """The socket's events are not told any more; before the socket itself is closed."""
    socket.disable_monitor()
    monitor.close(linger=0)
