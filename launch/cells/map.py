"""The map of cells: `<home>/cells.sqlite` of the home whose doors route. Cells, where each person is, and who moves.

A person is placed once, by whoever sees them first (`placement.py`), and stays there whatever cells come and go, until
a move is finished. Each method is one transaction, so doors of this machine and commands agree at every moment; a map
for doors of several machines would be these methods over a server (docs/scaling.md).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from hobus.launch.cells.placement import cell_for

Step = Literal["leaving", "copying", "arriving", "sweeping", "returning", "done"]
NEXT: dict[Step, Step] = {
    "leaving": "copying", "copying": "arriving", "arriving": "sweeping", "sweeping": "done", "returning": "done",
}  # fmt: skip
"""Of a move. Before `arriving` it may still turn back; from `sweeping` on the person is at the target."""
REFUSING = frozenset({"leaving", "copying", "arriving", "returning"})
"""Steps in which doors take nothing from that person."""
_WAITS_S = 10.0
"""For another process's transaction, which takes some milliseconds."""
_TABLES = """
create table if not exists cells (name text primary key, url text not null, home text not null, key text not null,
    is_open integer not null default 1) without rowid;
create table if not exists people (person text primary key, cell text not null) without rowid;
create table if not exists moves (number integer primary key, person text not null, source text not null,
    target text not null, step text not null, began_at_us integer not null, ended_at_us integer);
create unique index if not exists moving on moves (person) where ended_at_us is null;
create table if not exists listed (cell text primary key) without rowid;
"""


class Cell(NamedTuple):
    """A cluster behind the door."""

    name: str
    url: str  # of its HTTP door; empty: the cluster of this home itself
    home: str  # on this machine; empty: elsewhere
    key: str  # of that door, `--may cell`; empty: of this home none is needed
    is_open: bool = True  # whether people who are new begin there


class Move(NamedTuple):
    """A person's way to another cell."""

    person: str
    source: str
    target: str
    step: Step
    began_at_us: int = 0


class CellMap:
    """Used by one thread. Raises sqlite3.Error where the file cannot be read or written."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)  # it holds keys
        self.open(sqlite3.connect(path, timeout=_WAITS_S, isolation_level=None))

    def open(self, db: sqlite3.Connection) -> None:
        self._db = db
        db.execute("pragma journal_mode = wal")  # whoever reads, as doors do for each request, waits for nobody
        db.execute("pragma synchronous = full")
        db.executescript(_TABLES)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _whole(self) -> Generator[None]:
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    # --- cells

    def cells(self) -> dict[str, Cell]:
        rows = self._db.execute("select name, url, home, key, is_open from cells order by name")
        return {row[0]: Cell(row[0], row[1], row[2], row[3], is_open=bool(row[4])) for row in rows}

    def put(self, cell: Cell) -> None:
        """Added, or changed; whoever is there stays there."""
        self._db.execute("insert or replace into cells values (?, ?, ?, ?, ?)", cell)

    def drop(self, name: str) -> bool:
        """Whether it is gone: nobody was there, and nobody on the way."""
        with self._whole():
            if self.people(name) or any(name in (move.source, move.target) for move in self.moves()):
                return False
            self._db.execute("delete from cells where name = ?", (name,))
        return True

    # --- people

    def place(self, person: str) -> tuple[str, bool]:
        """The cell of this person, placed now if they are new; and whether they move: then nothing is taken."""
        cell, step = self._db.execute(
            "select (select cell from people where person = ?1), "
            "(select step from moves where person = ?1 and ended_at_us is null)",
            (person,),
        ).fetchone()
        if cell is None:
            with self._whole():
                names = [one.name for one in self.cells().values() if one.is_open]
                self._db.execute("insert or ignore into people values (?, ?)", (person, cell_for(person, names)))
            return self.place(person)
        return str(cell), step in REFUSING

    def cell_of(self, person: str) -> str | None:
        """Where this person is; None: nobody has seen them."""
        row = self._db.execute("select cell from people where person = ?", (person,)).fetchone()
        return row and str(row[0])

    def people(self, cell: str) -> list[str]:
        return [str(row[0]) for row in self._db.execute("select person from people where cell = ?", (cell,))]

    def list_people(self, cell: str, people: list[str]) -> None:
        """Who was in this cell before there was a map, once."""
        with self._whole():
            self._db.executemany("insert or ignore into people values (?, ?)", [(person, cell) for person in people])
            self._db.execute("insert or ignore into listed values (?)", (cell,))

    def is_listed(self, cell: str) -> bool:
        return self._db.execute("select 1 from listed where cell = ?", (cell,)).fetchone() is not None

    # --- moves

    def move_of(self, person: str) -> Move | None:
        """The move that this person is on; None: none."""
        return next((move for move in self.moves() if move.person == person), None)

    def moves(self) -> list[Move]:
        """Those that have begun and are not done, the oldest first."""
        rows = self._db.execute(
            "select person, source, target, step, began_at_us from moves where ended_at_us is null order by number"
        )
        return [Move(*row) for row in rows]

    def begin(self, person: str, target: str, now_us: int) -> Move:
        """The move of this person: the one that they are on, else a new one, which doors heed from now on.

        Of one who is there already: whatever may have begun late where they came from is carried after them.
        """
        with self._whole():
            if (move := self.move_of(person)) is not None:
                return move
            source, step = self.cell_of(person) or target, "leaving"
            if source == target:
                before = self.came_from(person)  # whose cell may be gone since
                source, step = before if before in self.cells() else target, "sweeping"
            row = (person, source, target, step, now_us)
            self._db.execute("insert into moves values (null, ?, ?, ?, ?, ?, null)", row)
        return Move(*row)

    def came_from(self, person: str) -> str | None:
        """From where they moved last; None: they never did."""
        row = self._db.execute("select source from moves where person = ? order by number desc", (person,)).fetchone()
        return row and str(row[0])

    def advance(self, move: Move, now_us: int, step: Step | None = None) -> Move:
        """The move in its next step, or this one, whoever has made that; behind `arriving` the person is there."""
        after = step or NEXT[move.step]
        ended = now_us if after == "done" else None
        with self._whole():
            made = self._db.execute(
                "update moves set step = ?, ended_at_us = ? where person = ? and step = ? and ended_at_us is null",
                (after, ended, move.person, move.step),
            )
            if made.rowcount and move.step == "arriving":
                self._db.execute("insert or replace into people values (?, ?)", (move.person, move.target))
        return move._replace(step=after)
