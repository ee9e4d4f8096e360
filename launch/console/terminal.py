"""What a terminal shows of tables and Markdown, by rich. Imported only where somebody looks at a terminal.

Lines come out as texts with colours of ours; whatever they are made of is escaped before, or taken out of what rich
makes of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from hobus.launch.console.output import Styled, choose_state_colour, colours, format_cell

_GAP = 2
_NARROW = 14
"""Cells; a column that needs no more is never broken, and none is made narrower than that for another one's sake."""
CUT = "⋮"
_WRAPS = Console(width=80)  # `Text.wrap` asks it for nothing but defaults
_BLANKS = re.compile(r" +((?:\x1b\[0m)?)$")


class Screen(Console):
    """A terminal whose cursor stays: what ends this process would not show it again."""

    def show_cursor(self, show: bool = True) -> bool:
        """Do nothing."""
        del show
        return False


def make_screen(*, columns: int | None = None, theme: Theme | None = None) -> Screen:
    """Return the terminal behind standard output; markup, emoji names and the like in a text are text."""
    return Screen(
        file=sys.stdout,
        force_terminal=True,
        color_system="standard" if colours() else None,
        width=columns,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        theme=theme,
    )


def render_lines(shown: RenderableType, *, columns: int, theme: Theme | None = None) -> list[Styled]:
    """Return the rows of a terminal that this becomes, without blanks at their ends."""
    console = make_screen(columns=columns, theme=theme)
    with console.capture() as captured:
        console.print(shown)
    return [Styled(_BLANKS.sub(r"\1", line)) for line in captured.get().split("\n")[:-1]]


def fold(text: str, columns: int) -> list[str]:
    """Return the rows of a text, which end between words where they can; none is wider than the columns."""
    return [row for line in text.split("\n") for row in _fold_line(line, max(2, columns))]


def cut_last_rows(text: str, columns: int, rows_max: int) -> list[str]:
    """Return the end of a text in at most so many rows, the first of which says that there is more above."""
    rows: list[str] = []
    for line in reversed(text.split("\n")):
        rows[:0] = _fold_line(line, max(2, columns))
        if len(rows) > rows_max:
            return [CUT, *rows[len(rows) - rows_max + 1 :]]
    return rows


def _fold_line(line: str, columns: int) -> list[str]:
    return [row.plain.rstrip() for row in Text(line).wrap(_WRAPS, columns)] or [""]


def make_table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, coloured: int | None, spare: Sequence[str], columns: int
) -> list[Styled]:
    """Return the lines of a table in so many columns of a terminal; cells are printable texts.

    Where not all columns fit, wide ones are broken; then what is spare is left out, the first of it first.
    """
    cells = [[format_cell(text) for text in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]
    kept, left_out = list(range(len(headings))), list[str]()
    while sum(min(widths[number], _NARROW) + _GAP for number in kept) - _GAP > columns:
        if len(left_out) == len(spare):
            return render_lines(Group(*_render_records(headings, cells, coloured)), columns=columns)
        left_out.append(spare[len(left_out)])
        kept.remove(headings.index(left_out[-1]))
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for number in kept:
        least = min(widths[number], _NARROW)
        table.add_column(Text(headings[number]), overflow="fold", min_width=least, no_wrap=least == widths[number])
    for row in cells:
        table.add_row(*(_make_cell(row, number, coloured) for number in kept))
    said = f"too narrow here for {', '.join(left_out)}; --json has all"
    below = [Text(said, style="bright_black", overflow="fold")] if left_out else []
    return render_lines(Group(table, *below), columns=columns)


def _make_cell(row: Sequence[str], number: int, coloured: int | None) -> Text:
    return Text(
        row[number], style=(choose_state_colour(row[number]) or "") if number == coloured else "", overflow="fold"
    )


def _render_records(
    headings: Sequence[str], rows: Sequence[Sequence[str]], coloured: int | None
) -> Iterator[RenderableType]:
    """Yield, where not even the narrowest table fits, a line per cell behind its heading, an empty one between rows."""
    for count, row in enumerate(rows):
        if count:
            yield Text()
        for number, heading in enumerate(headings):
            if row[number]:
                yield Text.assemble((heading, "bold"), "  ", _make_cell(row, number, coloured), overflow="fold")
