"""Lines that a person types: edited by readline, remembered in the home, and not echoed into an answer."""

from __future__ import annotations

import importlib
import os
import sys
import termios
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

_PRIVATE = 0o600


class Typed:
    """Standard input of a terminal."""

    def __init__(self, history: Path, *, lines_max: int, prompt: str) -> None:
        self._history = history
        self._prompt = prompt
        self._readline = _readline() if lines_max else None
        if self._readline is not None:
            self._readline.set_history_length(lines_max)
            with suppress(OSError):
                self._readline.read_history_file(str(history))

    def read(self) -> str:
        """The next line. Raises EOFError at Ctrl-D, KeyboardInterrupt at Ctrl-C."""
        line = input(self._prompt)
        if line.strip() and self._readline is not None:
            with suppress(OSError):  # what cannot be remembered is still said
                os.close(os.open(self._history, os.O_CREAT | os.O_WRONLY, _PRIVATE))
                self._readline.write_history_file(str(self._history))
        return line


def _readline() -> ModuleType | None:
    """Line editing, where this Python has it; importing it is what gives it to `input`."""
    try:
        return importlib.import_module("readline")
    except ImportError:
        return None


@contextmanager
def unechoed() -> Generator[None]:
    """What is typed meanwhile does not appear among what is shown; it is read as the next line."""
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        quiet = [*before]
        quiet[3] = before[3] & ~termios.ECHO
        termios.tcsetattr(descriptor, termios.TCSANOW, quiet)
    except (termios.error, OSError, ValueError):
        yield
        return
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
