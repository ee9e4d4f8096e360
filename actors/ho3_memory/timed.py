"""Entries by event time, in sixteen bytes each. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from hobus.actors.ho3_memory.event_time import PointInTime


class Timed:
    """Times and sequences of entries, sorted by both."""

    __slots__ = ("seqs", "times")

    def __init__(self) -> None:
        self.times = array("q")
        self.seqs = array("q")

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.times, self.seqs, strict=True)

    def insert(self, at_us: int, seq: int) -> int:
        """Its place."""
        place = bisect_right(self.times, at_us)
        while place and self.times[place - 1] == at_us and self.seqs[place - 1] > seq:
            place -= 1
        self.times.insert(place, at_us)
        self.seqs.insert(place, seq)
        return place

    def newest_us(self, as_of: PointInTime) -> int | None:
        """The latest time among those that count."""
        for place in range(bisect_right(self.times, as_of.at_us) - 1, -1, -1):
            if self.seqs[place] <= as_of.seq:
                return self.times[place]
        return None
