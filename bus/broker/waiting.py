"""Where requests wait: per service, bounded by the caller, fair between senders, low-priority types behind others.

A request waits for anybody of its service, for whoever has its tool, or for one instance (its key's owner, or the
instance it names). Requests
that need a slot and those that do not wait apart, so that neither holds up the other. Source: spec page "The bus",
Back-pressure.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from bus.broker.peers import Pending

ANYBODY = ""


class FairQueue:
    """Round robin between senders, in order within each; any member leaves in constant time."""

    __slots__ = ("_senders",)

    def __init__(self) -> None:
        self._senders: OrderedDict[str, OrderedDict[str, Pending]] = OrderedDict()

    def add(self, sender: str, pending: Pending) -> None:
        """Stands last of its sender."""
        lane = self._senders.get(sender)
        if lane is None:
            lane = self._senders[sender] = OrderedDict()
        lane[pending.header.message_id] = pending

    def remove(self, sender: str, pending: Pending) -> None:
        """Is not in the queue any more."""
        lane = self._senders[sender]
        del lane[pending.header.message_id]
        if not lane:
            del self._senders[sender]

    def first(self) -> Pending | None:
        """The next one of the sender whose turn it is; that sender then waits for all others."""
        for sender, lane in self._senders.items():
            pending = next(iter(lane.values()))
            self._senders.move_to_end(sender)
            return pending
        return None

    def __iter__(self) -> Iterator[Pending]:
        for lane in self._senders.values():
            yield from lane.values()

    def __bool__(self) -> bool:
        return bool(self._senders)


class WaitingRoom:
    """All that waits for one service."""

    __slots__ = ("_queues", "_shared_first", "count")

    def __init__(self) -> None:
        self._queues: dict[tuple[str, bool, bool], FairQueue] = {}  # (for whom, needs a slot, low) -> queue
        self._shared_first = False
        self.count = 0

    def add(self, pending: Pending, target: str) -> None:
        """Waits for `target` (an instance, a tool's queue) or for ANYBODY."""
        place = (target, pending.slotted, pending.row.low)
        queue = self._queues.get(place)
        if queue is None:
            queue = self._queues[place] = FairQueue()
        pending.place = place
        pending.waits_as = pending.requester.instance
        queue.add(pending.waits_as, pending)
        self.count += 1

    def remove(self, pending: Pending) -> None:
        """Waits no longer; does nothing for one that did not wait."""
        place = pending.place
        if place is None:
            return
        queue = self._queues[place]
        queue.remove(pending.waits_as, pending)
        if not queue:
            del self._queues[place]
        pending.place = None
        self.count -= 1

    def take(self, target: str, tool_queues: Sequence[str] = (), *, slotted: bool) -> Pending | None:
        """The next one that `target` may serve, taken out: other work before low, its own and the shared in turn."""
        self._shared_first = not self._shared_first
        order = (ANYBODY, target, *tool_queues) if self._shared_first else (*tool_queues, target, ANYBODY)
        for low in (False, True):
            for whom in order:
                queue = self._queues.get((whom, slotted, low))
                pending = queue.first() if queue is not None else None
                if pending is not None:
                    self.remove(pending)
                    return pending
        return None

    def waiting_for(self, target: str) -> list[Pending]:
        """Those bound to one instance, in order."""
        return [
            pending
            for slotted in (False, True)
            for low in (False, True)
            for pending in self._queues.get((target, slotted, low), ())
        ]

    def everything(self) -> list[Pending]:
        """All that wait, queue by queue in order."""
        return [pending for queue in self._queues.values() for pending in queue]
