"""Everything that was ever counted for one agent: each signal's events, of a principal or of everybody, and when.

Whatever the order of arrival, the order here is (time, event id), so that everything derived is independent of it.
Each event stands with the evidence after it; an older event that comes late lets its signal's evidence be worked out
anew, that of others too if it makes an absence shorter. A question as of a sequence before the newest looks at the
events behind that one, and works out anew what follows from them: sessions at once ask it with every turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

from hobus.actors.ho3_memory.database import Database
from hobus.actors.ho3_memory.event_time import HOUR_US, PointInTime, decay, format_timestamp
from hobus.actors.ho3_memory.evidence import (
    NOTHING,
    Added,
    Hours,
    Level,
    count_present_us,
    fade,
    open_hours,
    open_since_us,
    raise_level,
    trace,
)
from hobus.actors.ho3_memory.limits import ABSENCE_MAX_HOURS, LAST_SEQUENCE
from hobus.actors.ho3_memory.records import EVERYBODY, Fact, name_principal
from hobus.bus.limits import SOURCE_EVENTS_MAX
from hobus.bus.messages.memory import Accumulator
from hobus.config.sections.record import Ho3Config

Whose = tuple[str | None, str]
"""A principal (None: everybody) and a signal of its."""
_AS_OF = "signal = ? AND at_us <= ? AND +seq <= ?"
"""In order of time: `+` keeps the index by sequence out of it. An index is named where SQLite would choose the order
of time, and so look at all of a signal's events."""
_NEWEST_FIRST = "ORDER BY at_us DESC, event_id DESC"


class EventTally(NamedTuple):
    """What the events up to a moment add up to; `last_us` of no event is None."""

    event_count: int
    session_count: int
    last_us: int | None
    principal_count: int = 0


class KnownSignal(NamedTuple):
    """A signal's row."""

    number: int
    event_count: int
    session_count: int
    newest_us: int
    newest_seq: int
    evidence: float
    is_open: bool
    principal_count: int
    """Of everybody's events."""

    def holds(self, as_of: PointInTime) -> bool:
        """Return whether all of the signal's events count as of then."""
        return as_of.at_us >= self.newest_us and as_of.seq >= self.newest_seq


class Present(NamedTuple):
    """When a principal was there before a moment, for whoever asks about many signals."""

    since_hour: float
    """How far back this goes: as far as a gate may stand open."""
    absences: list[tuple[int, int]]
    """(hour, next hour with an event, or the moment's) of those that do not count whole."""
    open_since_us: float
    """No gate stands open whose signal had no event since then."""
    late_us: float
    """Levels that stand here since then may follow from hours that were appended later; infinite: none does."""


class _Unsettled(NamedTuple):
    """A signal with an event that came behind later ones: its levels are traced anew."""

    whose: str | None
    since_us: int
    until_us: int
    """Behind it levels follow from the one before alone, as they did."""


_COLUMNS = "signal, event_count, session_count, newest_us, newest_seq, evidence, is_open, principal_count"
_KNOWN = f"SELECT {_COLUMNS} FROM signals WHERE whose = ? AND signal_id = ?"
_FRESH = f"SELECT signal_id, {_COLUMNS} FROM signals WHERE whose = ? AND newest_us >= ?"
_LEVEL_BY_TIME = f"SELECT at_us, evidence, is_open FROM events WHERE signal = ? AND at_us <= ? {_NEWEST_FIRST} LIMIT 1"
_INSERT = "INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADDED = (
    "SELECT at_us, own FROM events INDEXED BY events_of_session WHERE signal = ? AND session_id = ? AND at_us < ? "
    "ORDER BY at_us DESC, event_id DESC LIMIT 1"
)
_LATER = (
    "WITH later AS (SELECT session_id, principal FROM events WHERE signal = ?1 AND at_us > ?2 "
    "UNION ALL SELECT session_id, principal FROM events INDEXED BY events_by_sequence "
    "WHERE signal = ?1 AND seq > ?3 AND at_us <= ?2) SELECT count(*), count(DISTINCT CASE WHEN NOT EXISTS "
    "(SELECT 1 FROM events AS earlier INDEXED BY events_of_session WHERE signal = ?1 "
    "AND earlier.session_id = later.session_id AND at_us <= ?2 AND seq <= ?3) THEN session_id END), "
    "count(DISTINCT CASE WHEN NOT EXISTS (SELECT 1 FROM events AS earlier INDEXED BY events_of_principal "
    "WHERE signal = ?1 AND earlier.principal = later.principal AND at_us <= ?2 AND seq <= ?3) "
    "THEN principal END) FROM later"
)
"""Events behind a time or a sequence, and sessions and principals that have no others."""
_LATE_EVENT = "SELECT min(at_us) FROM events INDEXED BY events_by_sequence WHERE signal = ? AND seq > ?"
_LATE_HOUR = "SELECT min(hour) FROM presence INDEXED BY presence_by_sequence WHERE whose = ? AND first_seq > ?"
_OF_PRINCIPAL = "SELECT 1 FROM events WHERE signal = ? AND principal = ? LIMIT 1"
_COUNT = (
    "UPDATE signals SET event_count = event_count + 1, session_count = session_count + ?, principal_count = "
    "principal_count + ?, newest_us = max(newest_us, ?), newest_seq = max(newest_seq, ?), evidence = ?, is_open = ? "
    "WHERE signal = ?"
)
_LEVEL = "UPDATE signals SET evidence = ?, is_open = ? WHERE signal = ?"
_PRESENT = (
    "INSERT INTO presence VALUES (?, ?, ?) ON CONFLICT (whose, hour) DO UPDATE SET first_seq = excluded.first_seq "
    "WHERE excluded.first_seq < first_seq"
)
_AROUND = (
    "SELECT signal FROM signals WHERE whose = ? AND newest_us >= ? AND signal != ? "
    "AND EXISTS (SELECT 1 FROM events WHERE events.signal = signals.signal AND at_us < ?)"
)
"""Other signals with an event before and one after: the evidence of no other fades by a time between."""
_BESIDE = (
    "SELECT (SELECT max(hour) FROM presence WHERE whose = ?1 AND hour < ?2), "
    "(SELECT min(hour) FROM presence WHERE whose = ?1 AND hour > ?2)"
)
_HOURS = "SELECT hour FROM presence WHERE whose = ? AND hour <= ? AND first_seq <= ?"
_NO_EVENT = EventTally(0, 0, None)


