"""Text on a terminal: what may be shown, and where its rows break. Pure."""

from __future__ import annotations

import re

from rich.console import Console
from rich.text import Text

from hobus.launch.console.output import COMMANDS

_DIRECTIONS = re.compile("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
_TAB = "    "
_REPLACED = "\N{REPLACEMENT CHARACTER}"
CUT = "⋮"
_WRAPS = Console(width=80)  # `Text.wrap` asks it for nothing but defaults


def printable(text: str) -> str:
    """The text without anything that commands a terminal: only newlines are left of the control characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", _TAB)
    return COMMANDS.sub(_REPLACED, _DIRECTIONS.sub("", text))


def rows_of(text: str, width: int) -> list[str]:
    """The rows of a printable text, none of more than `width` cells; broken at spaces where there are any."""
    return [row for paragraph in text.split("\n") for row in _rows_of_paragraph(paragraph, max(2, width))]


def last_rows(text: str, width: int, rows_max: int) -> list[str]:
    """The end of a printable text in at most so many rows, the first of which says that there is more above."""
    rows: list[str] = []
    for paragraph in reversed(text.split("\n")):
        rows[:0] = _rows_of_paragraph(paragraph, max(2, width))
        if len(rows) > rows_max:
            return [CUT, *rows[len(rows) - rows_max + 1 :]]
    return rows


def _rows_of_paragraph(paragraph: str, width: int) -> list[str]:
    return [line.plain.rstrip() for line in Text(paragraph).wrap(_WRAPS, width)] or [""]
