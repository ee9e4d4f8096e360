"""The events of one signal, of a principal or of everybody, by event time, and what they add up to as of a moment.

Whatever the order of arrival, the order here is (time, event id), so that everything derived is independent of it. A
question as of now costs a search in that order, and one as of earlier a look at the events up to then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from hobus.actors.ho3_memory.event_rows import EventRows, SignalEvent
from hobus.actors.ho3_memory.event_time import PointInTime, decay, timestamp_of
from hobus.actors.ho3_memory.evidence import EvidenceTrace, Level
from hobus.actors.ho3_memory.names import Names
from hobus.actors.ho3_memory.number_set import NumberSet
from hobus.actors.ho3_memory.residence import Spillable
from hobus.bus.messages.base import pack
from hobus.bus.messages.memory import Accumulator
from hobus.config.sections.memory import Ho3Config

T = TypeVar("T")
Whose = tuple[str | None, str]
"""A principal (None: everybody) and a signal of its."""
_LOG_BYTES, _ROW_BYTES = 1200, 54
"""What a log takes in RAM beside its events, and what one event takes, levels included; as measured."""


class EventTally(NamedTuple):
    """What the events up to a moment add up to; `last_us` of no event is None."""

    event_count: int
    session_count: int
    last_us: int | None
    principal_count: int = 0


class SignalLog(Spillable):
    """Grows by `insert`; every event is kept in columns, so that any earlier moment can be asked about."""

    __slots__ = ("_config", "_events", "_sessions", "_trace", "principal", "signal_id")

    def __init__(
        self,
        signal_id: str,
        config: Ho3Config,
        principal: str | None = None,
        *,
        sessions: Names | None = None,
    ) -> None:
        """`sessions`: the numbers of sessions that all logs share."""
        super().__init__()
        self.signal_id = signal_id
        self.principal = principal  # None: everybody
        self._config = config
        self._events = EventRows(signal_id, sessions or Names(), of_several=principal is None)
        self._sessions = NumberSet()
        self._trace = EvidenceTrace(self._events, config) if config.gate_mode == "bistable" else None

    def insert(self, event: SignalEvent) -> bool:
        """Whether the event was new here; it may be older than others."""
        place = self._events.insert(event)
        if place is None:
            return False
        self._sessions.add(self._events.session_numbers[place])
        if self._trace is not None:
            self._trace.forget_from(place)
        return True

    @property
    def event_count(self) -> int:
        """All that ever came."""
        return len(self._events)

    @property
    def session_count(self) -> int:
        """Distinct ones, of all events."""
        return len(self._sessions)

    @property
    def size_bytes(self) -> int:
        """As `Spillable`."""
        return _LOG_BYTES + _ROW_BYTES * len(self._events)

    def packed(self) -> bytes:
        """As `Spillable`; for `restore`."""
        levels = None if self._trace is None else self._trace.columns()
        return pack([self.principal, self.signal_id, self._sessions.to_bytes(), levels, self._events.columns()])

    def restore(self, sessions: bytes, levels: Sequence[bytes] | None, events: Sequence[Any]) -> None:
        """It is as it was packed, behind its principal and signal."""
        self._events.restore(events)
        self._sessions = NumberSet(sessions)
        if self._trace is not None and levels is not None:
            self._trace.restore(*levels)

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
        if isinstance(places, range):
            known = len(self._trace)
            level = self._trace.level_after(len(places), as_of.at_us)
            self.is_changed |= len(self._trace) > known  # what was worked out is worth keeping
            return level
        return EvidenceTrace(self._events.taken(places), self._config).level(as_of.at_us)

    def accumulate(self, as_of: PointInTime) -> Accumulator | None:
        """The accumulator as of then; None before the first event.

        It names the newest `ho3.source_events_max`, so that no answer grows with the age of a habit.
        """
        places = self._events.counted(as_of)
        newest = places[-self._config.source_events_max :]
        return accumulated(
            (self.principal, self.signal_id),
            self._tally(places),
            as_of,
            self._config,
            session_ids=sorted({self._events.session_id(place) for place in newest}),
            event_ids=[self._events.event_id(place) for place in newest],
        )


def accumulated(  # noqa: PLR0913 - what an accumulator says
    whose: Whose,
    tally: EventTally,
    as_of: PointInTime,
    config: Ho3Config,
    *,
    session_ids: Sequence[str] = (),
    event_ids: Sequence[str] = (),
) -> Accumulator | None:
    """What a tally says of a signal; None where there is no event."""
    if tally.last_us is None:
        return None
    return Accumulator(
        signal_id=whose[1],
        principal=whose[0],
        count=tally.event_count,
        last_seen=timestamp_of(tally.last_us),
        session_ids=list(session_ids),
        session_count=tally.session_count,
        event_ids=list(event_ids),
        decay=decay(tally.last_us, as_of.at_us, config.decay_half_life_hours),
    )


def _of(column: Sequence[T], places: range | list[int]) -> Sequence[T]:
    return column[: len(places)] if isinstance(places, range) else [column[place] for place in places]
