"""Consolidations of one agent that failed, and the lines that were refused with them."""

from __future__ import annotations

from hobus.actors.ho3_memory.database import Database
from hobus.actors.ho3_memory.event_time import PointInTime, format_timestamp
from hobus.actors.ho3_memory.records import EVERYBODY, Fact, name_principal
from hobus.actors.ho3_memory.signals import Whose
from hobus.bus.messages.memory import Quarantined

_OF = "FROM failures WHERE whose = ? AND signal_id = ?"


class Failures:
    """The failed consolidations of one agent. Grows by `add`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, fact: Fact) -> bool:
        row = (
            fact.submission_id,
            name_principal(fact.principal),
            fact.about,
            fact.at_us,
            fact.seq,
            fact.refused,
            fact.line,
        )
        return self._database.run("INSERT OR IGNORE INTO failures VALUES (?, ?, ?, ?, ?, ?, ?)", *row) > 0

    def has(self, submission_id: str) -> bool:
        return self._database.row("SELECT 1 FROM failures WHERE submission_id = ?", submission_id) is not None

    def newest_us(self, whose: Whose, as_of: PointInTime) -> int | None:
        """Return when a consolidation of this signal failed last; None: none did."""
        sql = f"SELECT max(at_us) {_OF} AND at_us <= ? AND seq <= ?"
        return self._database.row(sql, name_principal(whose[0]), whose[1], *as_of)[0]

    def times(self, whose: Whose) -> list[int]:
        """Return when consolidations of this signal failed, in order of event time."""
        rows = self._database.rows(f"SELECT at_us {_OF} ORDER BY at_us, seq", name_principal(whose[0]), whose[1])
        return [at_us for (at_us,) in rows]

    def quarantined(self, as_of: PointInTime, principal: str | None, *, at_most: int) -> list[Quarantined]:
        """Return the newest refused lines, a principal's or (None) everyone's, in order of event time."""
        rows = self._database.rows(
            "SELECT signal_id, whose, at_us, reason, line FROM failures WHERE line != '' AND at_us <= ?1 AND seq <= ?2 "
            "AND (?3 IS NULL OR whose = ?3) ORDER BY at_us DESC, seq DESC LIMIT ?4",
            *as_of, principal, at_most,
        )  # fmt: skip
        return [
            Quarantined(
                signal_id=signal_id, principal=None if whose == EVERYBODY else whose, at=format_timestamp(at_us),
                reason=reason, line=line,
            )
            for signal_id, whose, at_us, reason, line in rows[::-1]
        ]  # fmt: skip
