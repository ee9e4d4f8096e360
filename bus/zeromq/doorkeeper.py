"""Ends connections of a bound socket that `bus/conduct.py` finds too many: a thread beside the server's loop.

A process without a free descriptor is at its end: libzmq 4.3.5 aborts when it cannot accept on an ipc socket (`Too many
open files (ipc_listener.cpp)`). Its I/O thread accepts whatever comes, as fast as it comes, while the server's loop may
be at work; hence the thread. libzmq waits when a thousand events of a monitor (its own limit) have not been taken, so
it is never further ahead than that.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import threading
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

import zmq

from hobus.bus.conduct import Doorway
from hobus.bus.log import Logger
from hobus.bus.port import Clock
from hobus.bus.settings import BusSettings

_EVENT = struct.Struct("=Hi")  # what, and the connection's descriptor or an error number
_FAILED = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
_WATCHED = int(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_MONITOR_STOPPED) | _FAILED
_log = Logger("bus")


class Doorkeeper:
    """Of one socket, from before it is bound until it is closed; its methods are for the thread that has the socket.

    `speaks`: whether that one tells with `heard` who has spoken. An XPUB cannot: there, whoever comes counts as heard.
    """

    def __init__(
        self, bound: zmq.Socket[bytes], settings: BusSettings, clock: Clock, *, what: str, speaks: bool = True
    ) -> None:
        self._bound = bound
        self._doorway = Doorway(settings)
        self._speaks = speaks
        self._what = what
        self._clock = clock
        self._log_interval_s = settings.record_interval_ms / 1000
        self._logged_at = -self._log_interval_s
        self._lock = threading.Lock()
        self._inodes: dict[int, int] = {}
        self._descriptors: dict[int, int] = {}
        self._counts: Counter[str] = Counter()
        self._ended = 0
        self._monitor = bound.get_monitor_socket(_WATCHED)
        self._thread = threading.Thread(target=self._watch, name=f"doorkeeper of {what}", daemon=True)
        self._thread.start()

    def heard(self, inode: int, who: str) -> bool:
        """Whether this caller, who has just spoken for the first time on it, may have the connection."""
        with self._lock:
            return self._doorway.heard(inode, who)

    def take_counts(self) -> Counter[str]:
        """Since the last call: connections that did not speak the protocol, and those ended here."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            return counts

    def close(self) -> None:
        """Before the socket is closed; connections that come until then are let in."""
        if self._thread.is_alive():
            self._bound.disable_monitor()
            self._thread.join()

    def _watch(self) -> None:
        while True:
            try:
                event, value = _EVENT.unpack(self._monitor.recv_multipart()[0])
                if event == zmq.EVENT_MONITOR_STOPPED:
                    break
                with self._lock:
                    self._happened(event, value)
            except zmq.ContextTerminated:
                break
            except Exception:  # noqa: BLE001 - logged with its traceback; if nobody takes events, the I/O thread stands
                _log.exception("doorkeeper_failed", socket=self._what)
        self._monitor.close(linger=0)

    def _happened(self, event: int, value: int) -> None:
        if event & _FAILED:
            self._counts["handshakes_failed"] += 1
            return
        if (known := self._inodes.pop(value, None)) is not None:
            self._descriptors.pop(known, None)
            self._doorway.ended(known)
        if event == zmq.EVENT_ACCEPTED:
            with suppress(OSError):  # it has ended since
                self._accepted(value, look(value))

    def _accepted(self, descriptor: int, end: SocketEnd) -> None:
        self._inodes[descriptor], self._descriptors[end.inode] = end.inode, descriptor
        if self._speaks:
            excess = self._doorway.accepted(end.inode)
        else:
            excess = None if self._doorway.came(end.inode, end.who, self._clock.monotonic()) else end.inode
        if excess is not None:
            self._counts["connections_ended"] += 1
            self._say_sometimes()
            shut(self._descriptors[excess], excess)

    def _say_sometimes(self) -> None:
        """A line per `bus.record_interval_ms`, however many there are."""
        self._ended += 1
        now = self._clock.monotonic()
        if now - self._logged_at >= self._log_interval_s:
            _log.warning(
                "connections_ended",
                socket=self._what,
                count=self._ended,
                why="too many or too fast (bus.strangers_max, bus.connections_max)",
            )
            self._logged_at, self._ended = now, 0


_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class SocketEnd(NamedTuple):
    """One end of a connection: its socket's inode, and who is at the other end (`pid 123`, an address)."""

    inode: int
    who: str
    is_local: bool


# A descriptor is the I/O thread's, who may close it, and its number is used again: it is remembered together with the
# inode of its socket, which is not, and everything below works on a duplicate.


def look(descriptor: int) -> SocketEnd:
    """Raises OSError if it is no connected socket (any more), or a local one on a system without SO_PEERCRED."""
    with _own(descriptor) as own:
        inode = os.fstat(own.fileno()).st_ino
        if own.family != socket.AF_UNIX:
            return SocketEnd(inode, str(own.getpeername()[0]).removeprefix("::ffff:"), is_local=False)
        peercred = getattr(socket, "SO_PEERCRED", None)
        if peercred is None:
            raise OSError("no SO_PEERCRED here")
        pid = _CREDENTIALS.unpack(own.getsockopt(socket.SOL_SOCKET, peercred, _CREDENTIALS.size))[0]
        return SocketEnd(inode, f"pid {pid}", is_local=True)


def shut(descriptor: int, inode: int) -> None:
    """No more of this connection, both ways, if the descriptor is still its own. Raises OSError."""
    with _own(descriptor) as own:
        if os.fstat(own.fileno()).st_ino == inode:
            own.shutdown(socket.SHUT_RDWR)


def _own(descriptor: int) -> socket.socket:
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        raise OSError("no socket any more")
    return socket.socket(fileno=os.dup(descriptor))
