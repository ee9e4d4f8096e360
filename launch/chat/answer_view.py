"""One answer on a terminal: its provisional pieces as they come, taken back when they were none; then the answer, once.

Where nothing can be rewritten (a pipe, TERM=dumb) only the answer is written.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from bus.messages.base import Message
from bus.messages.streams import StreamDelta, StreamReset
from bus.streaming import Continuity
from launch.chat.cells import Layout, printable, rows_of
from launch.chat.region import Region

WAITING = "…"
WHY_AGAIN = {
    "retry": "… once more",
    "tools": "… asking its tools",
    "take_over": "… another supervisor takes over",
    "degraded": "… answering with a bare model call",
    "rejected": "… trying again",
    "steered": "… taking up what was said meanwhile",
}
"""What stands in place of what was taken back."""
_CUT = "⋮"
_RESIZED = "(the window became narrower; what stands above is no answer)"


class Terminal(Protocol):
    """Where it is shown."""

    def write(self, text: str) -> None:
        """At once."""
        ...

    def size(self) -> tuple[int, int]:
        """Columns and rows, now."""
        ...

    def dim(self, text: str) -> str:
        """Less than an answer."""
        ...


class AnswerView:
    """What is seen of one answer; `finish` or `abandon` ends it."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._region = Region()
        self._where = Continuity()
        self._text = ""
        self._notice = WAITING
        self._layout = Layout(self._width())
        self._is_over = False

    def begin(self) -> None:
        """Something is on its way."""
        self._draw()

    def on_frame(self, message: Message) -> None:
        """One stream frame; never fails, and never counts."""
        if self._is_over:
            return
        if isinstance(message, StreamReset):
            self._where.forget()
            self._text, self._notice = "", WHY_AGAIN[message.reason]
        elif isinstance(message, StreamDelta):
            place = self._where.place(message)
            self._text = "" if place == "lost" else message.text if place == "anew" else self._text + message.text
            self._notice = WAITING
        with suppress(OSError):  # a terminal that is gone is noticed at the end
            self._draw()

    def finish(self, answer: str) -> None:
        """The answer stands, once, and nothing else of it."""
        self._is_over = True
        self._follow_width()
        rows = rows_of(printable(answer.rstrip("\n")), self._layout.width) if answer.strip() else []
        if len(rows) > self._rows_max():  # longer than what can be rewritten
            self._terminal.write(self._region.show([]) + "\n".join(rows) + "\n")
        else:
            shown = self._region.show(rows)
            self._terminal.write(shown + self._region.keep())

    def abandon(self) -> None:
        """There is no answer (yet); what was shown is taken back."""
        self._is_over = True
        self._follow_width()
        self._terminal.write(self._region.show([]))

    def _draw(self) -> None:
        self._follow_width()
        text = printable(self._text)
        notice = rows_of(self._notice, self._layout.width)[0]
        rows = self._layout.rows(text) if text.strip() else [self._terminal.dim(notice)]
        if len(rows) > self._rows_max():
            rows = [self._terminal.dim(_CUT), *rows[len(rows) - self._rows_max() + 1 :]]
        self._terminal.write(self._region.show(rows))

    def _follow_width(self) -> None:
        """Rows of a window that became narrower are not where they were: they stay, and are said to be nothing."""
        width = self._width()
        if width < self._layout.width and self._region.rows and self._text:
            self._region = Region()
            self._terminal.write(f"\n{self._terminal.dim(_RESIZED)}\n")
        if width != self._layout.width:
            self._layout = Layout(width)

    def _width(self) -> int:
        return self._terminal.size()[0] - 1

    def _rows_max(self) -> int:
        return max(1, self._terminal.size()[1] - 1)


class PlainView:
    """Nothing but the answer."""

    def __init__(self, write: Callable[[str], None], *, is_terminal: bool) -> None:
        self._write = write
        self._is_terminal = is_terminal

    def begin(self) -> None:
        """Nothing is shown."""

    def on_frame(self, message: Message) -> None:
        """Nothing is shown."""

    def finish(self, answer: str) -> None:
        """The answer as it is; on a terminal without what would command it."""
        shown = printable(answer) if self._is_terminal else answer
        if shown:
            self._write(shown if shown.endswith("\n") else f"{shown}\n")

    def abandon(self) -> None:
        """Nothing was shown."""


View = AnswerView | PlainView


class Screen:
    """Standard output, where it is a terminal."""

    def __init__(self, *, is_coloured: bool) -> None:
        self._is_coloured = is_coloured

    def write(self, text: str) -> None:
        """At once, in whatever the terminal's encoding can show."""
        if text and sys.stdout is not None:
            encoding = sys.stdout.encoding or "ascii"
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
            sys.stdout.flush()

    def size(self) -> tuple[int, int]:
        """Columns and rows, now: the window's own, and not what a variable remembers of another one."""
        with suppress(OSError, ValueError, AttributeError):
            columns, rows = os.get_terminal_size(sys.stdout.fileno())
            if columns and rows:
                return columns, rows
        columns, rows = shutil.get_terminal_size()
        return columns, rows

    def dim(self, text: str) -> str:
        """Grey, where there are colours."""
        return f"\x1b[90m{text}\x1b[0m" if self._is_coloured else text
