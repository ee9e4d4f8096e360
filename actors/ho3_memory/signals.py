"""Everything that was ever counted for one agent: each signal's events, of a principal or of everybody, and when.

Of each signal its totals are at hand; its events may be out of RAM. What is asked as of the latest moment is answered
from the totals where they say it.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern

from hobus.actors.ho3_memory.event_rows import SignalEvent
from hobus.actors.ho3_memory.event_time import PointInTime
from hobus.actors.ho3_memory.evidence import NOTHING, Level
from hobus.actors.ho3_memory.freshness import Freshness
from hobus.actors.ho3_memory.names import Names
from hobus.actors.ho3_memory.residence import Residence, Values
from hobus.actors.ho3_memory.signal_log import EventTally, SignalLog, Whose, accumulated
from hobus.bus.messages.base import unpack
from hobus.bus.messages.memory import Accumulator
from hobus.config.sections.memory import Ho3Config

_NEVER_FRESH = Freshness()
_NO_EVENT = EventTally(0, 0, None)


class _Totals:
    """Of one signal, as of the latest moment."""

    __slots__ = ("newest", "number", "principals", "tally", "whose")

    def __init__(self, whose: Whose, number: int) -> None:
        self.whose = whose
        self.number = number
        self.tally = _NO_EVENT
        self.newest = PointInTime(0, -1)  # from then on all events count
        self.principals = set[str]() if whose[0] is None else None  # of everybody's events

    def count(self, event: SignalEvent, log: SignalLog) -> None:
        """This event has just come into its log."""
        self.newest = PointInTime(max(self.newest.at_us, event.at_us), max(self.newest.seq, event.seq))
        last_us = event.at_us if self.tally.last_us is None else max(self.tally.last_us, event.at_us)
        if self.principals is not None:
            self.principals.add(intern(event.principal))
        principal_count = 1 if self.principals is None else len(self.principals)
        self.tally = EventTally(log.event_count, log.session_count, last_us, principal_count)

    def hold(self, as_of: PointInTime) -> bool:
        """Whether they are what a question as of then counts."""
        return as_of.at_us >= self.newest.at_us and as_of.seq >= self.newest.seq


class Signals:
    """Grows by `insert`."""

    def __init__(self, config: Ho3Config, residence: Residence) -> None:
        self._config = config
        self._nothing = None if config.gate_mode == "counting" else NOTHING  # the level of what has no event
        self._sessions = Names()
        self._fresh: dict[str | None, Freshness] = {}
        self._logs = Values(residence, self._unpacked)
        self._known: dict[Whose, _Totals] = {}

    def __iter__(self) -> Iterator[Whose]:
        return iter(self._known)

    def insert(self, whose: str | None, signal_id: str, event: SignalEvent) -> Whose | None:
        """An event of a principal's signal, or of everybody's; None: it was here already."""
        totals = self._known.get((whose, signal_id))
        if totals is None:
            key = (whose, intern(signal_id))
            totals = self._known[key] = _Totals(key, self._logs.add(self._new(*key)))
        log = self._log(totals)
        if not log.insert(event):
            return None
        totals.count(event, log)
        self._logs.changed(totals.number, log)
        self._fresh.setdefault(whose, Freshness()).note(signal_id, event.at_us)
        return totals.whose

    def _new(self, whose: str | None, signal_id: str) -> SignalLog:
        return SignalLog(signal_id, self._config, whose, sessions=self._sessions)

    def _unpacked(self, data: bytes) -> SignalLog:
        principal, signal_id, *rest = unpack(data)
        log = self._new(principal if principal is None else intern(principal), intern(signal_id))
        log.restore(*rest)
        return log

    def _log(self, totals: _Totals) -> SignalLog:
        """Its events; to be held no longer than until the next one's are asked for."""
        return self._logs[totals.number]

    def fresh(self, whose: str | None) -> Freshness:
        """When each signal of a principal came last."""
        return self._fresh.get(whose, _NEVER_FRESH)

    def tally(self, whose: Whose, as_of: PointInTime) -> EventTally:
        """Counts as of then."""
        totals = self._known.get(whose)
        if totals is None:
            return _NO_EVENT
        return totals.tally if totals.hold(as_of) else self._log(totals).tally(as_of)

    def last(self, whose: Whose, as_of: PointInTime) -> tuple[int | None, Level | None]:
        """When its newest event was as of then, None before the first; and its decayed evidence, as `level`."""
        totals = self._known.get(whose)
        if totals is None:
            return None, self._nothing
        if self._nothing is None:
            return self.tally(whose, as_of).last_us, None
        log = self._log(totals)
        return totals.tally.last_us if totals.hold(as_of) else log.last_us(as_of), log.level(as_of)

    def level(self, whose: Whose, as_of: PointInTime) -> Level | None:
        """Its decayed evidence as of then; None where the gate counts."""
        totals = self._known.get(whose)
        return self._nothing if totals is None or self._nothing is None else self._log(totals).level(as_of)

    def accumulator(self, whose: Whose, as_of: PointInTime, *, with_ids: bool) -> Accumulator | None:
        """None before its first event. Without ids it costs no more than a tally."""
        totals = self._known.get(whose)
        if totals is None:
            return None
        if with_ids:
            return self._log(totals).accumulate(as_of)
        return accumulated(whose, self.tally(whose, as_of), as_of, self._config)
