"""Lines that a person types: edited by readline, remembered in the home, and not echoed into an answer."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import termios
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType

from hobus.launch.console.output import can_be_commanded

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

    def read(self, begun: str = "") -> str:
        """The next line, which begins with what was typed already.

        Raises EOFError at Ctrl-D, KeyboardInterrupt at Ctrl-C.
        """
        with _woken():
            line = self._edited(begun) if begun else input(self._prompt)
        if line.strip() and self._readline is not None:
            with suppress(OSError):  # what cannot be remembered is still said
                os.close(os.open(self._history, os.O_CREAT | os.O_WRONLY, _PRIVATE))
                self._readline.write_history_file(str(self._history))
        return line

    def _edited(self, begun: str) -> str:
        if self._readline is None:
            return begun + input(self._prompt + begun)
        insert = self._readline.insert_text
        self._readline.set_startup_hook(lambda: insert(begun))
        try:
            return input(self._prompt)
        finally:
            self._readline.set_startup_hook()


def _readline() -> ModuleType | None:
    """Line editing, where this Python has it; importing it is what gives it to `input`."""
    try:
        return importlib.import_module("readline")
    except ImportError:
        return None


_WAKE_EVERY_S = 0.2


@contextmanager
def _woken() -> Generator[None]:
    """A signal is seen soon, whenever it comes.

    Python's handlers run between instructions, and waiting for a key is one of them: a signal that comes in the moment
    before that wait begins would be seen only at the next key. A timer ends the wait now and then; it is resumed.
    """
    before = signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    signal.setitimer(signal.ITIMER_REAL, _WAKE_EVERY_S, _WAKE_EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_NO_PASTE_MARKS = b"\x1b[?2004l"


@contextmanager
def restored() -> Generator[None]:
    """However this ends, by a signal too, the terminal is as it was before; the signal then ends the process."""
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (termios.error, OSError, ValueError):
        yield
        return

    def restore() -> None:
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)

    def end(number: int, _frame: FrameType | None) -> None:
        restore()
        with suppress(OSError):
            if can_be_commanded():  # line editing asks a terminal to mark what is pasted
                os.write(1, _NO_PASTE_MARKS)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    was = {one: signal.signal(one, end) for one in _ENDS if signal.getsignal(one) is not signal.SIG_IGN}
    try:
        yield
    finally:
        restore()
        for one, handler in was.items():
            signal.signal(one, handler)


@contextmanager
def unechoed(*, by_key: bool = False) -> Generator[None]:
    """What is typed meanwhile does not appear among what is shown; it can be read, line by line or by single keys."""
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        quiet = [*before]
        quiet[3] = before[3] & ~(termios.ECHO | termios.ICANON if by_key else termios.ECHO)
        termios.tcsetattr(descriptor, termios.TCSANOW, quiet)
    except (termios.error, OSError, ValueError):
        yield
        return
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
