"""In which state this software lies on disk: a version names many, where it is worked on or installed once more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

State = tuple[tuple[str, int, int], ...]
"""Every module with its time and size, as Python knows a changed one; of none where one went meanwhile."""
ROOT = str(Path(__file__).parents[2])
"""Where `hobus` was imported from."""


def state_of(root: str = ROOT) -> State:
    """Another one after any module below this directory was changed, added or removed. Takes some milliseconds."""
    try:
        return tuple(sorted(_modules(root)))
    except OSError:  # one went while it was looked at
        return ()


def _modules(directory: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _modules(entry.path)
            elif entry.name.endswith(".py"):
                found = entry.stat()
                yield entry.path, found.st_mtime_ns, found.st_size
