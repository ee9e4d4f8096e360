"""Lines of a pipe or a file: one line, one message; never more of one than a message may have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

_SKIPPED_AT_ONCE = 1 << 16


def lines_of(stream: BinaryIO, max_bytes: int) -> Iterator[str | None]:
    """Each line that is not blank, without its end; None for one beyond `max_bytes`, which is skipped."""
    while raw := stream.readline(max_bytes + 2):
        if not raw.endswith(b"\n") and len(raw) > max_bytes + 1:
            while (rest := stream.readline(_SKIPPED_AT_ONCE)) and not rest.endswith(b"\n"):
                pass
            yield None
            continue
        text = raw.rstrip(b"\r\n")
        if len(text) > max_bytes:
            yield None
        elif text.strip():
            yield text.decode("utf-8", "surrogateescape")
