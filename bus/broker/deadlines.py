"""The deadline heap: who is due, with the ended ones thrown out before they can pile up."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

_COMPACT_FROM = 1024  # below this size the leftovers are not worth a pass


class Ends(Protocol):
    """What is not looked at any more once it is done."""

    @property
    def is_done(self) -> bool: ...  # noqa: D102 - see above


T = TypeVar("T", bound=Ends)


class DeadlineHeap(Generic[T]):
    """Times at which a pending request or post must be looked at; equal times in order of arrival."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._count = 0
        self._ended = 0

    def push(self, at: float, pending: T) -> None:
        """Looks at `pending` at time `at`, unless it has ended by then."""
        self._count += 1
        heappush(self._heap, (at, self._count, pending))

    def ended(self) -> None:
        """One of the pending ones has ended; when half of a big heap has, they are thrown out."""
        self._ended += 1
        if self._ended > _COMPACT_FROM and self._ended * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].is_done]
            heapify(self._heap)
            self._ended = 0

    def pop_due(self, now: float) -> T | None:
        """The next one that is due and has not ended."""
        heap = self._heap
        while heap and (heap[0][0] <= now or heap[0][2].is_done):
            pending = heappop(heap)[2]
            if not pending.is_done:
                return pending
        return None

    def next_at(self) -> float | None:
        """When to look next."""
        heap = self._heap
        while heap and heap[0][2].is_done:
            heappop(heap)
        return heap[0][0] if heap else None

    def __len__(self) -> int:
        return len(self._heap)
