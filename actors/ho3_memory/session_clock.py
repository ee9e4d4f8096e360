"""A clock that ticks once for each session of a principal: how much somebody works, where the calendar says only when.

A session has begun at the time of its first entry in the log's order, whatever older events of it come later, so that
what it is as of a sequence of the record is so for ever. Twenty bytes a session. Pure.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from math import inf

from hobus.actors.ho3_memory.timed import Timed

_RECENT_MAX = 1024
"""Sessions whose begins are found at once; of another one the columns are searched."""


class SessionClock:
    """Grows by `note`."""

    def __init__(self, begins: Iterable[tuple[int, int, int]] = ()) -> None:
        """`begins`: time and sequence of each session's first entry, and the session, in order."""
        self._begins = Timed()
        self._sessions = array("I")  # whose each of them is
        self._newest_seq = self._highest = -1
        self._recent: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self._earlier: tuple[int, float, SessionClock] | None = None  # of the sequence that was asked about last
        for at_us, seq, session in begins:
            self._begin(session, at_us, seq)

    def note(self, session: int, at_us: int, seq: int) -> int | None:
        """An event of this session; from when on the clock stands otherwise than before, None: it does not."""
        known = self._begin_of(session)
        if known is not None and known[1] <= seq:
            return None
        if known is not None:
            del self._sessions[self._begins.remove(*known)]
        self._begin(session, at_us, seq)
        self._remember(session, (at_us, seq))
        self._earlier = None
        return at_us if known is None else min(at_us, known[0])

    def _begin(self, session: int, at_us: int, seq: int) -> None:
        self._sessions.insert(self._begins.insert(at_us, seq), session)
        self._newest_seq = max(self._newest_seq, seq)
        self._highest = max(self._highest, session)

    def _begin_of(self, session: int) -> tuple[int, int] | None:
        known = self._recent.get(session)
        if known is not None:
            self._recent.move_to_end(session)
            return known
        if session > self._highest:  # sessions are numbered as they come: this one has not begun here
            return None
        try:
            place = self._sessions.index(session)
        except ValueError:
            return None
        return self._remember(session, (self._begins.times[place], self._begins.seqs[place]))

    def _remember(self, session: int, begin: tuple[int, int]) -> tuple[int, int]:
        self._recent[session] = begin
        if len(self._recent) > _RECENT_MAX:
            self._recent.popitem(last=False)
        return begin

    def at(self, at_us: int) -> int:
        """Sessions begun by then."""
        return bisect_right(self._begins.times, at_us)

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
            there = zip(self._begins.times, self._begins.seqs, self._sessions, strict=True)
            self._earlier = seq, first_us, SessionClock(one for one in there if one[1] <= seq)
        return self._earlier
