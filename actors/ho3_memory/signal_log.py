"""The events of one signal, of a principal or of everybody, by event time, and what they add up to as of a moment.

Whatever the order of arrival, the order here is (time, event id), so that everything derived is independent of it. A
question as of now costs a search in that order, and one as of earlier a look at the events up to then.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from hobus.actors.ho3_memory.event_rows import EventRows, SignalEvent
from hobus.actors.ho3_memory.event_time import PointInTime, decay, timestamp_of
from hobus.actors.ho3_memory.evidence import EvidenceTrace, Level
from hobus.actors.ho3_memory.names import Names
from hobus.actors.ho3_memory.session_clock import SessionClock
from hobus.bus.messages.memory import Accumulator
from hobus.config.schema import Ho3Config

T = TypeVar("T")


class EventTally(NamedTuple):
    """What the events up to a moment add up to; `last_us` of no event is None."""

    event_count: int
    session_count: int
    last_us: int | None
    principal_count: int = 0


class SignalLog:
    """Grows by `insert`; every event is kept in columns, so that any earlier moment can be asked about."""

    __slots__ = ("_clock", "_config", "_events", "_sessions", "_trace", "principal", "signal_id")

    def __init__(
        self,
        signal_id: str,
        config: Ho3Config,
        principal: str | None = None,
        *,
        sessions: Names | None = None,
        clock: SessionClock | None = None,
    ) -> None:
        """`sessions`: the numbers of sessions that all logs share; `clock`: of the principal's sessions."""
        self.signal_id = signal_id
        self.principal = principal  # None: everybody
        self._config = config
        self._events = EventRows(signal_id, sessions or Names(), of_several=principal is None)
        self._sessions = array("I")  # distinct numbers, sorted
        self._clock = clock
        self._trace = EvidenceTrace(self._events, config, clock) if config.gate_mode == "bistable" else None

    def insert(self, event: SignalEvent) -> bool:
        """Whether the event was new here; it may be older than others."""
        place = self._events.insert(event)
        if place is None:
            return False
        number = self._events.session_numbers[place]
        known = bisect_left(self._sessions, number)
        if known == len(self._sessions) or self._sessions[known] != number:
            self._sessions.insert(known, number)
        if self._trace is not None:
            self._trace.forget_from(place)
        return True

    def clock_changed(self, at_us: int) -> None:
        """The clock stands otherwise from this time on."""
        if self._trace is not None:
            self._trace.forget_from(self._events.since(at_us))

    def tally(self, as_of: PointInTime) -> EventTally:
        """Counts as of then."""
        return self._tally(self._events.counted(as_of))

    def judged(self, as_of: PointInTime) -> tuple[EventTally, Level | None]:
        """Counts and level, as both say it, of one look."""
        places = self._events.counted(as_of)
        return self._tally(places), self._level(places, as_of)

    def _tally(self, places: range | list[int]) -> EventTally:
        if not places:
            return EventTally(0, 0, None)
        rows = self._events
        count, last_us = len(places), rows.times[places[-1]]
        is_all = count == len(rows)
        sessions = len(self._sessions) if is_all else len(set(_of(rows.session_numbers, places)))
        principals = 1 if rows.principals is None else len(set(_of(rows.principals, places)))
        return EventTally(count, sessions, last_us, principals)

    def last_us(self, as_of: PointInTime) -> int | None:
        """When its newest event was as of then; None before the first."""
        places = self._events.counted(as_of)
        return self._events.times[places[-1]] if places else None

    def level(self, as_of: PointInTime) -> Level | None:
        """Its decayed evidence as of then; None where the gate counts."""
        return None if self._trace is None else self._level(self._events.counted(as_of), as_of)

    def _level(self, places: range | list[int], as_of: PointInTime) -> Level | None:
        if self._trace is None:
            return None
        clock = self._clock
        if isinstance(places, range) and (clock is None or clock.counts_all(as_of.at_us, as_of.seq)):
            return self._trace.level_after(len(places), as_of.at_us)
        clock_then = None if clock is None else clock.as_of(as_of.seq)
        return EvidenceTrace(self._events.taken(list(places)), self._config, clock_then).level(as_of.at_us)

    def accumulate(self, as_of: PointInTime, *, with_ids: bool = True) -> Accumulator | None:
        """The accumulator as of then; None before the first event. Without ids it costs no more than a tally.

        With them it names the newest `ho3.source_events_max`, so that no answer grows with the age of a habit.
        """
        event_count, session_count, last_us, _ = self.tally(as_of)
        if last_us is None:
            return None
        newest = self._events.counted(as_of)[-self._config.source_events_max :] if with_ids else ()
        return Accumulator(
            signal_id=self.signal_id,
            principal=self.principal,
            count=event_count,
            last_seen=timestamp_of(last_us),
            session_ids=sorted({self._events.session_id(place) for place in newest}),
            session_count=session_count,
            event_ids=[self._events.event_id(place) for place in newest],
            decay=decay(last_us, as_of.at_us, self._config.decay_half_life_hours),
        )


def _of(column: Sequence[T], places: range | list[int]) -> Sequence[T]:
    return column[: len(places)] if isinstance(places, range) else [column[place] for place in places]
