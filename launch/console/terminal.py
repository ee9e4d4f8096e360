"""What a terminal shows of tables and Markdown, by rich. Imported only where somebody looks at a terminal.

Lines come out as texts with colours of ours; whatever they are made of is escaped before, or taken out of what rich
makes of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Self

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from hobus.launch.console.output import Styled, cell, colours, printable, state_colour, thousands, window

_GAP = 2
_NARROW = 14
"""Cells; a column that needs no more is never broken, and none is made narrower than that for another one's sake."""
CUT = "⋮"
_WRAPS = Console(width=80)  # `Text.wrap` asks it for nothing but defaults
_BESIDE_BAR = 68
"""Cells; what stands beside a bar, for numbers in the millions: a bar that takes all it can would cut that."""
_ROOMY = 80
"""Cells; with fewer, of something under way only how far it is and how long it still takes is shown."""
_BLANKS = re.compile(r" +((?:\x1b\[0m)?)$")


class Screen(Console):
    """A terminal whose cursor stays: what ends this process would not show it again."""

    def show_cursor(self, show: bool = True) -> bool:
        """Nothing is done."""
        del show
        return False


def screen(*, to_stderr: bool = False, columns: int | None = None, theme: Theme | None = None) -> Screen:
    """The terminal behind a standard stream; markup, emoji names and the like in a text are text."""
    return Screen(
        file=sys.stderr if to_stderr else sys.stdout,
        force_terminal=True,
        color_system="standard" if colours(to_stderr=to_stderr) else None,
        width=columns,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        theme=theme,
    )


def lines_of(shown: RenderableType, *, columns: int, theme: Theme | None = None) -> list[Styled]:
    """The rows of a terminal that this becomes, without blanks at their ends."""
    console = screen(columns=columns, theme=theme)
    with console.capture() as captured:
        console.print(shown)
    return [Styled(_BLANKS.sub(r"\1", line)) for line in captured.get().split("\n")[:-1]]


def folded(text: str, columns: int) -> list[str]:
    """The rows of a text, which end between words where they can; none is wider than the columns."""
    return [row for line in text.split("\n") for row in _rows_of_line(line, max(2, columns))]


def last_rows(text: str, columns: int, rows_max: int) -> list[str]:
    """The end of a text in at most so many rows, the first of which says that there is more above."""
    rows: list[str] = []
    for line in reversed(text.split("\n")):
        rows[:0] = _rows_of_line(line, max(2, columns))
        if len(rows) > rows_max:
            return [CUT, *rows[len(rows) - rows_max + 1 :]]
    return rows


def _rows_of_line(line: str, columns: int) -> list[str]:
    return [row.plain.rstrip() for row in Text(line).wrap(_WRAPS, columns)] or [""]


def table_lines(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    coloured: int | None,
    spare: Sequence[str],
    columns: int,
) -> list[Styled]:
    """The lines of a table in so many columns of a terminal; cells are printable texts."""
    return lines_of(table_of(headings, rows, coloured=coloured, spare=spare, columns=columns), columns=columns)


def table_of(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    coloured: int | None,
    spare: Sequence[str],
    columns: int,
) -> Group:
    """The same, to be shown in a place that is written anew.

    Where not all columns fit, wide ones are broken; then what is spare is left out, the first of it first.
    """
    cells = [[cell(text) for text in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]
    kept, left_out = list(range(len(headings))), list[str]()
    while sum(min(widths[number], _NARROW) + _GAP for number in kept) - _GAP > columns:
        if len(left_out) == len(spare):
            return Group(*_records(headings, cells, coloured))
        left_out.append(spare[len(left_out)])
        kept.remove(headings.index(left_out[-1]))
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for number in kept:
        least = min(widths[number], _NARROW)
        table.add_column(Text(headings[number]), overflow="fold", min_width=least, no_wrap=least == widths[number])
    for row in cells:
        table.add_row(*(_cell(row, number, coloured) for number in kept))
    if not left_out:
        return Group(table)
    said = f"too narrow here for {', '.join(left_out)}; --json has all"
    return Group(table, Text(said, style="bright_black", overflow="fold"))


class InPlace:
    """A table of standard output that is written anew where it stands; its last form stays.

    In a window that became narrower it begins anew below: what stood there is not where it was.
    """

    def __init__(self) -> None:
        self._console = screen()
        self._live = self._anew()
        self._columns = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(
        self,
        headings: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        coloured: int | None,
        spare: Sequence[str],
        below: str,
    ) -> None:
        """It is this now, with a line below it."""
        columns, height = window()
        if columns < self._columns:
            self._live.stop()
            self._live = self._anew()
        self._columns = columns
        self._console.size = self._console.size._replace(width=columns, height=height)
        cells = [[printable(text) for text in row] for row in rows]
        table = table_of(headings, cells, coloured=coloured, spare=spare, columns=columns)
        self._live.update(Group(table, Text(printable(below), style="bright_black", overflow="fold")))
        if not self._live.is_started:
            self._live.start()
        self._live.refresh()

    def _anew(self) -> Live:
        return Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)


