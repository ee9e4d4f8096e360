"""The SQLite index: where each entry lies, by id, stream and provenance. A cache: thrown away and rebuilt at any time.

One writer. A transaction brings entries together with the position (segment, end, sequence, chain value) they reach,
so the index is always true up to its position. Ids and once keys are kept as 64-bit hashes; whoever asks compares the
entry itself. What a write is decided by (ids, once keys, heads of streams) stands in two trees each, which share no
page, and an answer counts only if both give it; each entry's row has a CRC. So a damaged page is found, and never read
as "not there". Hashes are in no order of time: in one tree of all of them each new one would lie on a page of its own,
to be written with each transaction. So their trees are in partitions by sequence: new ones lie on the few pages of the
newest one, and a question looks into each.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import blake2b
from itertools import product, repeat
from operator import methodcaller
from pathlib import Path
from struct import unpack
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self, TypeVar
from zlib import crc32

from hobus.bus.messages.base import pack
from hobus.bus.messages.ledger import EVERY_SESSION
from hobus.bus.record.entry import INTEGER_MAX, Entry
from hobus.ledger_service.admission import StreamHead
from hobus.ledger_service.segment import EntryPlace

FILE = "index.sqlite"
"""Its name in a ledger's directory."""
FILES = (FILE, f"{FILE}-wal", f"{FILE}-shm")
"""All files of the index: the database, its write-ahead log and its shared memory."""
SCHEMA_VERSION = 6
"""1 had one tree of each kind and no checks, 3 no partitions, 4 other hashes, 5 no tree of seldom types."""
_SELDOM = ("SESSION_START", "TurnDegraded", "CONFIG_SNAPSHOT")
"""Types of few entries that are asked for among all: their names have the first numbers, and their tree is small."""
_IS_SELDOM = " OR ".join(f"event_type = {number}" for number in range(1, len(_SELDOM) + 1))
_NAMED = (
    "stream", "event_type", "origin", "session_id", "work_order_id", "agent_id", "decision", "reason",
)  # fmt: skip
QUERY_FIELDS = (*_NAMED, "run_seq")
"""What `where` of a query may name."""
_ROWS = "SELECT * FROM entries WHERE"
_PLACE_COLUMNS = len(EntryPlace._fields)
_POSITION_TYPES = (int, int, int, bytes)
_PARTITION_BITS, _PARTITIONS_BITS = 12, 5
"""4096 entries are a partition, from entry 131,072 on a 16th of the power of two below: a transaction writes few pages,
and a question asks few partitions (48 of 262,144 entries, 144 of 16 million). Stored: part of SCHEMA_VERSION."""
_BY_SUBMISSION, _BY_ONCE = (
    " UNION ALL ".join(
        f"SELECT {sign}, sequence FROM json_each(?1) CROSS JOIN entries INDEXED BY by_{column}{tree} "  # noqa: S608 - own names
        f"WHERE partition = value AND {column} = ?2"
        for sign, tree in enumerate(("", "_again"))
    )
    for column in ("submission", "once")
)
"""From both trees: which one, and the sequence that it gives."""
_HASHES = {
    column: tuple(
        f"SELECT {column} FROM entries INDEXED BY by_{column}{tree} "  # noqa: S608 - own names
        f"WHERE partition = ? AND {column} >= ? ORDER BY {column} LIMIT ?"
        for tree in ("", "_again")
    )
    for column in ("submission", "once")
}
"""Of one tree and partition, from a hash on."""
_HASH_MIN = -(2**63)
_HASHES_AT_ONCE = 1024
"""Read in two milliseconds, which is how long a write may have to wait for it."""
_hash, _digest = partial(blake2b, digest_size=8), methodcaller("digest")
_HEADS = " UNION ALL ".join(
    f"SELECT head, tenure, owner FROM {tree} WHERE stream = ?1"  # noqa: S608 - own names
    for tree in ("heads", "heads_again")
)
_IS_A_JOURNAL = "(SELECT name >= 'session/' AND name < 'session0' FROM names WHERE id = stream)"
"""Asked row by row from a place on, so that the few newest ones cost no list of all sessions."""
_ENDS_OF_JOURNALS = (
    "SELECT journal.name, last.sequence, type.name FROM names AS journal "
    "JOIN entries AS last ON last.sequence = (SELECT max(sequence) FROM entries WHERE stream = journal.id) "
    "JOIN names AS type ON type.id = last.event_type WHERE journal.name >= 'session/' AND journal.name < 'session0'"
)
_NAMES_KEPT = 4_096
"""Interned names remembered in memory, four more with each turn (orders); only speed depends on it."""

