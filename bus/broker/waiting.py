"""Where requests wait: per service, bounded by the caller, fair between principals, low-priority types behind others.

A request waits for anybody of its service, for whoever has its tool, or for one instance (its key's owner, or the
instance it names). Requests
that need a slot and those that do not wait apart, so that neither holds up the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from hobus.bus.catalog import Row
from hobus.bus.envelope import Header
from hobus.bus.fair import FairQueue, compute_cost, get_weight

ANYBODY = ""
Place = tuple[str, bool, bool]
"""For whom (an instance, a tool's queue, ANYBODY), whether it needs a slot, whether it is low."""


class Waits(Protocol):
    """What can wait in a room, and keeps its place there."""

    header: Header
    body: bytes
    row: Row
    principal: str
    slotted: bool
    place: Place | None


T = TypeVar("T", bound=Waits)


class WaitingRoom(Generic[T]):
    """Everything that waits for one service."""

    __slots__ = ("_queues", "_shared_first", "count")

    def __init__(self) -> None:
        self._queues: dict[Place, FairQueue[str, T]] = {}
        self._shared_first = False
        self.count = 0

    def add(self, pending: T, target: str) -> None:
        """Queue for `target` (an instance, a tool's queue) or for ANYBODY."""
        place = (target, pending.slotted, pending.row.low)
        queue = self._queues.get(place)
        if queue is None:
            queue = self._queues[place] = FairQueue(self._get_weight)
        pending.place = place
        queue.add(pending.principal, pending.header.message_id, pending, compute_cost(len(pending.body)))
        self.count += 1

    def remove(self, pending: T) -> None:
        """Take out of the queue; do nothing if it did not wait."""
        place = pending.place
        if place is None:
            return
        self._queues[place].remove(pending.principal, pending.header.message_id)
        self._note_left(pending, place)

    def _note_left(self, pending: T, place: Place) -> None:
        if not self._queues[place]:
            del self._queues[place]
        pending.place = None
        self.count -= 1

    def _get_weight(self, principal: str) -> int:
        return get_weight(principal)

    def take(self, target: str, tool_queues: Sequence[str] = (), *, slotted: bool) -> T | None:
        """Take out the next one that `target` may serve: low types last, its own and the shared in turn."""
        self._shared_first = not self._shared_first
        order = (ANYBODY, target, *tool_queues) if self._shared_first else (*tool_queues, target, ANYBODY)
        for low in (False, True):
            for whom in order:
                queue = self._queues.get((whom, slotted, low))
                taken = queue.take() if queue is not None else None
                if taken is not None:
                    self._note_left(taken[1], (whom, slotted, low))
                    return taken[1]
        return None

    def list_waiting_for(self, target: str) -> list[T]:
        """Return those bound to one instance, in order."""
        return [
            pending
            for slotted in (False, True)
            for low in (False, True)
            for pending in self._queues.get((target, slotted, low), ())
        ]

    def list_all(self) -> list[T]:
        return [pending for queue in self._queues.values() for pending in queue]
