"""A terminal as small as the chat needs it: rows that scroll away, a cursor, and the few commands that it writes."""

from __future__ import annotations

import re
import unicodedata

_COMMAND = re.compile(r"\x1b\[(\d*)([A-Za-z])")


class Terminal:
    """`launch.chat.answer_view.Terminal`, and what a person would see of it."""

    def __init__(self, columns: int = 20, rows: int = 6, *, breaks_rows: bool = False) -> None:
        self.columns, self.height, self._breaks_rows = columns, rows, breaks_rows
        self.lines: list[str] = [""]  # everything ever scrolled, and the screen at its end
        self.row, self.column = 0, 0  # row counts from the first line ever
        self.written = ""

    def size(self) -> tuple[int, int]:
        return self.columns, self.height

    def dim(self, text: str) -> str:
        return f"\x1b[90m{text}\x1b[0m"

    def coloured(self, text: str, colour: str) -> str:
        return self.dim(text) if colour else text

    def write(self, text: str) -> None:
        self.written += text
        at = 0
        while at < len(text):
            command = _COMMAND.match(text, at)
            if command is not None:
                self._command(int(command.group(1) or 1), command.group(2), command.group(1))
                at = command.end()
                continue
            self._put(text[at])
            at += 1

    def _command(self, count: int, letter: str, given: str) -> None:
        if letter == "A":
            top = max(0, len(self.lines) - self.height)
            assert self.row - count >= top, "the cursor was sent above the screen"
            self.row -= count
        elif letter == "J":
            assert given in ("", "0")
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
        else:
            assert letter == "m", f"no command of this terminal: {letter}"

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row, self.column = self.row + 1, 0
            if self.row == len(self.lines):
                self.lines.append("")
        else:
            assert character.isprintable() or unicodedata.category(character) == "Cf", repr(character)
            if self._breaks_rows and _cells(self.lines[self.row][: self.column] + character) > self.columns:
                self._put("\r")
                self._put("\n")
            line = self.lines[self.row]
            assert len(line) >= self.column
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1
            assert _cells(self.lines[self.row][: self.column]) <= self.columns, "a row broke by itself"

    @property
    def seen(self) -> list[str]:
        """All lines, without what trails."""
        lines = [line.rstrip() for line in self.lines]
        while lines and not lines[-1]:
            lines.pop()
        return lines


def _cells(text: str) -> int:
    return sum(
        0 if unicodedata.category(one) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )
