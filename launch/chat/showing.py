"""Which view a standard output gets: a terminal that can be rewritten shows what is provisional, nothing else does."""

from __future__ import annotations

import os
import sys

from launch.chat.answer_view import AnswerView, PlainView, Screen, View
from launch.output import colours

_CANNOT_REWRITE = ("", "dumb", "unknown")


def streams_to_stdout() -> bool:
    """Whether standard output is a terminal whose last rows can be rewritten."""
    return is_terminal(sys.stdout) and os.environ.get("TERM", "") not in _CANNOT_REWRITE


def is_terminal(stream: object) -> bool:
    """Whether a standard stream is there and a terminal; a closed one is neither."""
    try:
        return bool(stream is not None and stream.isatty())  # type: ignore[attr-defined]
    except ValueError:
        return False


def view_on_stdout(*, is_live: bool) -> View:
    """A view of one answer."""
    screen = Screen(is_coloured=is_live and colours())
    return AnswerView(screen) if is_live else PlainView(screen.write, is_terminal=is_terminal(sys.stdout))
