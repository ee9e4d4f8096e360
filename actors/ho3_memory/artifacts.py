"""Everything that was ever learned for one agent: each artifact's life, and how all of them stand as of a moment.

A newer artifact of the same signal stands for the older one from its own event time on, so that what is learned again
and again is one line and not ten near-doubles. What has once held supersedes for good: switched off, it does not bring
the older one back. What waits for a person, or was rejected, supersedes nothing. An artifact of several signals is
superseded once each of them has a newer one; one for a session alone supersedes in that session alone. A constraint
also stands for an older one of the same words that holds in the same place, whatever both rest on.

The tables say how each artifact stands now. A question as of an earlier moment lets those that have changed since then
stand as they did, asks, and takes that back.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple

from hobus.actors.ho3_memory.database import Database
from hobus.actors.ho3_memory.event_time import PointInTime, format_timestamp, parse_micros
from hobus.actors.ho3_memory.limits import LINES_KEPT, PACKED_LEVEL, PAGE_MAX
from hobus.actors.ho3_memory.overlay_log import SWITCHES, Change, OverlayLog, fold, is_stated, make_rule
from hobus.actors.ho3_memory.records import Fact, name_principal, pack_artifact, unpack_artifact
from hobus.bus.messages.base import make_from
from hobus.bus.messages.ids import derive_overlay_id
from hobus.bus.messages.memory import InForce, Overlay

_NEWER = (
    "EXISTS (SELECT 1 FROM subjects AS other WHERE other.whose = mine.whose AND other.subject = mine.subject "
    "AND other.has_held = 1 AND other.session_id IN ('', mine.session_id) "
    "AND (other.made_us, other.made_seq) > (mine.made_us, mine.made_seq))"
)
_SUPERSEDED = (
    f"(NOT EXISTS (SELECT 1 FROM subjects AS mine WHERE artifact = number AND NOT is_rule AND NOT {_NEWER}) "
    f"OR EXISTS (SELECT 1 FROM subjects AS mine WHERE artifact = number AND is_rule AND {_NEWER}))"
)
_ACTIVE = (
    f"is_enabled AND NOT is_pending AND weight > 0 AND (expires_at IS NULL OR expires_at >= :now) AND NOT {_SUPERSEDED}"
)
_OF_FRESH = (
    "SELECT artifact, one.is_stated, newest_us AS heard_us FROM fresh CROSS JOIN subjects AS one "
    "ON one.whose = fresh.whose AND subject = signal_id AND has_held = 1 AND session_id IN ('', :session)"
)
_SWITCH = "({})".format(", ".join(f"'{kind}'" for kind in SWITCHES))


class Candidate(NamedTuple):
    """An artifact that may go into a prompt."""

    number: int
    first_seq: int
    made_seq: int
    weight: float
    is_stated: bool


class Artifacts:
    """The artifacts of one agent. Grows by `change`."""

    def __init__(self, agent_id: str, database: Database) -> None:
        self._agent_id = agent_id
        self._database = database
        self._lines: OrderedDict[tuple[int, int, float], InForce] = OrderedDict()

    # --- growing ----------------------------------------------------------------------------------------------------

    def change(self, fact: Fact) -> bool:
        """Take in that an artifact was logged, or a person spoke of it; return whether that is new, in any order."""
        database, made = self._database, fact.artifact
        database.run(
            "INSERT OR IGNORE INTO artifacts (artifact_id, first_seq, newest_us, newest_seq) VALUES (?, ?, ?, ?)",
            fact.about, fact.seq, fact.at_us, fact.seq,
        )  # fmt: skip
        (number,) = database.row("SELECT number FROM artifacts WHERE artifact_id = ?", fact.about)
        if made is None and database.row(
            "SELECT 1 FROM changes WHERE artifact = ? AND submission_id = ? AND logged IS NULL",
            number,
            fact.submission_id,
        ):
            return False
        logged = None if made is None else zlib.compress(pack_artifact(made), PACKED_LEVEL)
        change = (
            number, fact.seq, fact.at_us, fact.kind, fact.submission_id, fact.weight, fact.principal or "", fact.door,
            made is not None and is_stated(made), logged,
        )  # fmt: skip
        if not database.run("INSERT OR IGNORE INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *change):
            return False
        database.run(
            "UPDATE artifacts SET first_seq = min(first_seq, ?), newest_us = max(newest_us, ?), "
            "newest_seq = max(newest_seq, ?), is_switched = is_switched OR ? WHERE number = ?",
            fact.seq, fact.at_us, fact.seq, fact.kind in SWITCHES, number,
        )  # fmt: skip
        if made is not None:
            whose = name_principal(made.principal)
            windows = [(whose, one, parse_micros(made.window_end), fact.seq) for one in made.source_signal_ids]
            database.run_many("INSERT OR IGNORE INTO windows VALUES (?, ?, ?, ?)", windows)
        self._stand(number, self._list_changes(number))
        return True

    def _stand(self, number: int, changes: Sequence[Change]) -> None:
        """Update the tables to how an artifact stands after these changes."""
        self._database.run("DELETE FROM subjects WHERE artifact = ?", number)
        standing = fold(changes)
        if standing is None:
            self._database.run("UPDATE artifacts SET whose = NULL, made_seq = NULL WHERE number = ?", number)
            return
        artifact, made = standing.artifact, standing.made
        whose = name_principal(artifact.principal)
        self._database.run(
            "UPDATE artifacts SET whose = ?, made_seq = ?, weight = ?, is_enabled = ?, is_pending = ?, is_stated = ?, "
            "expires_at = ? WHERE number = ?",
            whose, made.seq, artifact.weight, artifact.enabled, standing.is_pending, is_stated(artifact),
            artifact.expires_at_event_ts, number,
        )  # fmt: skip
        rule, session_id = make_rule(artifact), artifact.session_id or ""
        kind = is_stated(artifact), len(artifact.source_signal_ids) == 1
        subjects = [(one, False) for one in artifact.source_signal_ids] + ([(rule, True)] if rule else [])
        self._database.run_many(
            "INSERT OR IGNORE INTO subjects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (whose, subject, standing.has_held, session_id, *made, number, is_rule, *kind)
                for subject, is_rule in subjects
            ],
        )

    # --- one artifact -----------------------------------------------------------------------------------------------

    def log(self, artifact_id: str) -> OverlayLog | None:
        """Return an artifact's life so far; None: nothing was said about it."""
        row = self._database.row("SELECT number FROM artifacts WHERE artifact_id = ?", artifact_id)
        return row and OverlayLog(derive_overlay_id(self._agent_id, artifact_id), self._list_changes(row[0]))

    def first_seq(self, artifact_id: str) -> int:
        """Return an artifact's place in append order."""
        return self._database.row("SELECT first_seq FROM artifacts WHERE artifact_id = ?", artifact_id)[0]

    def is_superseded(self, artifact_id: str) -> bool:
        """Return whether newer artifacts stand for this one now; False for an unknown one."""
        row = self._database.row(
            f"SELECT {_SUPERSEDED} FROM artifacts WHERE artifact_id = ? AND made_seq IS NOT NULL",
            artifact_id,
        )
        return row is not None and bool(row[0])

    def _list_changes(self, number: int) -> list[Change]:
        rows = self._database.rows(
            "SELECT seq, at_us, kind, submission_id, weight, principal, door, logged FROM changes "
            "WHERE artifact = ? ORDER BY seq",
            number,
        )
        return [Change._make((*said, None if logged is None else _read_artifact(logged))) for *said, logged in rows]

    # --- one signal -------------------------------------------------------------------------------------------------

    def consolidated_us(self, signal_id: str, principal: str | None, as_of: PointInTime) -> int | None:
        """Return the latest window_end of what names a principal's signal; None: nothing does."""
        return self._database.row(
            "SELECT max(end_us) FROM windows WHERE whose = ? AND signal_id = ? AND end_us <= ? AND seq <= ?",
            name_principal(principal), signal_id, *as_of,
        )[0]  # fmt: skip

    def switched_off(self, signal_id: str, principal: str | None, as_of: PointInTime) -> str:
        """Return the artifact with which a person switched a principal's signal off.

        Empty: nobody did, or it is on again.

        The last word decides, in the log's order; a statement that is made anew is one, too.
        """
        row = self._database.row(
            "SELECT kind, artifact_id FROM subjects JOIN artifacts ON number = subjects.artifact AND is_switched "
            "JOIN changes ON changes.artifact = number "
            f"WHERE artifacts.whose = ? AND subject = ? AND subjects.whose = artifacts.whose "
            f"AND (kind IN {_SWITCH} OR changes.is_stated) AND at_us <= ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
            name_principal(principal), signal_id, *as_of,
        )  # fmt: skip
        return row[1] if row is not None and row[0] == "deactivated" else ""

    # --- all of them, as of a moment --------------------------------------------------------------------------------

    @contextmanager
    def as_of(self, as_of: PointInTime) -> Generator[None]:
        """Let every artifact stand as it did then, within the context."""
        later = self._database.rows("SELECT number FROM artifacts WHERE newest_us > ? OR newest_seq > ?", *as_of)
        if not later:
            yield
            return
        with self._database.undo_afterwards():
            for (number,) in later:
                counted = [
                    one for one in self._list_changes(number) if one.at_us <= as_of.at_us and one.seq <= as_of.seq
                ]
                self._stand(number, counted)
            yield

    def in_force(
        self, principal: str | None, as_of: PointInTime, session_id: str, *, since_us: float, open_since_us: float
    ) -> list[Candidate]:
        """Return what of a principal's is active and in scope; to be asked inside `as_of`.

        Nothing of what rests on signals without an event since `since_us`; `open_since_us`: the same of what nobody
        stated.
        """
        rows = self._database.rows(
            "WITH fresh AS MATERIALIZED (SELECT whose, signal_id, newest_us, "
            "(SELECT coalesce(max(made_us), -9223372036854775808) FROM subjects WHERE subjects.whose = signals.whose "
            "AND subject = signal_id AND has_held = 1 AND session_id = '') AS made_last "
            "FROM signals WHERE whose = :whose AND newest_us >= :since AND (newest_us >= :open_since OR EXISTS "
            "(SELECT 1 FROM subjects INDEXED BY subjects_stated WHERE subjects.whose = :whose AND subject = signal_id "
            "AND is_stated))), "
            # Of a signal alone the newest; of several signals any may be the newest of one of them.
            f"found AS ({_OF_FRESH} AND made_us >= made_last UNION ALL "
            f"{_OF_FRESH.replace('AS one', 'AS one INDEXED BY subjects_shared')} AND NOT is_only) "
            "SELECT DISTINCT number, first_seq, artifacts.made_seq, weight, artifacts.is_stated FROM found "
            "CROSS JOIN artifacts ON artifacts.number = artifact "
            f"WHERE (found.is_stated OR heard_us >= :open_since) AND {_ACTIVE} ORDER BY first_seq",
            whose=name_principal(principal), session=session_id, since=since_us,
            open_since=open_since_us, now=format_timestamp(as_of.at_us),
        )  # fmt: skip
        return [Candidate(*row) for row in rows]

    def line(self, found: Candidate) -> InForce:
        """Return an artifact as a prompt needs it, its events as number and digest."""
        key = found.number, found.made_seq, found.weight
        known = self._lines.get(key)
        if known is None:
            (logged,) = self._database.row("SELECT logged FROM changes WHERE artifact = ? AND seq = ?", *key[:2])
            artifact = _read_artifact(logged).model_copy(update={"weight": found.weight, "enabled": True})
            ids = "".join(f"{event_id}\n" for event_id in sorted(artifact.source_event_ids))
            digest, count = sha256(ids.encode()).hexdigest(), len(artifact.source_event_ids)
            known = self._lines[key] = make_from(
                InForce, artifact, source_event_count=count, source_event_digest=digest
            )
            if len(self._lines) > LINES_KEPT:
                self._lines.popitem(last=False)
        return known

    def overlays(
        self, as_of: PointInTime, *, signal_id: str | None, principal: str | None, active_only: bool, after: int = -1
    ) -> list[Overlay]:
        """Return the overlays as of then behind this place in append order, as many as a page has and one more."""
        named = "number IN (SELECT artifact FROM subjects WHERE subject = :signal)" if signal_id is not None else "1"
        owned = "whose = :whose" if principal is not None else "1"
        state = _ACTIVE if active_only else "1"
        return self._list_shown(
            as_of, f"{named} AND {owned} AND {state} AND first_seq > :after ORDER BY first_seq LIMIT :limit",
            signal=signal_id, whose=principal, after=after, limit=PAGE_MAX + 1,
        )  # fmt: skip

    def pending(self, as_of: PointInTime, principal: str | None) -> list[Overlay]:
        """Return what waits for a person, in append order; the newest `PAGE_MAX`."""
        owned = "whose = :whose" if principal is not None else "1"
        waiting = f"is_enabled AND is_pending AND {owned} ORDER BY first_seq DESC LIMIT :limit"
        return self._list_shown(as_of, waiting, whose=principal, limit=PAGE_MAX)[::-1]

    def _list_shown(self, as_of: PointInTime, which: str, **values: object) -> list[Overlay]:
        with self.as_of(as_of):
            rows: list[tuple[str, int]] = self._database.rows(
                f"SELECT artifact_id, {_SUPERSEDED} FROM artifacts WHERE made_seq IS NOT NULL AND {which}",
                now=format_timestamp(as_of.at_us),
                **values,
            )
        shown = ((self.log(artifact_id), bool(is_superseded)) for artifact_id, is_superseded in rows)
        overlays = [log and log.overlay(as_of, is_superseded=is_superseded) for log, is_superseded in shown]
        return [one for one in overlays if one is not None]

    def counts(self, as_of: PointInTime) -> tuple[int, int]:
        """Return how many artifacts there were as of then, and how many of them active."""
        with self.as_of(as_of):
            return self._database.row(
                f"SELECT count(*), coalesce(sum({_ACTIVE}), 0) FROM artifacts WHERE made_seq IS NOT NULL",
                now=format_timestamp(as_of.at_us),
            )


def _read_artifact(logged: bytes) -> Any:
    return unpack_artifact(zlib.decompress(logged))
