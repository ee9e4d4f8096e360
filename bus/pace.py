"""How often a server answers a connection that it does not know. Plain rules.

A stranger that sends and never reads would otherwise fill this process's memory with answers. A peer that means well
reads the first one. A garbage frame harms nobody but its sender.
"""

from __future__ import annotations

from collections import OrderedDict


class Pace:
    """At most one answer per connection and interval; remembers a bounded number of connections."""

    def __init__(self, interval_s: float, connections_max: int) -> None:
        self._interval_s = interval_s
        self._connections_max = connections_max
        self._answered: OrderedDict[bytes, float] = OrderedDict()

    def allows(self, connection: bytes, now: float) -> bool:
        """Whether this connection may be answered now; if so, that counts as done."""
        last = self._answered.get(connection)
        if last is not None and now - last < self._interval_s:
            return False
        self._answered[connection] = now
        self._answered.move_to_end(connection)
        while len(self._answered) > self._connections_max:
            self._answered.popitem(last=False)
        return True
