"""Whether the software on disk is still the one that a process loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hobus


def of_sources() -> int:
    """Another number after any module of the project was changed, added or removed."""
    return hash(tuple(sorted(_modules(str(Path(hobus.__file__).parent)))))


def _modules(directory: str) -> Iterator[tuple[str, int, int]]:
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            yield from _modules(entry.path)
        elif entry.name.endswith(".py"):
            state = entry.stat(follow_symlinks=False)
            yield (entry.path, state.st_mtime_ns, state.st_size)
