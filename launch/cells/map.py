"""The map of cells: which there are, in which one each person is, and who moves. In one place for all of their doors.

A file of SQLite serves cells of one machine, a PostgreSQL server those of several: the same statements, which both
understand. A person is placed once, by whoever sees them first (`choose_cell`), and stays there whatever cells come
and go, until a move is finished. Each method is one transaction, so all doors and commands agree at every moment.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hobus.bus.disk import RealDisk
from hobus.bus.errors import BusError

Step = Literal["leaving", "copying", "arriving", "sweeping", "returning", "done"]
NEXT: dict[Step, Step] = {
    "leaving": "copying", "copying": "arriving", "arriving": "sweeping", "sweeping": "done", "returning": "done",
}  # fmt: skip
"""Of a move. Before `arriving` it may still turn back; from `sweeping` on the person is at the target."""
REFUSING = frozenset({"leaving", "copying", "arriving", "returning"})
"""Steps in which doors take nothing from that person."""
_WAITS_S = 10
"""For another process's transaction, which takes some milliseconds."""
_CONNECT_S = 2
_LOCK = 0x686F627573
"""Of the map on a server, whose transactions come one after the other, as SQLite's do."""
_TABLES = """
create table if not exists cells (name text primary key, url text not null, home text not null, key text not null,
    is_open integer not null);
create table if not exists people (person text primary key, cell text not null);
create table if not exists moves (number integer primary key, person text not null, source text not null,
    target text not null, step text not null, began_at_us bigint not null, ended_at_us bigint);
create unique index if not exists moving on moves (person) where ended_at_us is null;
create table if not exists listed (cell text primary key);
create table if not exists secrets (name text primary key, word text not null)
"""
_CELL = "select name, url, home, key, is_open from cells"


def choose_cell(person: str, cells: Collection[str]) -> str:
    """Return the cell where a new person begins, by rendezvous hashing: the same whatever the order, at every door.

    With one cell more, who changes goes there; with one fewer, only its own change. Raises ValueError for no cell.
    """
    return max(cells, key=lambda cell: sha256(f"{cell}\n{person}".encode()).digest())


class Cell(NamedTuple):
    """A cluster among which people are sharded."""

    name: str
    url: str  # of its HTTP door
    home: str  # on this machine, or `[USER@]HOST:` and where it is there, for ssh
    key: str  # of that door, `--may cell`
    is_open: bool = True  # whether people who are new begin there


class Move(NamedTuple):
    """A person's way to another cell."""

    person: str
    source: str
    target: str
    step: Step
    began_at_us: int = 0


