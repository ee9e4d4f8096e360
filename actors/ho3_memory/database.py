"""The working store of one agent's memory: a SQLite database that the record makes again at each start.

On a real disk a file of the incarnation, which loses its name as soon as it is open: nobody else can read or change
it, and it is gone with the process. In simulation it is in memory. Whatever SQLite cannot do ends the process.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Any

from hobus.actors.ho3_memory.limits import PAGE_CACHE_KB
from hobus.bus.errors import LedgerError
from hobus.bus.port import Disk

FILE = "memory.sqlite"
_SCHEMA = """
CREATE TABLE signals (
    signal INTEGER PRIMARY KEY, whose TEXT, signal_id TEXT, event_count INTEGER DEFAULT 0,
    session_count INTEGER DEFAULT 0, newest_us INTEGER DEFAULT -9223372036854775808, newest_seq INTEGER DEFAULT -1,
    evidence REAL DEFAULT 0, is_open INTEGER DEFAULT 0, principal_count INTEGER DEFAULT 0, UNIQUE (whose, signal_id)
);
CREATE INDEX fresh_signals ON signals (whose, newest_us);
CREATE TABLE events (
    signal INTEGER, at_us INTEGER, event_id TEXT, seq INTEGER, session_id TEXT, principal TEXT,
    evidence REAL, is_open INTEGER, own REAL, PRIMARY KEY (signal, at_us, event_id)
) WITHOUT ROWID;
CREATE INDEX events_by_id ON events (event_id);
CREATE INDEX events_of_session ON events (signal, session_id, at_us);
CREATE INDEX events_by_sequence ON events (signal, seq);
CREATE INDEX events_of_principal ON events (signal, principal, at_us) WHERE principal IS NOT NULL;
CREATE TABLE presence (
    whose TEXT, hour INTEGER, first_seq INTEGER, PRIMARY KEY (whose, hour)
) WITHOUT ROWID;
CREATE INDEX presence_by_sequence ON presence (whose, first_seq);
CREATE TABLE artifacts (
    number INTEGER PRIMARY KEY, artifact_id TEXT UNIQUE, first_seq INTEGER, newest_us INTEGER, newest_seq INTEGER,
    is_switched INTEGER DEFAULT 0, whose TEXT, made_seq INTEGER, weight REAL, is_enabled INTEGER, is_pending INTEGER,
    is_stated INTEGER, expires_at TEXT
);
CREATE INDEX artifacts_by_time ON artifacts (newest_us);
CREATE INDEX artifacts_by_sequence ON artifacts (newest_seq);
CREATE INDEX artifacts_of ON artifacts (whose, first_seq);
CREATE TABLE changes (
    artifact INTEGER, seq INTEGER, at_us INTEGER, kind TEXT, submission_id TEXT, weight REAL, principal TEXT,
    door TEXT, is_stated INTEGER, logged BLOB, PRIMARY KEY (artifact, seq)
) WITHOUT ROWID;
CREATE TABLE subjects (
    whose TEXT, subject TEXT, has_held INTEGER, session_id TEXT, made_us INTEGER, made_seq INTEGER, artifact INTEGER,
    is_rule INTEGER, is_stated INTEGER, is_only INTEGER,
    PRIMARY KEY (whose, subject, has_held, session_id, made_us, made_seq, artifact)
) WITHOUT ROWID;
CREATE INDEX subjects_of ON subjects (artifact);
CREATE INDEX subjects_named ON subjects (subject);
CREATE INDEX subjects_stated ON subjects (whose, subject) WHERE is_stated;
CREATE INDEX subjects_shared ON subjects (whose, subject) WHERE NOT is_only;
CREATE TABLE windows (
    whose TEXT, signal_id TEXT, end_us INTEGER, seq INTEGER, PRIMARY KEY (whose, signal_id, end_us, seq)
) WITHOUT ROWID;
CREATE TABLE failures (
    submission_id TEXT PRIMARY KEY, whose TEXT, signal_id TEXT, at_us INTEGER, seq INTEGER, reason TEXT, line TEXT
);
CREATE INDEX failures_of ON failures (whose, signal_id, at_us);
"""
"""`whose`: a principal, or `*` for everybody; `presence` has the hours of their events. `signals` has the level after
the newest event, `events` the one after each and what its session had added by then; `artifacts` and `subjects` say how
each artifact stands now."""


class DatabaseFailed(LedgerError):
    """The working store failed: this process can answer nothing any more."""

    def __init__(self, detail: str) -> None:
        super().__init__("unavailable", f"memory's working store: {detail}; memory starts anew from the record")


class Databases:
    """The working stores of one process."""

    def __init__(self, disk: Disk | None = None, on_fault: Callable[[DatabaseFailed], None] | None = None) -> None:
        """Begin. `disk`: None keeps stores in memory; `on_fault` is told once that the process must end."""
        self._disk = disk
        self._on_fault = on_fault
        self.fault: DatabaseFailed | None = None
        """Why nothing in them can be believed any more."""
        self.connections: list[sqlite3.Connection] = []

    def open(self) -> Database:
        """Open an empty store. Raises DatabaseFailed."""
        return Database(self, self._disk)

    def failed(self, detail: str) -> DatabaseFailed:
        """Return the fault to raise; the first one is kept and told. All stores are closed: whatever is asked fails."""
        for connection in self.connections:
            connection.close()
        if self.fault is None:
            self.fault = DatabaseFailed(detail)
            if self._on_fault is not None:
                self._on_fault(self.fault)
        return self.fault


class Database:
    """One SQLite database; raises DatabaseFailed for whatever SQLite cannot do."""

    def __init__(self, owner: Databases, disk: Disk | None) -> None:
        self._owner = owner
        if owner.fault is not None:
            raise owner.fault
        try:
            self._connection = _open(disk)
            owner.connections.append(self._connection)
        except (sqlite3.Error, OSError) as error:
            raise owner.failed(str(error)) from None

    def rows(self, sql: str, *values: object, **named: object) -> list[Any]:
        try:
            return self._connection.execute(sql, named or values).fetchall()
        except sqlite3.Error as error:
            raise self._owner.failed(str(error)) from None

    def row(self, sql: str, *values: object, **named: object) -> Any:
        """Return the first row; None: there is none."""
        try:
            return self._connection.execute(sql, named or values).fetchone()
        except sqlite3.Error as error:
            raise self._owner.failed(str(error)) from None

    def run(self, sql: str, *values: object) -> int:
        """Run a statement and return how many rows it changed."""
        try:
            return self._connection.execute(sql, values).rowcount
        except sqlite3.Error as error:
            raise self._owner.failed(str(error)) from None

    def run_many(self, sql: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Run a statement once for each row of values."""
        for values in rows:
            self.run(sql, *values)

    @property
    def size_bytes(self) -> int:
        """Return the size of all pages, in RAM or not."""
        return self.row("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0]

    @contextmanager
    def write_all_or_nothing(self) -> Generator[None]:
        """Write all of what follows, or nothing."""
        self.run("BEGIN")
        try:
            yield
        except BaseException:
            self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    @contextmanager
    def undo_afterwards(self) -> Generator[None]:
        """Undo, at the end of the context, what is written in it."""
        self.run("BEGIN")
        try:
            yield
        finally:
            self.run("ROLLBACK")


def _open(disk: Disk | None) -> sqlite3.Connection:
    path = None if disk is None else disk.real_path(FILE)
    if disk is not None and path is not None:
        with suppress(OSError):  # what lies there may be a link that leads elsewhere
            disk.remove(FILE)
        disk.open(FILE, create=True).close()  # with the mode of this disk's files
    connection = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # nobody else opens it: no question takes a lock
    connection.execute(f"PRAGMA cache_size = -{PAGE_CACHE_KB}")
    connection.executescript(_SCHEMA)
    if disk is not None and path is not None:
        disk.remove(FILE)
    return connection