class SignalTable:
    """The signals of one agent. Grows by `insert`; `settle` makes it whole before anything is asked."""

    def __init__(self, config: Ho3Config, database: Database) -> None:
        self._config = config
        self._database = database
        self._unsettled: dict[int, _Unsettled] = {}

    def settle(self) -> None:
        """Bring levels up to all events, in whatever order they came."""
        for number, about in self._unsettled.items():
            self._database.run(_LEVEL, *self._trace_anew(number, about), number)
        self._unsettled.clear()

    def insert(self, whose: str | None, fact: Fact, event_id: str) -> bool:
        """Add an event of a principal's signal, or of everybody's, in any order; return whether it was new."""
        known = self._find_known((whose, fact.about)) or self._make_new((whose, fact.about))
        before = self._find_added(known.number, LAST_SEQUENCE, fact.session_id)
        level = self._fade(
            whose, Level(known.evidence, known.is_open), known.newest_us, PointInTime(fact.at_us, LAST_SEQUENCE)
        )
        level, added = raise_level(level, before, fact.at_us, self._config)
        principal = fact.principal if whose is None else None
        is_first_of_principal = principal is not None and not self._database.row(_OF_PRINCIPAL, known.number, principal)
        event = known.number, fact.at_us, event_id, fact.seq, fact.session_id, principal, *level, added.own
        if not self._database.run(_INSERT, *event):
            return False
        if fact.at_us <= known.newest_us or known.number in self._unsettled:
            self._unsettle(known.number, whose, fact.at_us, max(fact.at_us, before.at_us if before else 0))
        news = before is None, is_first_of_principal, fact.at_us, fact.seq
        self._database.run(_COUNT, *news, *level, known.number)
        if self._shortens_an_absence(whose, fact):
            around = name_principal(whose), fact.at_us, known.number, fact.at_us
            for (number,) in [(known.number,), *self._database.rows(_AROUND, *around)]:
                self._unsettle(number, whose, fact.at_us, LAST_SEQUENCE)
        return True

    def _unsettle(self, number: int, whose: str | None, since_us: int, until_us: int) -> None:
        there = self._unsettled.get(number, (whose, since_us, until_us))
        self._unsettled[number] = _Unsettled(whose, min(since_us, there[1]), max(until_us, there[2]))

    def _shortens_an_absence(self, whose: str | None, fact: Fact) -> bool:
        """Note that somebody was there; return whether more of the time between two known hours counts by that."""
        hour = fact.at_us // HOUR_US
        if not self._database.run(_PRESENT, name_principal(whose), hour, fact.seq):
            return False
        before, after = self._database.row(_BESIDE, name_principal(whose), hour)
        return before is not None and after is not None and after - before > ABSENCE_MAX_HOURS

    def _fade(
        self, whose: str | None, level: Level, since_us: int, as_of: PointInTime, present: Present | None = None
    ) -> Level:
        """Return what is left as of then of a level that stood since an earlier time."""
        if not level.evidence:
            return NOTHING
        if present is not None and present.since_hour <= (hour := since_us // HOUR_US):
            absent = sum([after - before - ABSENCE_MAX_HOURS for before, after in present.absences if before >= hour])
            return fade(level, as_of.at_us - since_us - absent * HOUR_US, self._config)
        hours = self._list_hours(whose, as_of, since_us) if as_of.at_us - since_us > ABSENCE_MAX_HOURS * HOUR_US else ()
        return fade(level, count_present_us(hours, since_us, as_of.at_us), self._config)

    def _list_hours(self, whose: str | None, as_of: PointInTime, since_us: int = 0) -> Hours:
        """Return the hours with an event as of then, of those since a time."""
        found = as_of.at_us // HOUR_US, as_of.seq, since_us // HOUR_US
        rows = self._database.rows(f"{_HOURS} AND hour >= ? ORDER BY hour", name_principal(whose), *found)
        return [hour for (hour,) in rows]

    def _trace_anew(self, number: int, about: _Unsettled) -> Level:
        """Note the levels that are others now; the last one."""
        whose, since_us, until_us = about
        rows = self._database.rows(
            "SELECT at_us, session_id, event_id, evidence, is_open, own FROM events "
            "WHERE signal = ? AND at_us >= ? ORDER BY at_us, event_id",
            number,
            since_us,
        )
        newest = self._database.row(_LEVEL_BY_TIME, number, since_us - 1)
        before = newest and (newest[0], Level(newest[1], newest[2]))
        hours = self._list_hours(whose, PointInTime(rows[-1][0], LAST_SEQUENCE), newest[0] if newest else since_us)
        changed: list[tuple[object, ...]] = []
        last = NOTHING
        events = (row[:2] for row in rows)
        traced = trace(events, hours, self._config, before, partial(self._find_added, number, since_us))
        for row, (level, own) in zip(rows, traced, strict=False):
            last = level
            if row[3:] != (*level, own):
                changed.append((*level, own, number, row[0], row[2]))
            elif row[0] > until_us:
                last = Level(*rows[-1][3:5])
                break
        self._database.run_many(
            "UPDATE events SET evidence = ?, is_open = ?, own = ? WHERE signal = ? AND at_us = ? AND event_id = ?",
            changed,
        )
        return last

    def _find_added(self, number: int, before_us: int, session_id: str) -> Added | None:
        row = self._database.row(_ADDED, number, session_id, before_us)
        return row and Added(*row)

    def _find_known(self, whose: Whose) -> KnownSignal | None:
        row = self._database.row(_KNOWN, name_principal(whose[0]), whose[1])
        return row and KnownSignal(*row)

    def _make_new(self, whose: Whose) -> KnownSignal:
        new = f"INSERT INTO signals (whose, signal_id) VALUES (?, ?) RETURNING {_COLUMNS}"
        return KnownSignal(*self._database.row(new, name_principal(whose[0]), whose[1]))

    def present(self, principal: str | None, as_of: PointInTime) -> Present:
        """Return when a principal was there before a moment."""
        late_us = self._find_late_us(principal, as_of)
        if (reach := open_hours(self._config)) == inf:
            return Present(inf, [], -inf, late_us)
        count = int(reach) + 3  # each of them is an hour at least
        found = name_principal(principal), as_of.at_us // HOUR_US, as_of.seq, count
        rows = self._database.rows(f"{_HOURS} ORDER BY hour DESC LIMIT ?", *found)
        back = [hour for (hour,) in rows]
        absences = [
            (before, after)
            for after, before in pairwise((as_of.at_us // HOUR_US, *back))
            if after - before > ABSENCE_MAX_HOURS
        ]
        return Present(back[-1] if back else inf, absences, open_since_us(back, as_of.at_us, self._config), late_us)

    def fresh(self, principal: str | None, since_us: float) -> dict[str, KnownSignal]:
        """Return the signals of a principal that have an event since then."""
        rows = self._database.rows(_FRESH, name_principal(principal), since_us)
        return {signal_id: KnownSignal(*row) for signal_id, *row in rows}

    def origins(self, event_ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return principal and signal of those of these events that were logged."""
        rows = (
            self._database.row(
                "SELECT event_id, whose, signal_id FROM events JOIN signals USING (signal) "
                f"WHERE event_id = ? AND whose != '{EVERYBODY}'",
                event_id,
            )
            for event_id in dict.fromkeys(event_ids)
        )
        return {row[0]: (row[1], row[2]) for row in rows if row is not None}

    def names(self, *, signal_id: str | None, principal: str | None) -> list[tuple[str, str]]:
        """Return each (signal, principal that has it), sorted; only the named ones, where they are named."""
        return self._database.rows(
            f"SELECT signal_id, whose FROM signals WHERE whose != '{EVERYBODY}' "
            "AND (?1 IS NULL OR signal_id = ?1) AND (?2 IS NULL OR whose = ?2) ORDER BY signal_id, whose",
            signal_id,
            principal,
        )

    def tally(self, whose: Whose, as_of: PointInTime) -> EventTally:
        return self.judged(whose, as_of, with_level=False)[0]

    def judged(self, whose: Whose, as_of: PointInTime, *, with_level: bool = True) -> tuple[EventTally, Level | None]:
        """Return counts and decayed evidence as of then; no level where the gate counts."""
        known = self._find_known(whose)
        level = self._compute_level(whose[0], known, as_of) if with_level else None
        if known is None:
            return _NO_EVENT, level
        totals = known.event_count, known.session_count, known.principal_count
        if known.holds(as_of):
            last_us: int | None = known.newest_us
        else:
            later = self._database.row(_LATER, known.number, *as_of)
            totals = tuple(total - more for total, more in zip(totals, later, strict=True))
            last_us = self._find_last_us(known, as_of)
        count, sessions, principals = totals
        return EventTally(count, sessions, last_us, min(count, 1) if whose[0] is not None else principals), level

    def last(
        self, whose: Whose, as_of: PointInTime, known: KnownSignal | None = None, present: Present | None = None
    ) -> tuple[int | None, Level | None]:
        """Return the newest event's time as of then, or None, and its decayed evidence. `known`: the signal's row."""
        known = known or self._find_known(whose)
        level = self._compute_level(whose[0], known, as_of, present)
        if known is None or known.holds(as_of):
            return known and known.newest_us, level
        return self._find_last_us(known, as_of), level

    def _find_last_us(self, known: KnownSignal, as_of: PointInTime) -> int | None:
        """When its newest event was as of then."""
        return self._database.row(f"SELECT max(at_us) FROM events WHERE {_AS_OF}", known.number, *as_of)[0]

    def _compute_level(
        self, whose: str | None, known: KnownSignal | None, as_of: PointInTime, present: Present | None = None
    ) -> Level | None:
        if self._config.gate_mode == "counting":
            return None
        if known is None:
            return NOTHING
        late_us = present.late_us if present is not None else self._find_late_us(whose, as_of)
        if as_of.seq < known.newest_seq:
            late_us = min(late_us, self._database.row(_LATE_EVENT, known.number, as_of.seq)[0])
        found = known.newest_us, known.evidence, known.is_open
        if as_of.at_us < known.newest_us or late_us <= known.newest_us:
            found = self._database.row(_LEVEL_BY_TIME, known.number, min(as_of.at_us, late_us - 1))
        last = found and (found[0], Level(found[1], found[2]))
        if late_us <= min(as_of.at_us, known.newest_us):
            last = self._trace_from(int(late_us), whose, known.number, as_of, last)
        return NOTHING if last is None else self._fade(whose, last[1], last[0], as_of, present)

    def _trace_from(
        self, since_us: int, whose: str | None, number: int, as_of: PointInTime, before: tuple[int, Level] | None
    ) -> tuple[int, Level] | None:
        """Return time and level of a signal's newest event as of then; `before`: of the newest ahead of `since_us`."""
        rows = self._database.rows(
            f"SELECT at_us, session_id FROM events WHERE {_AS_OF} AND at_us >= ? ORDER BY at_us, event_id",
            number, *as_of, since_us,
        )  # fmt: skip
        if not rows:
            return before
        hours = self._list_hours(whose, as_of, before[0] if before else since_us)
        *_, (level, _) = trace(rows, hours, self._config, before, partial(self._find_added, number, since_us))
        return rows[-1][0], level

    def _find_late_us(self, whose: str | None, as_of: PointInTime) -> float:
        """Return since when levels that stand here may follow from hours of later sequences: behind such an hour."""
        (hour,) = self._database.row(_LATE_HOUR, name_principal(whose), as_of.seq)
        return inf if hour is None else (hour + 1) * HOUR_US

    def accumulator(self, whose: Whose, as_of: PointInTime, *, with_ids: bool) -> Accumulator | None:
        """Return what a signal's events add up to as of then, or None; the newest `SOURCE_EVENTS_MAX` are named."""
        tally, known = self.tally(whose, as_of), self._find_known(whose)
        if known is None or tally.last_us is None:
            return None
        newest: list[Any] = []
        if with_ids:
            newest = self._database.rows(
                f"SELECT event_id, session_id FROM events WHERE {_AS_OF} {_NEWEST_FIRST} LIMIT ?",
                known.number, *as_of, SOURCE_EVENTS_MAX,
            )[::-1]  # fmt: skip
        return Accumulator(
            signal_id=whose[1],
            principal=whose[0],
            count=tally.event_count,
            last_seen=format_timestamp(tally.last_us),
            session_ids=sorted({session_id for _, session_id in newest}),
            session_count=tally.session_count,
            event_ids=[event_id for event_id, _ in newest],
            decay=decay(tally.last_us, as_of.at_us, self._config.decay_half_life_hours),
        )
