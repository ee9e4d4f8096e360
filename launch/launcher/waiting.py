"""What somebody who waits for a start is told of a process that takes longer: how far it is."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from hobus.launch.console.output import can_be_commanded, is_terminal, note

_SAY_EVERY_S = 5
"""What is read by no person who looks at it is told no more often."""


class WaitingLine:
    """A line on standard error: on a terminal written anew where it stands, elsewhere one now and then."""

    def __init__(self) -> None:
        self._line: Any = None
        self._said_at = 0.0

    def show(self, text: str, at: float) -> None:
        """It is this now; `at`: seconds since 1970."""
        if is_terminal(sys.stderr) and can_be_commanded():
            # By name: few starts take so long.
            self._line = self._line or importlib.import_module("hobus.launch.console.terminal").OneLine()
            self._line.show(text)
        elif at - self._said_at >= _SAY_EVERY_S:
            self._said_at = at
            note(text)

    def hide(self) -> None:
        """Something else is said now."""
        if self._line is not None:
            self._line.hide()
