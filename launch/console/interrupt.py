"""Ctrl-C while nothing runs yet or any more: the process ends at once, with one word and without a traceback."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType

INTERRUPTED = 130
"""What a shell says of a program that Ctrl-C ended."""


def end_at_interrupt() -> None:
    """End at Ctrl-C from now on; a caller that had the signal ignored keeps that."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_at_interrupt() -> None:
    """Raise KeyboardInterrupt at Ctrl-C again from now on, so that a command can clean up behind itself."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt_at(told: list[int]) -> None:
    """Let SIGTERM and SIGHUP interrupt this process as Ctrl-C does from now on; each is added to `told`.

    A caller that had one of them ignored keeps that. Ctrl-C itself stays as it is: asyncio's runner, which cancels in
    an orderly way, takes it over only from Python's own handler; meanwhile the others go there too.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        told.append(number)
        now = signal.getsignal(signal.SIGINT)
        if callable(now):
            now(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)


def keep_on() -> None:
    """Let none of them interrupt from now on: what is left is cleaning up, and that takes a bounded time."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether Ctrl-C is behind an error, also where a library or a task group made something else of it."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()  # what was raised anew while it was handled is its own context's
    while waiting:
        one = waiting.pop()
        if isinstance(one, KeyboardInterrupt) or (
            type(one).__name__ == "SchemaError" and "KeyboardInterrupt" in str(one)
        ):
            return True  # pydantic, while it builds a model, keeps of it the name alone
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            waiting += [
                *(one.exceptions if isinstance(one, BaseExceptionGroup) else ()),
                one.__cause__,
                one.__context__,
            ]
    return False


def _end(_number: int, _frame: FrameType | None) -> None:
    with suppress(OSError):  # `2>&1 | head -1`: nobody reads it any more
        os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
