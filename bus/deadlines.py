"""Due times of many things at the price of one timer: a heap that forgets lazily. No clock and no loop in here."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SLACK = 64
"""Forgotten entries tolerated beside twice those that lived at the last look, before the heap is rebuilt."""


class Deadlines(Generic[K]):
    """Map key to due time, with the earliest one at hand; ties come in the order in which they were set."""

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0
        self._look_at = _SLACK

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: K, due: float) -> None:
        """Set when `key` is due; an earlier setting no longer counts."""
        self._count += 1
        self._due[key] = due
        heapq.heappush(self._heap, (due, self._count, key))
        if self._count >= self._look_at:
            self._drop_forgotten()

    def _drop_forgotten(self) -> None:
        """Drop forgotten entries if they are too many, and set when to look again."""
        if len(self._heap) > 2 * len(self._due) + _SLACK:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)
        self._look_at = self._count + 2 * len(self._due) + _SLACK + 1 - len(self._heap)

    def hasten(self, key: K, due: float) -> None:
        """Make `key` due at `due` at the latest."""
        if due < self._due.get(key, math.inf):
            self.set(key, due)

    def forget(self, key: K) -> None:
        """Forget `key`: it is never due."""
        self._due.pop(key, None)

    def earliest(self) -> float | None:
        """Return a time before which nothing is due; None when nothing is waited for."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> list[K]:
        """Take out the keys due by `now`, earliest first."""
        found: list[K] = []
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                found.append(key)
        return found