_SCHEMA = f"""
CREATE TABLE segments (first INTEGER PRIMARY KEY, last INTEGER, end INTEGER, chain BLOB);
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE heads (stream TEXT PRIMARY KEY, head TEXT, tenure INTEGER, owner TEXT) WITHOUT ROWID;
CREATE TABLE heads_again (stream TEXT PRIMARY KEY, head TEXT, tenure INTEGER, owner TEXT) WITHOUT ROWID;
CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY, segment INTEGER, at INTEGER, length INTEGER, bodies_at INTEGER, chain BLOB,
    partition INTEGER, submission INTEGER, once INTEGER, run_seq INTEGER,
    {", ".join(f"{name} INTEGER" for name in _NAMED)}, crc INTEGER
);
CREATE INDEX by_submission ON entries (partition, submission);
CREATE INDEX by_submission_again ON entries (partition, submission);
CREATE INDEX by_once ON entries (partition, once) WHERE once IS NOT NULL;
CREATE INDEX by_once_again ON entries (partition, once) WHERE once IS NOT NULL;
CREATE INDEX by_stream ON entries (stream);
CREATE INDEX by_session ON entries (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX by_work_order ON entries (work_order_id) WHERE work_order_id IS NOT NULL;
CREATE INDEX by_seldom_type ON entries (event_type) WHERE {_IS_SELDOM};
INSERT INTO names (name) VALUES {", ".join(f"('{name}')" for name in _SELDOM)};
PRAGMA user_version = {SCHEMA_VERSION};
"""  # noqa: S608 - own names

_NEW_NAME = "INSERT INTO names (name) VALUES (?) ON CONFLICT DO NOTHING RETURNING id"
_INSERT = f"INSERT INTO entries VALUES ({', '.join('?' * (11 + len(_NAMED)))})"  # noqa: S608 - question marks


class Position(NamedTuple):
    """What the index covers: everything up to `last`, which ends at byte `end` of segment `first`."""

    first: int
    last: int
    end: int
    chain: bytes


class Committed(NamedTuple):
    """An acknowledged entry on its way into the index."""

    place: EntryPlace
    entry: Entry


class NoRoom(sqlite3.OperationalError):
    """The disk has no room for what was to come into the index; nothing of it is damaged."""


class IndexConnection(sqlite3.Connection):
    """A connection for which words of a damaged file that are no UTF-8 are an error of the file like any other."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Execute as the connection does; raises sqlite3.DatabaseError also for such words."""
        try:
            return super().execute(*arguments)
        except UnicodeDecodeError as error:
            raise sqlite3.DatabaseError("the index holds no text any more") from error

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().executemany(*arguments)
        except UnicodeDecodeError as error:
            raise sqlite3.DatabaseError("the index holds no text any more") from error


def connect_index(path: str, **options: Any) -> sqlite3.Connection:
    """Connect to an index, of whatever condition."""
    db = sqlite3.connect(path, isolation_level=None, factory=IndexConnection, **options)
    db.text_factory = _decode_text
    return db


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")  # the row's CRC says that it is damaged


