"""The connections of the broker's socket for other hosts: whose each is, how many stay, and how one is cut off.

libzmq has no word for that. A message knows the descriptor that it came by, which is the I/O thread's; `shutdown(2)` on
it ends the connection, as its peer could have. Learned from the first message of each routing id alone: everything
after it costs a look into a table.

A process without a free descriptor is at its end: libzmq 4.3.5 aborts when it cannot accept on an ipc socket (`Too many
open files (ipc_listener.cpp)`), and strangers elsewhere could bring it there before they have proved a key. Its I/O
thread accepts whatever comes, as fast as it comes, while the broker's loop may be at work: a thread beside that ends
what `bus/conduct.py` finds too many. libzmq waits when a thousand events of a monitor (its own limit) have not been
taken, so it is never further ahead than that.
"""

from __future__ import annotations

import os
import resource
import socket
import stat
import struct
import threading
from collections import Counter, OrderedDict
from contextlib import suppress
from typing import NamedTuple

import zmq

from hobus.bus import limits
from hobus.bus.conduct import Doorway
from hobus.bus.log import Logger
from hobus.bus.port import Clock
from hobus.bus.window import remember

_EVENT = struct.Struct("=Hi")  # what, and the connection's descriptor or an error number
_FAILED = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
_WATCHED = int(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_MONITOR_STOPPED) | _FAILED
_FILES_SHARE = 4
"""One of so many files that may be open is a stranger's."""
_log = Logger("bus")


class RemoteConnection(NamedTuple):
    """One connection: its descriptor, its socket's inode, and the key that it proved."""

    descriptor: int
    inode: int
    key: str


_GONE = RemoteConnection(-1, 0, "")
"""Stands for a connection that was cut off: what it still left behind is dropped unread."""


class Callers:
    """The callers of one socket, from before it is bound until it is closed; for the thread that has the socket."""

    def __init__(self, bound: zmq.Socket[bytes], clock: Clock) -> None:
        self._bound = bound
        self._clock = clock
        soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._doorway = Doorway(limits.STRANGERS_MAX if soft < 0 else min(limits.STRANGERS_MAX, soft // _FILES_SHARE))
        self._known: OrderedDict[bytes, RemoteConnection] = OrderedDict()
        self._known_max = 2 * limits.MAILBOX_MAX
        self._ban_s = limits.BAN_MS / 1000
        self._banned: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()
        self._inodes: dict[int, int] = {}
        self._descriptors: dict[int, int] = {}
        self._counts: Counter[str] = Counter()
        self._monitor = bound.get_monitor_socket(_WATCHED)
        self._thread = threading.Thread(target=self._watch, name="callers", daemon=True)
        self._thread.start()

    def hears(self, connection: bytes, frame: zmq.Frame, key: str) -> bool:
        """Return whether this connection, which proved that key and sent this, may speak."""
        caller = self._known.get(connection)
        if caller is None:
            caller = _identify_caller(frame, key)
            remember(self._known, connection, caller, at_most=self._known_max)
            with self._lock:
                is_one_too_many = caller.inode and not self._doorway.heard(caller.inode, key)
            if is_one_too_many or self.is_banned(key):
                self._end(connection, caller)
        return self._known[connection] is not _GONE

    def is_banned(self, key: str) -> bool:
        """Return whether a connection of this key was cut off less than `limits.BAN_MS` ago."""
        until = self._banned.get(key)
        return until is not None and self._clock.monotonic() < until

    def cut(self, connection: bytes) -> str:
        """End the connection, and let its key back in no sooner than `limits.BAN_MS`; return the key."""
        caller = self._known.get(connection, _GONE)
        if caller.key:
            remember(self._banned, caller.key, self._clock.monotonic() + self._ban_s, at_most=self._known_max)
        self._end(connection, caller)
        return caller.key

    def cut_everywhere(self, key: str) -> None:
        """End every connection of this key."""
        for connection, caller in list(self._known.items()):
            if caller.key == key:
                self._end(connection, caller)

    def take_counts(self) -> Counter[str]:
        """Return, since the last call, connections that did not speak the protocol, and those ended as too many."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            return counts

    def close(self) -> None:
        """Stop before the socket is closed; connections that come until then are let in."""
        if self._thread.is_alive():
            self._bound.disable_monitor()
            self._thread.join()

    def _end(self, connection: bytes, caller: RemoteConnection) -> None:
        self._known[connection] = _GONE
        if caller.descriptor >= 0:
            with suppress(OSError):
                _shut(caller.descriptor, caller.inode)

    def _watch(self) -> None:
        while True:
            try:
                event, value = _EVENT.unpack(self._monitor.recv_multipart()[0])
                if event == zmq.EVENT_MONITOR_STOPPED:
                    break
                with self._lock:
                    self._on_event(event, value)
            except zmq.ContextTerminated:
                break
            except Exception:  # noqa: BLE001 - logged with its traceback; if nobody takes events, the I/O thread stands
                _log.exception("watching_callers_failed")
        self._monitor.close(linger=0)

    def _on_event(self, event: int, value: int) -> None:
        if event & _FAILED:
            self._counts["handshakes_failed"] += 1
            return
        if (known := self._inodes.pop(value, None)) is not None:
            self._descriptors.pop(known, None)
            self._doorway.ended(known)
        if event == zmq.EVENT_ACCEPTED:
            with suppress(OSError):  # it has ended since
                inode, _ = _look(value)
                self._inodes[value], self._descriptors[inode] = inode, value
                if (excess := self._doorway.add_accepted(inode)) is not None:
                    self._counts["connections_ended"] += 1
                    _shut(self._descriptors[excess], excess)


def _identify_caller(frame: zmq.Frame, key: str) -> RemoteConnection:
    """Identify a message's connection; one that has ended meanwhile cannot be cut, and need not be."""
    try:
        descriptor, address = int(frame.get(zmq.SRCFD)), str(frame.get("Peer-Address"))
        inode, there = _look(descriptor)
    except (OSError, ValueError, zmq.ZMQError):
        return RemoteConnection(-1, 0, key)
    return RemoteConnection(descriptor if _strip_address(address) == there else -1, inode, key)


# A descriptor is the I/O thread's, who may close it, and its number is used again: it is remembered together with the
# inode of its socket, which is not, and everything below works on a duplicate.


def _look(descriptor: int) -> tuple[int, str]:
    """Return a connection's inode, and the address at its other end. Raises OSError if it is none (any more)."""
    with _make_socket(descriptor) as own:
        return os.fstat(own.fileno()).st_ino, _strip_address(str(own.getpeername()[0]))


def _shut(descriptor: int, inode: int) -> None:
    """Shut a connection both ways, if the descriptor is still its own. Raises OSError."""
    with _make_socket(descriptor) as own:
        if os.fstat(own.fileno()).st_ino == inode:
            own.shutdown(socket.SHUT_RDWR)


def _make_socket(descriptor: int) -> socket.socket:
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        raise OSError("no socket any more")
    return socket.socket(fileno=os.dup(descriptor))


def _strip_address(address: str) -> str:
    return address.removeprefix("::ffff:")
