"""Which view a standard output gets: a terminal that can be rewritten shows what is provisional, nothing else does."""

from __future__ import annotations

import sys

from hobus.bus.messages.session import TurnResult
from hobus.launch.cli.chat.answer_view import AnswerView, PlainView, Screen, View
from hobus.launch.console.output import can_be_commanded, colours, is_terminal


def streams_to_stdout() -> bool:
    """Whether standard output is a terminal whose last rows can be rewritten."""
    return is_terminal(sys.stdout) and can_be_commanded()


def view_on_stdout(*, is_live: bool) -> View:
    """A view of one answer."""
    screen = Screen(is_coloured=is_live and colours())
    return AnswerView(screen) if is_live else PlainView(screen.write, is_terminal=is_terminal(sys.stdout))


def show_end(view: View, result: TurnResult) -> None:
    """The answer stands; the sentence of an error is no answer, and is told elsewhere."""
    if result.outcome == "error":
        view.abandon()
    else:
        view.finish(result.response)