class Index:
    """The writer's connection. Every method may raise sqlite3.Error, which means: discard and rebuild.

    Between two `apply` it stays in one read transaction: nobody else writes, and a question then takes no file lock.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.on_broken: Callable[[sqlite3.DatabaseError], object] = lambda _error: None
        """Told when a question cannot be answered, before the error is raised."""
        self._names = _Names(connection)
        self._partitions: list[int]  # of all that it holds, newest first

    @classmethod
    def open(cls, path: str | None) -> Self:
        """Open an existing or new index; `None` keeps it in memory. Raises sqlite3.DatabaseError for a foreign file."""
        db = connect_index(path or ":memory:")
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")  # never inconsistent; a power cut may lose the newest commits
            index = cls(db)
            version = index.version()
            if version == 0:
                db.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            elif version != SCHEMA_VERSION:
                raise sqlite3.DatabaseError(f"index schema {version}, not {SCHEMA_VERSION}")
            else:
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")  # one that cannot be written is noticed here
            index.check()
            positions = index.positions()
            index._partitions = list_partitions(positions[-1].last if positions else -1)
            db.execute("BEGIN")
        except BaseException:
            db.close()
            raise
        return index

    def begin(self) -> None:
        """Show every question the same commit from here on, for one who only reads."""
        self._db.execute("BEGIN")

    def end(self) -> None:
        """Show each question the newest commit from here on; those by an id look as far as there are entries now."""
        positions = self.positions()
        self._partitions = list_partitions(positions[-1].last if positions else -1)
        self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()

    def positions(self) -> list[Position]:
        """Return one position per segment, in order; the last one is that of the index."""
        rows = self._db.execute("SELECT first, last, end, chain FROM segments ORDER BY first").fetchall()
        if any(tuple(map(type, row)) != _POSITION_TYPES for row in rows):
            raise sqlite3.DatabaseError("a position of the index is damaged")
        return [Position(*row) for row in rows]

    def apply(
        self, entries: Sequence[Committed], heads: Mapping[str, StreamHead], positions: Iterable[Position]
    ) -> Collection[int]:
        """Apply everything in one transaction; return the hashes of its ids and once keys.

        Raises NoRoom, and then the index is as it was.
        """
        self._db.execute("COMMIT")
        try:
            return self._write(entries, heads, list(positions))
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
                raise
            if self._db.in_transaction:  # SQLite may have taken it back by itself
                self._db.execute("ROLLBACK")
            self._names.clear()  # new ones went with the transaction
            raise NoRoom(str(error)) from error
        finally:
            if not self._db.in_transaction:
                self._db.execute("BEGIN")

    def _write(
        self, entries: Sequence[Committed], heads: Mapping[str, StreamHead], positions: list[Position]
    ) -> Collection[int]:
        self._db.execute("BEGIN IMMEDIATE")
        hashes = hash_keys([text for _, entry in entries for text in (entry.submission_id, entry.once) if text])
        ends = (
            {find_partition(entries[0].place.sequence), find_partition(entries[-1].place.sequence)} if entries else ()
        )
        partitions = repeat(*ends) if len(ends) == 1 else [find_partition(place.sequence) for place, _ in entries]
        rows = [self._make_row(*one, hashes, partition) for one, partition in zip(entries, partitions, strict=False)]
        self._db.executemany(_INSERT, [(*row, crc) for row, crc in zip(rows, map(crc32, map(pack, rows)), strict=True)])
        for tree in ("heads", "heads_again"):
            self._db.executemany(
                f"INSERT OR REPLACE INTO {tree} VALUES (?, ?, ?, ?)",  # noqa: S608 - one of the two
                [(stream, *head) for stream, head in heads.items()],
            )
        self._db.executemany("INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?)", positions)
        self._db.execute("COMMIT")
        self._partitions = list_partitions(positions[-1].last)
        return hashes.values()

    def find_by_submission(self, submission_id: str) -> Iterator[EntryPlace]:
        """Yield entries whose id has the same hash, newest partitions first: compare the entry."""
        return self._ask_both(_BY_SUBMISSION, hash_key(submission_id))

    def find_by_once(self, key: str) -> Iterator[EntryPlace]:
        """Yield entries whose once key has the same hash: compare the entry."""
        return self._ask_both(_BY_ONCE, hash_key(key))

    def hashes(self) -> Iterator[list[int]]:
        """Yield the hashes of all ids and once keys, some at a time, perhaps with those applied meanwhile."""
        for trees, partition in product(_HASHES.values(), self._partitions):
            start = _HASH_MIN
            while start <= INTEGER_MAX:
                one, again = (self._ask(question, (partition, start, _HASHES_AT_ONCE)) for question in trees)
                if one != again:
                    raise self.broken()
                if not one:
                    break
                yield [value for (value,) in one]
                start = one[-1][0] + 1

    def head(self, stream: str) -> StreamHead:
        found = self._ask(_HEADS, (stream,))
        if len(found) not in (0, 2) or len(set(found)) > 1:
            raise self.broken()
        return StreamHead(*found[0]) if found else StreamHead()

    def select(
        self, where: Mapping[str, Any], *, after: int, limit: int, newest_first: bool, before: int = INTEGER_MAX
    ) -> list[EntryPlace]:
        """Return entries that equal `where` in every field, sequences between `after` and `before`, in order."""
        terms, values = ["sequence > ?", "sequence < ?"], [after, before]
        for field, value in where.items():
            if field not in QUERY_FIELDS:
                raise ValueError(f"{field!r} is not a field to query by; these are: {', '.join(QUERY_FIELDS)}")
            if field == "run_seq":
                terms.append("run_seq = ?")
                values.append(value)
            elif field == "stream" and value == EVERY_SESSION:
                terms.append(_IS_A_JOURNAL)
            elif value == "":
                terms.append(f"{field} IS NULL")
            elif field == "event_type" and value in _SELDOM:
                terms.append(f"event_type = {_SELDOM.index(value) + 1}")  # as its tree says it
            elif field == "stream" and where.get("session_id"):  # a session's entries are fewer than a stream's
                terms.append("+stream = (SELECT id FROM names WHERE name = ?)")
                values.append(value)
            else:
                terms.append(f"{field} = (SELECT id FROM names WHERE name = ?)")  # noqa: S608 - one of QUERY_FIELDS
                values.append(value)
        order = "DESC" if newest_first else "ASC"
        question = f"{_ROWS} {' AND '.join(terms)} ORDER BY sequence {order} LIMIT ?"
        return self._list_places(question, (*values, limit))

    def sessions(self, prefix: str) -> list[str]:
        """Return the ids with this prefix of sessions that have an entry."""
        question = (
            "SELECT name FROM names WHERE name >= ? AND name < ? "
            "AND EXISTS (SELECT 1 FROM entries WHERE session_id = names.id)"
        )
        return [name for (name,) in self._ask(question, (prefix, f"{prefix}\U0010ffff"))]

    def ends_of_journals(self) -> list[tuple[str, int, str]]:
        """Return stream, sequence and type of the last entry of each session's journal."""
        return self._ask(_ENDS_OF_JOURNALS, ())

    def runs_with(self, event_type: str) -> list[tuple[str, int, str]]:
        """Return session, run and order (empty: none) of each entry of this type, in order."""
        question = (
            "SELECT session.name, run_seq, coalesce(wo.name, '') FROM entries "
            "JOIN names AS session ON session.id = session_id LEFT JOIN names AS wo ON wo.id = work_order_id "
            "WHERE event_type = {} ORDER BY sequence"  # as a number: of a seldom type its tree says it
        )
        known = self._ask("SELECT id FROM names WHERE name = ?", (event_type,))
        return [found for (number,) in known for found in self._ask(question.format(number), ())]

    def list_of_types(self, event_types: Collection[str], *, after: int, before: int, limit: int) -> list[EntryPlace]:
        """Return entries of any of these types between two sequences, in order: SQLite alone looks at the others."""
        types = ", ".join("?" * len(event_types))
        question = (
            f"{_ROWS} sequence > ? AND sequence < ? AND event_type IN (SELECT id FROM names WHERE name IN ({types})) "  # noqa: S608 - question marks
            "ORDER BY sequence LIMIT ?"
        )
        return self._list_places(question, (after, before, *event_types, limit))

    def _ask_both(self, question: str, value: int) -> Iterator[EntryPlace]:
        newest, older = self._partitions[:2], self._partitions[2:]  # most that is asked for is new
        for partitions in filter(None, (newest, older)):
            found = self._ask(question, (str(partitions), value))
            one, again = (sorted(sequence for number, sequence in found if number == tree) for tree in (0, 1))
            places = [place for sequence in one for place in self._list_places(f"{_ROWS} sequence = ?", (sequence,))]
            if one != again or len(places) != len(one):
                raise self.broken()
            yield from places

    def _list_places(self, question: str, values: tuple[Any, ...]) -> list[EntryPlace]:
        rows = self._ask(question, values)
        if any(_compute_crc(row[:-1]) != row[-1] for row in rows):
            raise self.broken()
        return [EntryPlace(*row[:_PLACE_COLUMNS]) for row in rows]

    def _ask(self, question: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            return self._db.execute(question, values).fetchall()
        except sqlite3.DatabaseError as error:
            self.on_broken(error)
            raise

    def broken(self) -> sqlite3.DatabaseError:
        """Return the error to raise where rows contradict each other."""
        error = sqlite3.DatabaseError("a page of the index is damaged")
        self.on_broken(error)
        return error

    def version(self) -> int:
        """Return the version of the schema; 0 for a file that has none yet."""
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        return int(version)

    def check(self) -> None:
        """Raise sqlite3.DatabaseError if the rows do not reach the index's own position."""
        (last,) = self._db.execute("SELECT max(sequence) FROM entries").fetchone()
        positions = self.positions()
        if last != (positions[-1].last if positions else None):
            raise sqlite3.DatabaseError("the index does not reach its own position")

    def fault(self) -> str:
        """Return what is wrong anywhere in the index; empty if nothing is. Reads everything."""
        try:
            (said,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
            if said != "ok":
                return str(said)
            for row in self._db.execute("SELECT * FROM entries"):
                if _compute_crc(row[:-1]) != row[-1]:
                    return f"the row of entry {row[0]} is damaged"
            for one, other in (("heads", "heads_again"), ("heads_again", "heads")):
                if self._db.execute(f"SELECT * FROM {one} EXCEPT SELECT * FROM {other}").fetchone():  # noqa: S608 - these
                    return "the heads of the streams are damaged"
        except sqlite3.DatabaseError as error:
            return str(error)
        return ""

    def _make_row(self, place: EntryPlace, entry: Entry, hashes: Mapping[str, int], partition: int) -> tuple[Any, ...]:
        provenance = entry.provenance
        named = (
            entry.stream, entry.event_type, entry.origin, provenance[4], provenance[7], provenance[0],
            entry.decision, entry.reason,
        )  # fmt: skip
        once = None if entry.once is None else hashes[entry.once]
        return (
            *place, partition, hashes[entry.submission_id], once, provenance[5],
            *map(self._names.__getitem__, named),
        )  # fmt: skip


class _Names(dict[str, int | None]):
    """Map names to numbers; a new name gets its own when it is asked for, an empty one has none."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __missing__(self, name: str) -> int | None:
        found = self._db.execute(_NEW_NAME, (name,)).fetchone() if name else (None,)  # most are new: of orders
        (number,) = found or self._db.execute("SELECT id FROM names WHERE name = ?", (name,)).fetchone()
        if len(self) >= _NAMES_KEPT:
            self.clear()
        self[name] = number
        return number


def hash_key(text: str) -> int:
    """Return what stands for an id or a once key in the index."""
    return hash_keys((text,))[text]


def hash_keys(texts: Sequence[str]) -> dict[str, int]:
    """Map each text to eight bytes of BLAKE2b."""
    digests = b"".join(map(_digest, map(_hash, map(str.encode, texts))))
    return dict(zip(texts, unpack(f">{len(texts)}q", digests), strict=True))


def find_partition(sequence: int) -> int:
    """Return the first sequence of the partition of the hashes that this entry is in."""
    bits = max(_PARTITION_BITS, sequence.bit_length() - _PARTITIONS_BITS)
    return sequence >> bits << bits


def list_partitions(last: int) -> list[int]:
    """Return the partitions of all entries up to this one, newest first."""
    found: list[int] = []
    while last >= 0:
        found.append(find_partition(last))
        last = found[-1] - 1
    return found


def _compute_crc(row: tuple[Any, ...]) -> int:
    return crc32(pack(row))


_Answer = TypeVar("_Answer")
_TRIES = 3
"""A writer that starts or ends meanwhile makes or removes the write-ahead log between two looks at it."""
_AT_REST = "mode=ro&immutable=1"
_WITH_LOG = "mode=ro&readonly_shm=1"
"""Reads the newest commits from the log, live or left by a crash; the log's own index is read, or made in memory."""


def read_positions(directory: Path) -> list[Position] | None:
    """Return how far the ledger's index reaches, segment by segment; None without one that a start would use."""
    return _ask_index(directory, Index.positions)


def read_fault(directory: Path) -> str | None:
    """Return what is wrong anywhere in an index that a start would use; empty if nothing is, None without one."""
    return _ask_index(directory, Index.fault)


def read_obstacle(directory: Path) -> str:
    """Return what stands in the place of the index's files, is no file, and so gives way to a new one; or nothing."""
    found = (directory / name for name in FILES)
    return next((f"{path.name} is not a file" for path in found if os.path.lexists(path) and not path.is_file()), "")


def _ask_index(directory: Path, question: Callable[[Index], _Answer]) -> _Answer | None:
    path = directory / FILE
    if read_obstacle(directory):  # whoever opens a pipe to read it waits for ever
        return None
    for _ in range(_TRIES):
        had_log = _has_log(path)
        try:
            with _copy_readable(path) as uri:
                found = _answer(uri, question)
        except (sqlite3.Error, OSError):
            found = None
        if had_log == _has_log(path) and (found is not None or not had_log):
            return found
    return None


@contextmanager
def open_for_reading(directory: Path) -> Generator[tuple[Index, Position] | None]:
    """Open an index that a start would use, for this thread, with how far it reaches; None where there is none.

    Each question sees what is there when it is asked, so that nothing holds the writer's log back.
    """
    with ExitStack() as held:
        yield _open(directory / FILE, held) if not read_obstacle(directory) else None


def _open(path: Path, held: ExitStack) -> tuple[Index, Position] | None:
    for _ in range(_TRIES):
        try:
            index = Index(connect_index(held.enter_context(_copy_readable(path)), uri=True))
            held.callback(index.close)
            index.begin()
            if index.version() != SCHEMA_VERSION:
                return None
            index.check()
            positions = index.positions()
            index.end()
        except (sqlite3.Error, OSError):
            held.close()
            continue
        return (index, positions[-1]) if positions else None
    return None


@contextmanager
def _copy_readable(path: Path) -> Generator[str]:
    if not _has_log(path):
        yield f"{path.absolute().as_uri()}?{_AT_REST}"
    elif _make_beside(path, "-shm").exists():
        yield f"{path.absolute().as_uri()}?{_WITH_LOG}"
    else:  # no process has it open, and reading a log makes this file: in a copy
        with TemporaryDirectory() as copied:
            for file in (path, _make_beside(path, "-wal")):
                shutil.copyfile(file, Path(copied) / file.name)
            yield f"{(Path(copied) / path.name).as_uri()}?mode=rw"


def _answer(uri: str, question: Callable[[Index], _Answer]) -> _Answer | None:
    index = Index(connect_index(uri, uri=True))
    try:
        index.begin()
        if index.version() != SCHEMA_VERSION:
            return None
        index.check()
        return question(index)
    finally:
        index.close()


def _has_log(path: Path) -> bool:
    try:
        return _make_beside(path, "-wal").stat().st_size > 0
    except OSError:
        return False


def _make_beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
