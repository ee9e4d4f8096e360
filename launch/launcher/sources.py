"""Whether the software on disk is still what it was: looked at before each start, so it must cost little."""

from __future__ import annotations

import os
from collections.abc import Iterator

_stat = os.stat  # a `Path` for each of some six hundred would take longer than the question


class Sources:
    """Every module below a directory, links to directories included.

    They are listed once, and again where the time of a directory says that a name came or went; then a look is one
    question to the system per module.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._listed: list[tuple[str, int]] = []
        """Each directory, and its time before it was listed."""
        self._modules: tuple[str, ...] = ()

    def fingerprint(self) -> int:
        """Another number after any module was changed, added or removed; a number of this process alone."""
        try:
            if not self._listed or any(_stat(path).st_mtime_ns != at for path, at in self._listed):
                self._list()
            states = tuple([(state.st_mtime_ns, state.st_size) for state in map(_stat, self._modules)])
        except OSError:  # one went while it was looked at
            self._listed = []
            return 0
        return hash((self._modules, states))

    def _list(self) -> None:
        self._listed = []
        self._modules = tuple(sorted(self._below(self._root)))

    def _below(self, directory: str) -> Iterator[str]:
        self._listed.append((directory, _stat(directory).st_mtime_ns))
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir():
                    yield from self._below(entry.path)
                elif entry.name.endswith(".py"):
                    yield entry.path
