"""How many connections one bound socket keeps, and which of them ends when there are too many. A plain rule.

A connection costs its server a descriptor before anybody has said a word, and who came last need not be who is too
many: of those that have said nothing the oldest ends, so that whoever speaks soon after it came is heard under any
flood of the silent. Of those that were heard, one caller (a process, a key) keeps `bus.connections_per_caller_max`, and
all together `bus.connections_max`. Where nobody tells who has spoken (the tap) callers come at a pace, too.
A stranger harms nobody. OpenSSH's MaxStartups is the like of it.
"""

from __future__ import annotations

from collections import OrderedDict

from hobus.bus.conduct import Pace
from hobus.bus.settings import BusSettings


class Doorway:
    """Connections are named by the inode of their socket, which is used once."""

    def __init__(self, settings: BusSettings) -> None:
        self._strangers_max = settings.strangers_max
        self._connections_max = settings.connections_max
        self._per_caller_max = settings.connections_per_caller_max
        self._strangers: OrderedDict[int, None] = OrderedDict()
        self._heard: dict[int, str] = {}
        self._of_caller: dict[str, set[int]] = {}
        self._arrivals = Pace(settings.tap_connect_interval_ms / 1000, settings.connections_max)

    def accepted(self, inode: int) -> int | None:
        """One more connection; the one that ends now, if one must."""
        if inode not in self._heard:
            self._strangers[inode] = None
        return self._strangers.popitem(last=False)[0] if len(self._strangers) > self._strangers_max else None

    def heard(self, inode: int, who: str) -> bool:
        """This one has spoken, maybe before it was told here that it came; whether its caller may have it."""
        self._strangers.pop(inode, None)
        if inode in self._heard:
            return True
        own = self._of_caller.setdefault(who, set())
        if len(own) >= self._per_caller_max or len(self._heard) >= self._connections_max:
            return False
        own.add(inode)
        self._heard[inode] = who
        return True

    def came(self, inode: int, who: str, now: float) -> bool:
        """Whether one more connection may stay where none is told to have spoken: it counts as heard.

        Of one caller no sooner than `bus.tap_connect_interval_ms` after the last: coming and going costs the server
        more than a connection that stays.
        """
        return self._arrivals.allows(who.encode(), now) and self.heard(inode, who)

    def ended(self, inode: int) -> None:
        """It is no more."""
        self._strangers.pop(inode, None)
        who = self._heard.pop(inode, None)
        if who is not None:
            own = self._of_caller[who]
            own.discard(inode)
            if not own:
                del self._of_caller[who]
