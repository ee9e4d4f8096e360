"""What a server bears of callers, in plain rules: of anybody on this machine, and of connections from elsewhere.

Nobody is answered more often than once per beat: a stranger that sends and never reads would fill this process's memory
with answers, and a peer that means well reads the first one. A garbage frame is dropped and counted, and not answered.
On this machine that is all: who reaches a socket is the user that runs the cluster.

A connection from another host (TCP, CURVE) is cut off as well: one that never said hello after
`limits.UNBOUND_MAX_BYTES`, one that sends what is no frame of this protocol at the last of `limits.MALFORMED_MAX`. It
costs its server a descriptor before it has proved a key, and who came last need not be who is too many: of those that
have said nothing the oldest ends, so that who speaks soon after it came is heard under any flood of the silent. Of
those that were heard, one key keeps `limits.CONNECTIONS_PER_CALLER_MAX`. OpenSSH's MaxStartups is the like of it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from msgspec import Struct

from hobus.bus import limits
from hobus.bus.window import remember

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

FRAME_BYTES = 64
"""What a frame costs whatever is in it: ZeroMQ's own record of it."""


class _Record(Struct):
    unbound_bytes: int = 0
    malformed: int = 0


class Conduct:
    """Count misconduct per connection from elsewhere; remember at most `limits.MAILBOX_MAX` that gave cause."""

    def __init__(self) -> None:
        self._unbound_max_bytes = limits.UNBOUND_MAX_BYTES
        self._connections_max = limits.MAILBOX_MAX
        self._records: OrderedDict[bytes, _Record] = OrderedDict()
        self._proven: OrderedDict[bytes, None] = OrderedDict()

    def unbound(self, connection: bytes, size_bytes: int) -> str:
        """Count bytes that came without a hello; return why the connection is cut off now, "" if it is not.

        One that has said hello before is asked for another one after a standstill of either side. What it had sent by
        then still comes in between, and may be much: that is no stranger's.
        """
        if connection in self._proven:
            return ""
        record = self._record(connection)
        record.unbound_bytes += size_bytes + FRAME_BYTES
        if record.unbound_bytes <= self._unbound_max_bytes:
            return ""
        del self._records[connection]
        return f"{record.unbound_bytes} bytes without a hello"

    def malformed(self, connection: bytes) -> str:
        """Count something that is no frame of this protocol; return why the connection is cut off now, or ""."""
        record = self._record(connection)
        record.malformed += 1
        if record.malformed < limits.MALFORMED_MAX:
            return ""
        del self._records[connection]
        return f"{record.malformed} malformed frames"

    def bound(self, connection: bytes) -> None:
        """Forgive what came before the hello that was said now."""
        self._records.pop(connection, None)
        remember(self._proven, connection, None, at_most=self._connections_max)

    def _record(self, connection: bytes) -> _Record:
        record = self._records.get(connection)
        if record is None:
            record = _Record()
            remember(self._records, connection, record, at_most=self._connections_max)
        return record


class Pace:
    """Allow at most one answer per connection and beat; remember a bounded number of connections."""

    def __init__(self, settings: BusSettings) -> None:
        self._interval_s = settings.beat_interval_ms / 1000
        self._connections_max = limits.MAILBOX_MAX
        self._answered: OrderedDict[bytes, float] = OrderedDict()

    def allows(self, connection: bytes, now: float) -> bool:
        """Return whether this connection may be answered now; if so, count it as answered."""
        last = self._answered.get(connection)
        if last is not None and now - last < self._interval_s:
            return False
        remember(self._answered, connection, now, at_most=self._connections_max)
        return True


class Doorway:
    """The connections of one bound socket, and which of them ends; named by their inode, which is used once."""

    def __init__(self, strangers_max: int) -> None:
        self._strangers_max = strangers_max
        self._strangers: OrderedDict[int, None] = OrderedDict()
        self._heard: dict[int, str] = {}
        self._of_caller: dict[str, set[int]] = {}

    def add_accepted(self, inode: int) -> int | None:
        """Add a connection; return the one that ends now, if one must."""
        if inode not in self._heard:
            self._strangers[inode] = None
        return self._strangers.popitem(last=False)[0] if len(self._strangers) > self._strangers_max else None

    def heard(self, inode: int, who: str) -> bool:
        """Note that this connection has spoken, maybe before `accepted`; return whether its caller may have it."""
        self._strangers.pop(inode, None)
        if inode in self._heard:
            return True
        own = self._of_caller.setdefault(who, set())
        if len(own) >= limits.CONNECTIONS_PER_CALLER_MAX:
            return False
        own.add(inode)
        self._heard[inode] = who
        return True

    def ended(self, inode: int) -> None:
        """Forget the closed connection with this inode."""
        self._strangers.pop(inode, None)
        who = self._heard.pop(inode, None)
        if who is not None:
            own = self._of_caller[who]
            own.discard(inode)
            if not own:
                del self._of_caller[who]
