"""One answer on a terminal: its provisional pieces as they come, taken back when they were none; then the answer, once.

Where nothing can be rewritten (a pipe, TERM=dumb) only the answer is written.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from hobus.bus.messages.base import Message
from hobus.bus.messages.streams import StreamDelta, StreamReset, StreamWaiting
from hobus.bus.streaming import Continuity
from hobus.launch.cli.chat.cells import Layout, cells_of, printable, rows_of
from hobus.launch.cli.chat.region import Region
from hobus.launch.console.output import note, styled

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
STANDS_STILL = {
    "Paused": "… paused",
    "WaitingInput": "… waits for an approval",
}
"""What stands there while nothing is written."""
_CUT = "⋮"
_TYPED = "you> "
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

    def coloured(self, text: str, colour: str) -> str:
        """In this colour, where there are colours."""
        ...


class AnswerView:
    """What is seen of one answer; `finish` or `abandon` ends it."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._region = Region()
        self._where = Continuity()
        self._text = ""
        self._notice = WAITING
        self._typed = ""
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
        elif isinstance(message, StreamWaiting):
            self._notice = WAITING if message.waiting is None else STANDS_STILL[message.waiting]
        with suppress(OSError):  # a terminal that is gone is noticed at the end
            self._draw()

    def show_typed(self, text: str) -> None:
        """The line that somebody types meanwhile; below everything else, and nothing of it stays."""
        self._typed = text
        if not self._is_over:
            self._draw()

    def tell(self, lines: Sequence[tuple[str, str]]) -> None:
        """These lines (text and colour) stand for good, above what is provisional."""
        if self._is_over or not lines:
            return
        self._follow_width()
        for text, colour in lines:
            rows = [self._terminal.coloured(row, colour) for row in rows_of(printable(text), self._layout.width)]
            self._terminal.write(self._region.show([]) + "\n".join(rows) + "\n")
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
        typed = (
            [self._end_of(printable(_TYPED + self._typed).replace("\n", " "))]
            if self._typed and self._rows_max() > 1
            else []
        )
        room = self._rows_max() - len(typed)
        if len(rows) > room:
            rows = [self._terminal.dim(_CUT), *rows[len(rows) - room + 1 :]]
        self._terminal.write(self._region.show([*rows, *typed]))

    def _end_of(self, line: str) -> str:
        """As much of the end of a line as one row shows."""
        while cells_of(line) > max(2, self._layout.width):
            line = line[1:]
        return line

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

    def show_typed(self, text: str) -> None:
        """Nothing is shown."""

    def tell(self, lines: Sequence[tuple[str, str]]) -> None:
        """Beside the answer: on a terminal where it will stand, else on standard error."""
        for text, colour in lines:
            if self._is_terminal:
                self._write(f"{styled(printable(text), colour or None)}\n")
            else:
                note(styled(printable(text), colour or None, to_stderr=True))

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
        return self.coloured(text, "bright_black")

    def coloured(self, text: str, colour: str) -> str:
        """In this colour, where there are colours."""
        return styled(text, colour or None) if self._is_coloured else text
