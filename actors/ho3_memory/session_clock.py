"""A clock that ticks once for each session of a principal: how much somebody works, where the calendar says only when.

A session has begun at the time of its first entry in the log's order, whatever older events of it come later, so that
what it is as of a sequence of the record is so for ever. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from math import inf


class SessionClock:
    """Grows by `note`."""

    def __init__(self, begins: Iterable[tuple[int, int]] = ()) -> None:
        self._begin_of: dict[int, tuple[int, int]] = {}
        self._begins: list[tuple[int, int]] = sorted(begins)  # (time, sequence) of each session's first entry
        self._newest_seq = max((seq for _, seq in self._begins), default=-1)
        self._earlier: tuple[int, float, SessionClock] | None = None  # of the sequence that was asked about last

    def note(self, session: int, at_us: int, seq: int) -> int | None:
        """An event of this session; from when on the clock stands otherwise than before, None: it does not."""
        known = self._begin_of.get(session)
        if known is not None and known[1] <= seq:
            return None
        begin = self._begin_of[session] = (at_us, seq)
        if known is not None:
            del self._begins[bisect_left(self._begins, known)]
        insort(self._begins, begin)
        self._newest_seq = max(self._newest_seq, seq)
        self._earlier = None
        return at_us if known is None else min(at_us, known[0])

    def at(self, at_us: int) -> int:
        """Sessions begun by then."""
        return bisect_right(self._begins, (at_us, inf))

    def counts_all(self, at_us: int, seq: int) -> bool:
        """Whether none of the sessions begun by then came into the log later than this sequence."""
        return seq >= self._newest_seq or at_us < self._as_of(seq)[1]

    def as_of(self, seq: int) -> SessionClock:
        """As it was when the log ended here."""
        return self._as_of(seq)[2]

    def _as_of(self, seq: int) -> tuple[int, float, SessionClock]:
        """The sequence, when the first session began that it does not know, and the clock; kept for the next one."""
        if self._earlier is None or self._earlier[0] != seq:
            first_us = next((at_us for at_us, one in self._begins if one > seq), inf)
            self._earlier = seq, first_us, SessionClock(one for one in self._begins if one[1] <= seq)
        return self._earlier
