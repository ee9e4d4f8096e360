"""What a tool process prints, for people: a pipe that its worker reads, and what is kept of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

_PIPE_BYTES = 1 << 16
"""What a pipe of Linux holds: one read of so much leaves nothing in it."""


_LEFT_OUT = "\n[… {} bytes left out …]\n"
_LEFT_OUT_BYTES = 40


class BothEnds:
    """Keep the beginning and the end of what comes piece by piece, `max_bytes` of UTF-8 with the mark between them."""

    def __init__(self, max_bytes: int) -> None:
        self._half = max(0, max_bytes - _LEFT_OUT_BYTES) // 2
        self._begin = bytearray()
        self._end = bytearray()
        self._left_out = 0

    def add(self, piece: bytes) -> None:
        room = self._half - len(self._begin)
        self._begin += piece[:room]
        self._end += piece[room:]
        over = max(0, len(self._end) - self._half)
        del self._end[:over]
        self._left_out += over

    def text(self) -> str:
        """Return all of it, or both ends with a line between them that counts what is missing."""
        if not self._left_out:
            return (self._begin + self._end).decode("utf-8", "replace")
        ends = (part.decode("utf-8", "ignore") for part in (self._begin, self._end))
        return _LEFT_OUT.format(self._left_out).join(ends)


def cut_middle(text: str, max_bytes: int) -> str:
    """Return the text, without its middle where it is longer; what is no Unicode stands as an escape."""
    kept = BothEnds(max_bytes)
    kept.add(text.encode("utf-8", "backslashreplace"))
    return kept.text()


class PrintCaller(NamedTuple):
    """Whose words are printed: the tool, and the order of its call; empty while the tool is described."""

    tool_id: str
    wo_id: str


def read_caller(fields: Mapping[str, Any]) -> PrintCaller:
    return PrintCaller(fields["tool_id"], fields.get("context", {}).get("wo_id", ""))


class PrintPipe:
    """Read what one process prints as it comes, so that a process that prints much never waits for its worker."""

    def __init__(self, max_bytes: int) -> None:
        """Open the pipe on the running loop. `max_bytes`: kept of what comes between two questions."""
        self._max_bytes = max_bytes
        self._kept = BothEnds(max_bytes)
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._read_end, self._read)
        self._is_open = True

    def taken(self) -> str:
        """Return what has come since the last call, up to this moment."""
        self._read()
        text, self._kept = self._kept.text(), BothEnds(self._max_bytes)
        return text

    def close(self) -> None:
        """Close the pipe; what is still in it is lost. Idempotent."""
        if self._is_open:
            self._is_open = False
            if not self._loop.is_closed():
                self._loop.remove_reader(self._read_end)
            os.close(self._read_end)

    def _read(self) -> None:
        with suppress(BlockingIOError):
            if self._is_open and (piece := os.read(self._read_end, _PIPE_BYTES)):
                self._kept.add(piece)
            else:
                self.close()
