"""Ctrl-C while nothing runs yet or any more: the process ends at once, with one word and without a traceback."""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130
"""What a shell says of a program that Ctrl-C ended."""


def end_at_interrupt() -> None:
    """From now on; a caller that had the signal ignored keeps that."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_at_interrupt() -> None:
    """From now on it is KeyboardInterrupt again, so that a command can clean up behind itself."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
