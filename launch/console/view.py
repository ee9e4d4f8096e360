"""What a command shows, as a list of parts: each makes lines and tables of what was found. Printed, or told as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from hobus.launch.console.output import (
    format_count,
    format_thousands,
    make_printable,
    make_table_lines,
    note,
    print_table,
    say,
    say_prose,
)

T = TypeVar("T")
ROWS = 40
"""Of one list, as people read it; programs get all of it."""
ENTRIES = 3
"""Of those behind one text that are named."""


class Line(NamedTuple):
    """A line; `begin` stands before it, and is no part of its colour."""

    text: str
    colour: str | None = None
    bold: bool = False
    begin: str = ""
    is_aside: bool = False
    """What a program that reads standard output must not see."""


class Rows(NamedTuple):
    """A table."""

    headings: Sequence[str]
    cells: Sequence[Sequence[str]]
    spare: Sequence[str] = ()
    """Columns left out where a terminal is too narrow, the first of them first."""


Shown: TypeAlias = Line | Rows
Columns: TypeAlias = Mapping[str, Callable[[Any], object] | str]
"""Heading -> what stands below it: an attribute or a key of a row, by its (dotted) name, or what is made of the row."""
Part: TypeAlias = Callable[[T], Iterable[Shown]]


@dataclass(frozen=True)
class Table(Generic[T]):
    """A part that is a table: the first `ROWS` rows, and how many there are beside; nothing of none.

    `heading` stands above: a text, or what is found makes it.
    """

    heading: Callable[[T], str] | str
    rows: Callable[[T], Sequence[Any]]
    columns: Columns
    spare: Sequence[str] = ()

    def __call__(self, found: T) -> Iterator[Shown]:
        rows = self.rows(found)
        if not rows:
            return
        if text := self.heading if isinstance(self.heading, str) else self.heading(found):
            yield from heading(text)
        yield Rows(list(self.columns), [self.cells(row) for row in rows[:ROWS]], self.spare)
        if (more := len(rows) - ROWS) > 0:
            yield Line(f"and {format_count(more, 'further row')}: --json has all", "bright_black", begin="  ")

    def cells(self, row: Any) -> list[str]:
        return cells_of(row, self.columns)


def cells_of(row: Any, columns: Columns) -> list[str]:
    return [in_cell(_value(row, given), given if isinstance(given, str) else "") for given in columns.values()]


def _value(row: Any, given: Callable[[Any], object] | str) -> object:
    if not isinstance(given, str):
        return given(row)
    return row[given] if isinstance(row, dict) else attrgetter(given)(row)


def print_rows(
    rows: Iterable[Any], columns: Columns, *, coloured: int | None = None, empty: str = "", spare: Sequence[str] = ()
) -> None:
    """Print all rows as `table` does; what is not there is a dash."""
    cells = [[cell or "-" for cell in cells_of(row, columns)] for row in rows]
    print_table(list(columns), cells, coloured=coloured, empty=empty, spare=spare)


def in_cell(value: object, name: str = "") -> str:
    """Return a value as a cell: by the attribute's name an entry, entries or milliseconds; else by its type."""
    match value:
        case None | "":
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.3f}"
        case int() if name.endswith("sequence"):
            return f"#{value}"
        case int() if name.endswith("_ms"):
            return f"{format_thousands(value)} ms"
        case int():
            return format_thousands(value)
        case list() | tuple() if name.endswith("sequences"):
            return entries(value)
        case list() | tuple():
            return ", ".join(value)
        case _:
            return str(value)


def entries(sequences: Sequence[int]) -> str:
    """Return the numbers of at most three entries; more are counted."""
    shown = " ".join(f"#{one}" for one in sequences[:ENTRIES])
    return shown if len(sequences) <= ENTRIES else f"{shown} and {format_count(len(sequences) - ENTRIES, 'other')}"


def heading(text: str) -> Iterator[Line]:
    yield Line("")
    yield Line(text, bold=True)


def print_view(view: Iterable[Part[T]], found: T) -> None:
    print_all(one for part in view for one in part(found))


def print_all(shown: Iterable[Shown]) -> None:
    for one in shown:
        match one:
            case Rows(headings, cells, spare):
                print_table(headings, cells, spare=spare)
            case Line(text, is_aside=True):
                note(make_printable(text))
            case Line("", begin=""):
                say()
            case Line(text, colour, bold, begin):
                say_prose(begin, make_printable(text), colour, bold=bold)


def lines_of(view: Iterable[Part[T]], found: T) -> Iterator[str]:
    """Yield a view as lines; tables as wide as the terminal."""
    for one in (one for part in view for one in part(found)):
        if isinstance(one, Rows):
            cells = [[make_printable(cell) for cell in row] for row in one.cells]
            yield from make_table_lines(one.headings, cells, spare=one.spare, is_styled=False)
        elif one.begin or one.text:
            yield f"{one.begin}{make_printable(one.text)}"
