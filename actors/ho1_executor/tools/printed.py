"""What a process writes to its standard output and error: one pipe, which its worker reads, kept within a bound.

It is for people: it goes to the log and the record. Frames have a socket of their own, which no print can reach.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

_PIPE_BYTES = 1 << 16
"""What a pipe of Linux holds: one read of so much leaves nothing in it."""
_LEFT_OUT = "\n[… {} bytes left out …]\n"
_LEFT_OUT_BYTES = 40


class BothEnds:
    """The beginning and the end of what comes piece by piece, `max_bytes` of UTF-8 with the mark between them."""

    def __init__(self, max_bytes: int) -> None:
        self._half = max(0, max_bytes - _LEFT_OUT_BYTES) // 2
        self._begin = bytearray()
        self._end = bytearray()
        self._left_out = 0

    def add(self, piece: bytes) -> None:
        """What comes next."""
        room = self._half - len(self._begin)
        self._begin += piece[:room]
        self._end += piece[room:]
        over = max(0, len(self._end) - self._half)
        del self._end[:over]
        self._left_out += over

    def text(self) -> str:
        """All of it, or both ends with a line between them that counts what is missing."""
        if not self._left_out:
            return (self._begin + self._end).decode("utf-8", "replace")
        ends = (part.decode("utf-8", "ignore") for part in (self._begin, self._end))
        return _LEFT_OUT.format(self._left_out).join(ends)


def both_ends(text: str, max_bytes: int) -> str:
    """The text, without its middle where it is longer; what is no Unicode stands as an escape."""
    kept = BothEnds(max_bytes)
    kept.add(text.encode("utf-8", "backslashreplace"))
    return kept.text()


class PrintPipe:
    """The pipe of one process. Read from `watch` on, so that a process that prints much never waits for its worker."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: kept of what comes between two questions."""
        self._max_bytes = max_bytes
        self._kept = BothEnds(max_bytes)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)

    def started(self) -> None:
        """The process has its end: this one holds it no more."""
        os.close(self.write_end)

    def watch(self) -> None:
        """On the running loop."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._read_end, self._read)

    def taken(self) -> str:
        """What has come since it was last asked, up to this moment."""
        self._read()
        text, self._kept = self._kept.text(), BothEnds(self._max_bytes)
        return text

    def close(self) -> None:
        """What is still in it is lost."""
        self._unwatch()
        with suppress(OSError):
            os.close(self._read_end)

    def _read(self) -> None:
        try:
            piece = os.read(self._read_end, _PIPE_BYTES)
        except BlockingIOError:
            return
        self._kept.add(piece)
        if not piece:  # everybody who could write is gone
            self._unwatch()

    def _unwatch(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._read_end)