class Counting:
    """How far something is, on standard error, while it is under way; nothing of it stays.

    Begins to be seen at the first `step`: what is over by then needs none.
    """

    def __init__(self, done: str, what: str, *, total: int | None, step: int) -> None:
        """`total` None: nobody knows how many there are, nor how long it will take."""
        columns_there = window()[0]
        is_roomy = columns_there >= _ROOMY
        columns: list[ProgressColumn] = [_Told(done, what, with_rate=is_roomy)]
        if total is not None and is_roomy:
            columns.append(BarColumn(bar_width=columns_there - _BESIDE_BAR))
        if total is not None:
            columns.append(TimeRemainingColumn(compact=True))
        self._progress = Progress(
            *columns, console=screen(to_stderr=True, columns=columns_there), auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self._progress.add_task(what, total=total)
        self._step = step
        self._next = step

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def at(self, count: int) -> None:
        """So many are done."""
        if count < self._next:
            return
        self._next = count + self._step
        self._progress.update(self._task, completed=count)
        self._progress.start()
        self._progress.refresh()

    def hide(self) -> None:
        """Nothing of it is seen until the next step: something else is said now."""
        self._progress.stop()


class OneLine:
    """A line on standard error that is written anew where it stands; nothing of it stays."""

    def __init__(self) -> None:
        self._live = Live(
            console=screen(to_stderr=True), auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip

    def show(self, text: str) -> None:
        """It is this now, as far as the window is wide."""
        self._live.update(Text(printable(text), style="bright_black", no_wrap=True, overflow="ellipsis"))
        self._live.start()
        self._live.refresh()

    def hide(self) -> None:
        self._live.stop()


class _Told(ProgressColumn):
    """`12,000 of 48,120 entries verified, 31,000 a second`."""

    def __init__(self, done: str, what: str, *, with_rate: bool) -> None:
        self._done = done
        self._what = what
        self._with_rate = with_rate
        super().__init__()

    def render(self, task: Task) -> Text:
        total = f" of {thousands(int(task.total))}" if task.total is not None else ""
        rate = f", {_rate(task.speed)} a second" if task.speed and self._with_rate else ""
        return Text(f"{thousands(int(task.completed))}{total} {self._what} {self._done}{rate}", no_wrap=True)


def _rate(speed: float) -> str:
    """As many as a second brings; below ten with tenths."""
    return thousands(int(speed)) if speed >= 10 else f"{speed:.1f}"  # noqa: PLR2004 - as said


def _cell(row: Sequence[str], number: int, coloured: int | None) -> Text:
    return Text(row[number], style=(state_colour(row[number]) or "") if number == coloured else "", overflow="fold")


def _records(headings: Sequence[str], rows: Sequence[Sequence[str]], coloured: int | None) -> Iterator[RenderableType]:
    """Where not even the narrowest table fits: a line per cell behind its heading, an empty one between rows."""
    for count, row in enumerate(rows):
        if count:
            yield Text()
        for number, heading in enumerate(headings):
            if row[number]:
                yield Text.assemble((heading, "bold"), "  ", _cell(row, number, coloured), overflow="fold")
