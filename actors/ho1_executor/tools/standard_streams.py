"""The standard streams of a tool process: output and error are one pipe, which its worker reads (`print_pipe`).

Standard library alone.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress

_INPUT, _OUTPUT, _ERROR = 0, 1, 2
_Identity = tuple[int, int] | None


class StandardStreams:
    """Each call finds the streams as the first one did."""

    def __init__(self, *others: int) -> None:
        """Open the streams. `others`: descriptors that the next call needs beside the standard ones."""
        self._needed = (_INPUT, _OUTPUT, _ERROR, *others)
        self._were = [find_identity(descriptor) for descriptor in self._needed]
        self._out, self._err = _printed(_OUTPUT), _printed(_ERROR)

    def begin(self) -> None:
        """Give what runs next its streams, whatever the last call made of them."""
        os.set_blocking(_OUTPUT, True)
        if not (_is_open(self._out) and _is_open(self._err)):
            self._out, self._err = _printed(_OUTPUT), _printed(_ERROR)
        empty = io.TextIOWrapper(io.BufferedReader(io.FileIO(_INPUT, closefd=False)), encoding="utf-8")
        sys.stdin = sys.__stdin__ = empty  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = self._out  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self._err  # type: ignore[misc]

    def flush(self) -> None:
        """Flush what was printed before the result is told, whatever the tool made of these streams."""
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None), self._out, self._err):
            with suppress(BaseException):
                stream.flush()  # type: ignore[union-attr] - whatever it is

    @property
    def are_whole(self) -> bool:
        """Return whether another call may follow: no descriptor was closed or replaced, and some are left."""
        try:
            os.close(os.dup(_OUTPUT))
        except OSError:
            return False
        return self._were == [find_identity(descriptor) for descriptor in self._needed]


def _printed(descriptor: int) -> io.TextIOWrapper:
    """Return a stream that writes line by line, so that what was printed before a kill is there."""
    raw = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def find_identity(descriptor: int) -> _Identity:
    """Return which open file a descriptor is; None where it is none."""
    try:
        state = os.fstat(descriptor)
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _is_open(stream: io.TextIOWrapper) -> bool:
    try:
        return not stream.closed
    except ValueError:  # detached from its descriptor
        return False
