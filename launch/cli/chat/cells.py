"""Text on a terminal: what may be shown, how many cells it takes, and where its rows break. Pure.

No width is counted smaller than a terminal's own: rows then never break by themselves, and can be rewritten.
"""

from __future__ import annotations

import re
import unicodedata

_TOKEN = re.compile(r"\s+|\S+")
_NO_CELL = frozenset({"Mn", "Me", "Cf"})
_DIRECTIONS = re.compile("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_TAB = "    "
_REPLACED = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """The text without anything that commands a terminal: only newlines are left of the control characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", _TAB)
    return _CONTROL.sub(_REPLACED, _DIRECTIONS.sub("", text))


def cells_of(text: str) -> int:
    """Columns that a printable text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.category(character) in _NO_CELL:
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def rows_of(text: str, width: int) -> list[str]:
    """The rows of a printable text, none wider than `width`; broken at spaces where there are any."""
    return [row for paragraph in text.split("\n") for row in _rows_of_paragraph(paragraph, max(2, width))]


def _rows_of_paragraph(paragraph: str, width: int) -> list[str]:
    rows, row, used = list[str](), "", 0
    for token in _TOKEN.findall(paragraph):
        cells = cells_of(token)
        if used + cells <= width:
            row, used = row + token, used + cells
        elif token.isspace():  # spaces at a break are not shown
            rows.append(row)
            row, used = "", 0
        else:
            if row:
                rows.append(row)
            *whole, row = _pieces_of(token, width)
            rows += whole
            used = cells_of(row)
    return [*rows, row]


def _pieces_of(word: str, width: int) -> list[str]:
    """A word cut where it fills a row; what takes no cell stays with the character before it."""
    pieces, used = [""], 0
    for character in word:
        cells = _cells(character)
        if used + cells > width:
            pieces.append("")
            used = 0
        pieces[-1] += character
        used += cells
    return pieces


class Layout:
    """Rows of a text that grows at its end: paragraphs that are over are laid out once."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._text = ""
        self._rows: list[str] = []

    def rows(self, text: str) -> list[str]:
        """The same as `rows_of`."""
        if not text.startswith(self._text):
            self._text, self._rows = "", []
        end = text.rfind("\n") + 1
        if end > len(self._text):
            self._rows += rows_of(text[len(self._text) : end - 1], self.width)
            self._text = text[:end]
        return [*self._rows, *rows_of(text[len(self._text) :], self.width)]
