"""The events of one signal, of a principal or of everybody, by event time, and what they add up to as of a moment.

Whatever the order of arrival, the order here is (time, event id), so that everything derived is independent of it. A
question as of now, or as of any time with every entry counted, costs a search in that order; one that leaves out
entries by sequence looks at each event.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from hobus.actors.ho3_memory.event_time import PointInTime, decay, timestamp_of
from hobus.actors.ho3_memory.evidence import EvidenceTrace, Level, SignalEvent
from hobus.actors.ho3_memory.first_seen import FirstSeen
from hobus.bus.messages.memory import Accumulator
from hobus.config.schema import Ho3Config

_TIME = attrgetter("at_us")


class EventTally(NamedTuple):
    """What the events up to a moment add up to; `last_us` of no event is None."""

    event_count: int
    session_count: int
    last_us: int | None
    principal_count: int = 0


class SignalLog:
    """Grows by `insert`; every event is kept, so that any earlier moment can be asked about."""

    def __init__(self, signal_id: str, config: Ho3Config, principal: str | None = None) -> None:
        self.signal_id = signal_id
        self.principal = principal  # None: everybody
        self._config = config
        self._events: list[SignalEvent] = []
        self._newest_seq = -1
        self._sessions = FirstSeen()
        self._principals = FirstSeen()
        self._trace = EvidenceTrace(config) if config.gate_mode == "bistable" else None

    def insert(self, event: SignalEvent) -> None:
        """One event that is not here yet; it may be older than others."""
        is_newest = not self._events or event > self._events[-1]
        if is_newest:
            self._events.append(event)
        else:
            insort(self._events, event)
            if self._trace is not None:
                self._trace.forget()
        self._newest_seq = max(self._newest_seq, event.seq)
        self._sessions.note(event.session_id, event.at_us)
        self._principals.note(event.principal, event.at_us)

    def tally(self, as_of: PointInTime) -> EventTally:
        """Counts as of then."""
        if as_of.seq < self._newest_seq:
            events = self._counted(as_of)
            sessions, principals = ({getattr(event, of) for event in events} for of in ("session_id", "principal"))
            return EventTally(len(events), len(sessions), _last(events), len(principals))
        count = bisect_right(self._events, as_of.at_us, key=_TIME)
        last_us = self._events[count - 1].at_us if count else None
        return EventTally(count, self._sessions.count(as_of.at_us), last_us, self._principals.count(as_of.at_us))

    def level(self, as_of: PointInTime) -> Level | None:
        """Its decayed evidence as of then; None where the gate counts."""
        if self._trace is None:
            return None
        if as_of.seq < self._newest_seq:
            trace = EvidenceTrace(self._config)
            trace.follow(self._counted(as_of))
            return trace.level(as_of.at_us)
        self._trace.follow(self._events)
        return self._trace.level(as_of.at_us)

    def accumulate(self, as_of: PointInTime, *, with_ids: bool = True) -> Accumulator | None:
        """The accumulator as of then; None before the first event. Without ids it costs no more than a tally.

        With them it names the newest `ho3.source_events_max`, so that no answer grows with the age of a habit.
        """
        event_count, session_count, last_us, _ = self.tally(as_of)
        if last_us is None:
            return None
        events = self._counted(as_of)[-self._config.source_events_max :] if with_ids else ()
        return Accumulator(
            signal_id=self.signal_id,
            principal=self.principal,
            count=event_count,
            last_seen=timestamp_of(last_us),
            session_ids=sorted({event.session_id for event in events}),
            session_count=session_count,
            event_ids=[event.event_id for event in events],
            decay=decay(last_us, as_of.at_us, self._config.decay_half_life_hours),
        )

    def _counted(self, as_of: PointInTime) -> Sequence[SignalEvent]:
        until = self._events[: bisect_right(self._events, as_of.at_us, key=_TIME)]
        return until if as_of.seq >= self._newest_seq else [event for event in until if event.seq <= as_of.seq]


def _last(events: Sequence[SignalEvent]) -> int | None:
    return events[-1].at_us if events else None