class CellMap:
    """Raises BusError(unavailable) where the map cannot be read or written now; what was begun is undone then."""

    def __init__(self, where: str | Path) -> None:
        self.where = str(where)
        self.is_server = self.where.startswith(("postgresql://", "postgres://"))
        """Whether it takes longer to ask than a file."""
        self._db: Any = None
        self._is_begun = self._is_held = False

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None

    def hold(self) -> Callable[[], object] | None:
        """Be the one who changes cells and moves people, until what is returned is called or the process ends.

        None: somebody else is.
        """
        if not self.is_server:
            self.cells()  # of a map that is not there nothing is made
            return RealDisk(Path(self.where).parent).lock("cells.sqlite.lock")
        self._is_held = bool(self._rows("select pg_try_advisory_lock(?)", _LOCK + 1)[0][0])
        return self._give_back if self._is_held else None

    def _give_back(self) -> None:
        """Let the next one hold the map at once: a server notices the end of a connection only some time later."""
        with suppress(BusError):
            self._rows("select pg_advisory_unlock(?)", _LOCK + 1)
        self.close()

    def _run(self, statement: str, *values: str | int | None) -> list[Any]:
        """Return the rows of one statement of the SQL that both engines understand; `?` stands for a value."""
        if self._db is not None and self.is_server and not self._is_begun:
            with suppress(BusError):  # the server may have restarted since: once more, over a new connection
                return self._rows(statement, *values)
        return self._rows(statement, *values)

    def _rows(self, statement: str, *values: str | int | None) -> list[Any]:
        db = self._db or self._open()
        with self._translate_faults():
            found = db.execute(statement.replace("?", "%s") if self.is_server else statement, values)
            return list(found.fetchall()) if found.description else []

    def _open(self) -> Any:
        with self._translate_faults():
            if self._is_held:
                raise OSError("the connection that kept other commands out is lost")
            self._db = _open_server(self.where) if self.is_server else _open_file(Path(self.where))
        with self._write_whole():
            for table in _TABLES.split(";"):
                self._run(table)
        return self._db

    @contextmanager
    def _translate_faults(self) -> Generator[None]:
        """Whatever a database says is one fault, and the next statement opens it anew."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, sqlite3.Error | OSError) and not type(error).__module__.startswith("psycopg"):
                raise
            self.close()
            said = (str(error).strip() or repr(error)).splitlines()[0]
            where = "its server" if self.is_server else self.where
            step = (
                "see that it runs"
                if self.is_server
                else f"if it is gone or damaged, remove {where}* and put its last copy there"
            )
            step += ", then run the same command again"
            raise BusError("unavailable", f"the map of cells ({where}): {said}", facts={"next": step}) from None

    @contextmanager
    def _write_whole(self) -> Generator[None]:
        self._run("begin" if self.is_server else "begin immediate")
        self._is_begun = True
        try:
            if self.is_server:
                self._run("select pg_advisory_xact_lock(?)", _LOCK)
            yield
            self._run("commit")
        except BaseException:
            self.close()  # which undoes it
            raise
        finally:
            self._is_begun = False

    # --- cells

    def cells(self) -> dict[str, Cell]:
        return {row[0]: Cell(*row) for row in self._run(f"{_CELL} order by name")}

    def put(self, cell: Cell) -> None:
        """Add or change a cell; whoever is there stays there."""
        self._run(
            "insert into cells values (?, ?, ?, ?, ?) on conflict (name) do update set url = excluded.url, "
            "home = excluded.home, key = excluded.key, is_open = excluded.is_open",
            *cell[:4], int(cell.is_open),
        )  # fmt: skip

    def drop(self, name: str) -> bool:
        """Remove a cell; return False where somebody is there, or on the way."""
        with self._write_whole():
            if self.people(name) or any(name in (move.source, move.target) for move in self.moves()):
                return False
            self._run("delete from cells where name = ?", name)
            self._run("delete from listed where cell = ?", name)
        return True

    def secret(self, offered: str = "") -> str:
        """Return what all doors sign sessions with: what the first cell offered; empty: none did."""
        if offered:
            self._run("insert into secrets values ('http', ?) on conflict do nothing", offered)
        return next((str(row[0]) for row in self._run("select word from secrets where name = 'http'")), "")

    # --- people

    def place(self, person: str) -> tuple[Cell, bool]:
        """Return the cell of this person, placed now if new; and whether they move: then nothing is taken."""
        rows = self._run(
            "select c.name, c.url, c.home, c.key, c.is_open, m.step from people p join cells c on c.name = p.cell "
            "left join moves m on m.person = p.person and m.ended_at_us is null where p.person = ?",
            person,
        )
        if rows:
            return Cell(*rows[0][:5]), rows[0][5] in REFUSING
        with self._write_whole():
            names = [one.name for one in self.cells().values() if one.is_open]
            self._run("insert into people values (?, ?) on conflict do nothing", person, choose_cell(person, names))
        return self.place(person)

    def find_cell(self, person: str) -> str | None:
        """Return where this person is; None: nobody has seen them."""
        return next((str(row[0]) for row in self._run("select cell from people where person = ?", person)), None)

    def people(self, cell: str) -> list[str]:
        return [str(row[0]) for row in self._run("select person from people where cell = ? order by person", cell)]

    def list_people(self, cell: str, people: list[str]) -> None:
        """Who was in this cell before it was one, once; nobody of a cell that is removed."""
        with self._write_whole():
            if cell not in self.cells():
                return
            for person in people:
                self._run("insert into people values (?, ?) on conflict do nothing", person, cell)
            self._run("insert into listed values (?) on conflict do nothing", cell)

    def is_listed(self, cell: str) -> bool:
        return bool(self._run("select 1 from listed where cell = ?", cell))

    # --- moves

    def move_of(self, person: str) -> Move | None:
        """Return the move that this person is on; None: none."""
        return next((move for move in self.moves() if move.person == person), None)

    def moves(self) -> list[Move]:
        """Return moves that have begun and are not done, the oldest first."""
        rows = self._run(
            "select person, source, target, step, began_at_us from moves where ended_at_us is null order by number"
        )
        return [Move(*row) for row in rows]

    def begin(self, person: str, target: str, now_us: int) -> Move:
        """Begin the move of this person, or find the one that is under way; doors heed it from now on."""
        with self._write_whole():
            if (move := self.move_of(person)) is not None:
                return move
            source = self.find_cell(person)
            if source is None or source == target:
                return Move(person, target, target, "done")
            self._run(
                "insert into moves select coalesce(max(number), 0) + 1, ?, ?, ?, 'leaving', ?, null from moves",
                person, source, target, now_us,
            )  # fmt: skip
        return Move(person, source, target, "leaving", now_us)

    def advance(self, move: Move, now_us: int, step: Step | None = None) -> Move:
        """Bring the move to its next step, or this one; behind `arriving` the person is there."""
        after = step or NEXT[move.step]
        with self._write_whole():
            self._run(
                "update moves set step = ?, ended_at_us = ? where person = ? and ended_at_us is null",
                after, now_us if after == "done" else None, move.person,
            )  # fmt: skip
            if move.step == "arriving":
                self._run("update people set cell = ? where person = ?", move.target, move.person)
        return move._replace(step=after)


def _open_file(path: Path) -> Any:
    """Open a file that is there: in a new one everybody would be placed anew."""
    db = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=_WAITS_S, isolation_level=None)
    db.execute("pragma journal_mode = wal")  # whoever reads, as doors do for each request, waits for nobody
    db.execute("pragma synchronous = full")
    return db


def _open_server(where: str) -> Any:
    try:
        psycopg = importlib.import_module("psycopg")
    except ImportError:
        raise BusError(
            "unavailable", "a map of cells on PostgreSQL needs psycopg", facts={"next": "pip install 'hobus[cells]'"}
        ) from None
    # A server that is away, or hangs, is told within these seconds.
    return psycopg.connect(
        where, autocommit=True, connect_timeout=_CONNECT_S, tcp_user_timeout=_WAITS_S * 1000,
        options=f"-c statement_timeout={_WAITS_S}s",
    )  # fmt: skip
