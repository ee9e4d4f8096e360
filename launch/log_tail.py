"""The end of a log file, for whoever has to be told why a process is not ready."""

from __future__ import annotations

import os
from pathlib import Path

_BYTES_PER_LINE = 400
"""Read per line that is asked for: a line of JSON with a sentence in it."""


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a log; empty when there is none."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - _BYTES_PER_LINE * lines))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return text.splitlines()[-lines:]
