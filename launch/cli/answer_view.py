"""One answer on a terminal: its provisional pieces as they come, taken back when they were none; then the answer, once.

Where nothing can be rewritten (a pipe, TERM=dumb) only the answer is written.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from hobus.bus.messages.base import Message
from hobus.bus.messages.session import TurnResult
from hobus.bus.messages.streams import StreamDelta, StreamReset, StreamWaiting
from hobus.bus.streaming import Continuity
from hobus.launch.cli.outcome import Line
from hobus.launch.console.output import (
    can_be_commanded,
    colours,
    is_terminal,
    join_styled,
    make_harmless,
    measure_window,
    note,
    say,
    style,
)

WAITING = "…"
WHY_AGAIN = {
    "retry": "… once more",
    "tools": "… asking its tools",
    "take_over": "… another supervisor takes over",
    "degraded": "… answering with a bare model call",
    "rejected": "… trying again",
    "thought": "… that was only thinking",
    "steered": "… taking up what was said meanwhile",
}
"""What stands in place of what was taken back."""
STANDS_STILL = {
    "Paused": "… paused",
    "WaitingInput": "… waits for an approval",
    "Turn": "… waits for its turn: the cluster is busy",
    "Labels": "… waits until the message before is classified",
    "Provider": "… the model's provider is away, or takes no more for now: waits for it",
}
"""What stands there while nothing is written."""
RESIZED: Line = ("(the window became narrower; the lines above may be garbled)", "bright_black")


class Provisional:
    """What is seen of an answer that is not whole: `text` as far as it came, else `notice`, why there is none. Pure."""

    def __init__(self) -> None:
        self._where = Continuity()
        self._columns = 0
        self.text = ""
        self.notice = WAITING

    def take(self, message: Message) -> None:
        """Take one stream frame; never fails, and never counts."""
        if isinstance(message, StreamReset):
            self._where.forget()
            self.text, self.notice = "", WHY_AGAIN[message.reason]
        elif isinstance(message, StreamDelta):
            place = self._where.place(message)
            self.text = "" if place == "lost" else message.text if place == "anew" else self.text + message.text
            self.notice = WAITING
        elif isinstance(message, StreamWaiting):
            self.notice = WAITING if message.waiting is None else STANDS_STILL[message.waiting]

    def is_wider_than(self, columns: int) -> bool:
        """Return whether shown rows are no longer where they were, in a window that became so narrow."""
        return columns < self._columns and bool(self.text.strip())

    def rows(self, columns: int, rows_max: int) -> tuple[list[str], bool]:
        """Return the last rows, none wider than `columns` cells; and whether they are of the answer."""
        self._columns, text = columns, make_harmless(self.text)
        # By name: whoever writes into a pipe needs none of it.
        terminal = importlib.import_module("hobus.launch.console.terminal")
        shown: list[str] = terminal.cut_last_rows(text if text.strip() else self.notice, columns, max(1, rows_max))
        return shown, bool(text.strip())


class AnswerView(Protocol):
    """Where one answer is seen; `finish` or `abandon` ends it."""

    def begin(self) -> None: ...

    def on_frame(self, message: Message) -> None: ...

    def tell(self, lines: Sequence[Line]) -> None: ...

    def finish(self, answer: str) -> None: ...

    def abandon(self) -> None:
        """Take back what was shown: there is no answer (yet)."""
        ...


class PlainView:
    """Show nothing but the answer."""

    def __init__(self, write: Callable[[str], None], *, is_terminal: bool) -> None:
        self._write = write
        self._is_terminal = is_terminal

    def begin(self) -> None:
        """Show nothing."""

    def on_frame(self, message: Message) -> None:
        """Show nothing."""

    def tell(self, lines: Sequence[Line]) -> None:
        """Print beside the answer: on a terminal where it will stand, else on standard error."""
        for text, colour in lines:
            if self._is_terminal:
                self._write(join_styled(style(make_harmless(text), colour or None), "\n"))
            else:
                note(style(make_harmless(text), colour or None, to_stderr=True))

    def finish(self, answer: str) -> None:
        """Print the answer as it is; on a terminal without what would command it, coloured as Markdown."""
        if self._is_terminal and colours():
            say_answer(answer)
            return
        shown = make_harmless(answer) if self._is_terminal else answer
        if shown:
            self._write(shown if shown.endswith("\n") else f"{shown}\n")

    def abandon(self) -> None:
        """Do nothing: nothing was shown."""


def streams_to_stdout() -> bool:
    """Return whether standard output is a terminal whose last rows can be rewritten."""
    return is_terminal(sys.stdout) and can_be_commanded()


def make_view(*, is_live: bool) -> AnswerView:
    if not is_live:
        return PlainView(_write, is_terminal=is_terminal(sys.stdout))
    view: AnswerView = importlib.import_module("hobus.launch.cli.chat.live_view").LiveView()  # by name, as below
    return view


def show_end(view: AnswerView, result: TurnResult) -> None:
    """Show the answer; the sentence of an error is no answer, and is told elsewhere."""
    if result.outcome == "error":
        view.abandon()
    else:
        view.finish(result.response)


def say_answer(answer: str) -> None:
    """Print a whole answer on a terminal, as Markdown where colours are shown; nothing for one without words."""
    if not answer.strip():
        return
    if not colours():
        say_rows(answer.rstrip("\n"), None)
        return
    # By name: it takes a tenth of a second, and not every answer is one that a person looks at.
    markdown = importlib.import_module("hobus.launch.cli.chat.markdown")
    for line in markdown.render_markdown(make_harmless(answer), columns=measure_window()[0] - 1):
        say(line)


def say_rows(text: str, colour: str | None) -> None:
    """Print a text for good, broken at spaces where the terminal's rows end."""
    for row in importlib.import_module("hobus.launch.console.terminal").fold(
        make_harmless(text), measure_window()[0] - 1
    ):
        say(style(row, colour))


def _write(text: str) -> None:
    """Write at once, in whatever standard output's encoding can show."""
    if text and sys.stdout is not None:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
