"""One answer in the last rows of a terminal, by rich. Imported only where somebody looks at one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from rich.live import Live
from rich.text import Text

from hobus.bus.messages.base import Message
from hobus.launch.cli.answer_view import RESIZED, Provisional, say_answer
from hobus.launch.cli.outcome import Line
from hobus.launch.console.output import make_harmless, measure_window
from hobus.launch.console.terminal import make_screen


class LiveView:
    """Show an answer in the last rows of a terminal, rewritten in place."""

    def __init__(self) -> None:
        self._provisional = Provisional()
        self._console = make_screen()
        self._live = self._start_in_place()

    def begin(self) -> None:
        self._live.start(refresh=True)

    def on_frame(self, message: Message) -> None:
        """Redraw; a terminal that is gone is noticed at the end."""
        self._provisional.take(message)
        if self._live.is_started:
            with suppress(OSError):
                if self._provisional.is_wider_than(measure_window()[0] - 1):
                    self._live.transient = False
                    self._live.stop()
                    self._live = self._start_in_place()
                    self.begin()
                    self.tell([RESIZED])
                self._live.refresh()

    def tell(self, lines: Sequence[Line]) -> None:
        if self._live.is_started:
            for text, colour in lines:
                self._console.print(Text(make_harmless(text), style=colour))

    def finish(self, answer: str) -> None:
        self.abandon()
        say_answer(answer)

    def abandon(self) -> None:
        self._live.stop()

    def _start_in_place(self) -> Live:
        return Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False,
            get_renderable=self._render,
        )  # fmt: skip

    def _render(self) -> Text:
        columns, rows = measure_window()
        self._console.size = self._console.size._replace(width=columns, height=rows)
        shown, is_answer = self._provisional.rows(columns - 1, rows - 1)
        return Text("\n".join(shown), style="" if is_answer else "bright_black", no_wrap=True)
