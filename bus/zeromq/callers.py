"""Who is at the other end of a server's connections, and how one is cut off: libzmq has no word for that.

A message knows the descriptor that it came by, which is the I/O thread's; `shutdown(2)` on it ends the connection, as
its peer could have. Learned from the first message of each routing id alone, together with who is at the other end:
everything after it costs a look into a table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, cast

import zmq

from hobus.bus.port import Clock
from hobus.bus.settings import BusSettings
from hobus.bus.window import remember
from hobus.bus.zeromq.doorkeeper import Doorkeeper, look, shut
from hobus.bus.zeromq.drained import NOBLOCK, Receive, option_of

_RCVMORE = int(zmq.RCVMORE)


class Caller(NamedTuple):
    """One connection: its descriptor, its socket's inode, and who is there (`pid 123`, an address, a key)."""

    descriptor: int
    inode: int
    who: str


_GONE = Caller(-1, 0, "")
"""Stands for a connection that was cut off: what it still left behind is dropped unread."""


class Callers:
    """The connections of one bound socket, whose doorkeeper hears of each one that has spoken."""

    def __init__(self, settings: BusSettings, clock: Clock, door: Doorkeeper | None = None) -> None:
        self._door = door
        self._known: OrderedDict[bytes, Caller] = OrderedDict()
        self._known_max = 2 * settings.mailbox_max
        self._ban_s = settings.ban_ms / 1000
        self._banned: OrderedDict[str, float] = OrderedDict()
        self._clock = clock
        self.dropped = 0

    def hears(self, connection: bytes, frame: zmq.Frame, who: str = "") -> bool:
        """Whether this connection may speak; asked for its first message, and whenever the table does not know it."""
        caller = _caller_of(frame, who)
        remember(self._known, connection, caller, at_most=self._known_max)
        is_one_too_many = self._door is not None and caller.inode and not self._door.heard(caller.inode, caller.who)
        if is_one_too_many or self.is_banned(caller.who):
            self._end(connection, caller)
            return False
        return True

    def knows(self, connection: bytes) -> Caller | None:
        """What was learned of it."""
        return self._known.get(connection)

    def is_cut(self, connection: bytes) -> bool:
        """Whether it was cut off, and what still comes is to be dropped."""
        return self._known.get(connection) is _GONE

    def is_banned(self, who: str) -> bool:
        """Whether somebody of this name was cut off less than `bus.ban_ms` ago."""
        until = self._banned.get(who)
        return until is not None and self._clock.monotonic() < until

    def cut(self, connection: bytes) -> str:
        """The connection is over, and whoever had it comes back no sooner than `bus.ban_ms`; who that was."""
        caller = self._known.get(connection, _GONE)
        if caller.who:
            remember(self._banned, caller.who, self._clock.monotonic() + self._ban_s, at_most=self._known_max)
        self._end(connection, caller)
        return caller.who

    def cut_everywhere(self, who: str) -> None:
        """Every connection of this key is over."""
        for connection, caller in list(self._known.items()):
            if caller.who == who:
                self._end(connection, caller)

    def receiver_of(self, router: zmq.Socket[bytes]) -> Receive:
        """Takes one whole message of this ROUTER; raises zmq.Again if there is none, or if its sender was cut off."""
        receive, option, known = cast("Callable[[int], bytes]", router.recv), option_of(router), self._known

        def receive_message() -> list[bytes]:
            parts = [receive(NOBLOCK)]
            caller = known.get(parts[0])
            may_speak = caller is not _GONE
            if caller is None:
                frame = router.recv(NOBLOCK, copy=False)
                may_speak = self.hears(parts[0], frame)
                parts.append(frame.bytes)
            else:
                parts.append(receive(NOBLOCK))
            while option(_RCVMORE):
                parts.append(receive(NOBLOCK))
            if not may_speak:
                self.dropped += 1
                raise zmq.Again
            return parts

        return receive_message

    def _end(self, connection: bytes, caller: Caller) -> None:
        self._known[connection] = _GONE
        if caller.descriptor >= 0:
            with suppress(OSError):
                shut(caller.descriptor, caller.inode)


def _caller_of(frame: zmq.Frame, who: str) -> Caller:
    """By what the message says of its connection; one that has ended meanwhile cannot be cut, and need not be."""
    try:
        descriptor, address = int(frame.get(zmq.SRCFD)), str(frame.get("Peer-Address"))
        end = look(descriptor)
    except (OSError, ValueError, zmq.ZMQError):  # as well where nobody says who is there: dropped, and not cut off
        return Caller(-1, 0, who)
    if end.is_local:
        is_same = address.rpartition(":")[2] == end.who.removeprefix("pid ")
        return Caller(descriptor if is_same else -1, end.inode, end.who if is_same else "")
    is_same = address.removeprefix("::ffff:") == end.who
    return Caller(descriptor if is_same else -1, end.inode, who or address.removeprefix("::ffff:"))
