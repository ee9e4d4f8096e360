"""Where lines go: stdout. A reader that reads nothing must not keep Ctrl-C from ending the tap.

A descriptor that polls as writable takes a small piece without blocking (a pipe: PIPE_BUF bytes), so the only place
where this process waits for the reader is the poll; a signal ends that wait, and how much went out is always known.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from hobus.launch.console.output import say

_GRACE_MS = 200
"""For a reader that is there, once the user has ended the tap: so that a line is not cut that need not be."""


class _Told(Exception):
    """The user ended the tap while it waited for its reader."""


class Sink:
    """Writes whole lines and says how many went out; after the user's end it waits for nobody."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Onto stdout, unless another one is given."""
        self.failure: OSError | None = None
        """Why nothing more can be written."""
        self._is_told = self._is_waiting = self._is_given_up = False
        self._poll = select.poll()
        try:
            self._stream = sys.stdout if stream is None else stream
            self._descriptor = self._stream.fileno()
        except (io.UnsupportedOperation, ValueError, AttributeError):
            self._descriptor = -1  # no file: a program that calls this one took stdout over
        else:
            self._stream.flush()
            self._poll.register(self._descriptor, select.POLLOUT)

    def told(self) -> None:
        """The user ended the tap; called from a signal handler, also in the middle of a wait."""
        self._is_told = True
        if self._is_waiting:
            raise _Told

    def write(self, lines: Sequence[str]) -> int:
        """How many of them went out whole; with fewer than all either `failure` is set or the user ended it."""
        if self._descriptor < 0:
            for line in lines:
                say(line)
            return len(lines)
        pieces = [f"{line}\n".encode(errors="replace") for line in lines]
        written = self._written(memoryview(b"".join(pieces)))
        for number, piece in enumerate(pieces):
            written -= len(piece)
            if written < 0:
                return number
        return len(pieces)

    def _written(self, data: memoryview) -> int:
        """How many bytes went out."""
        at = 0
        while at < len(data) and not self._is_given_up and self.failure is None:
            if not self._is_writable():
                self._is_given_up = True
                break
            try:
                with suppress(BlockingIOError):
                    at += os.write(self._descriptor, data[at : at + select.PIPE_BUF])
            except OSError as error:
                self.failure = error
        return at

    def _is_writable(self) -> bool:
        """Waits for the reader as long as it takes; after the user's end for a moment."""
        with suppress(_Told):
            self._is_waiting = True  # before the look at `_is_told`: a signal in between ends the wait all the same
            try:
                if not self._is_told:
                    self._poll.poll()
                    return True
            finally:
                self._is_waiting = False
        return bool(self._poll.poll(_GRACE_MS))
