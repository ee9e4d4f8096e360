"""Lines of a pipe or a file: one line, one message; never more of one than a message may have."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

_READ_AT_ONCE = 1 << 16


class PipedLines:
    """What was read of a pipe and not taken yet. `read` gives some bytes, at most so many; none at the end."""

    def __init__(self, read: Callable[[int], bytes], max_bytes: int) -> None:
        self._read = read
        self._max_bytes = max_bytes
        self._lines: deque[str | None] = deque()
        self._begun = b""  # a line without its end
        self._is_skipping = False  # the rest of a line that was too long
        self.is_over = False

    def __iter__(self) -> Iterator[str | None]:
        """Each line that is not blank, without its end; None for one that is too long, which is skipped."""
        while True:
            while not self._lines and not self.is_over:
                self.read_more()
            if not self._lines:
                return
            yield self._lines.popleft()

    @property
    def ahead(self) -> list[str | None]:
        return list(self._lines)

    def take(self) -> str | None:
        return self._lines.popleft()

    def read_more(self) -> None:
        data = self._read(_READ_AT_ONCE)
        if not data:
            self.is_over = True
            self._end_line()
        first, *others = data.split(b"\n")
        self._begun += first
        for other in others:
            self._end_line()
            self._begun = other
        if self._is_skipping:
            self._begun = b""
        elif len(self._begun) > self._max_bytes + 1:
            self._lines.append(None)
            self._begun, self._is_skipping = b"", True

    def _end_line(self) -> None:
        raw, self._begun = self._begun.rstrip(b"\r"), b""
        if self._is_skipping:
            self._is_skipping = False
        elif len(raw) > self._max_bytes:
            self._lines.append(None)
        elif raw.strip():
            self._lines.append(raw.decode("utf-8", "surrogateescape"))


async def readable(descriptor: int) -> None:
    """There is something to read, or the end; of a file always."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except OSError:  # a file, which no loop can watch
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
