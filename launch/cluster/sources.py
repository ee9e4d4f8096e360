"""In which state this software lies on disk: a version names many, where it is worked on or installed once more."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hobus.launch.cluster.watch import Watch

State = tuple[tuple[str, ...], tuple[tuple[int, int], ...]]
"""Every module, and time and size of each, as Python knows a changed one; of none where one went meanwhile."""
ROOT = str(Path(__file__).parents[2])
"""Where `hobus` was imported from."""
_NONE: State = ((), ())
_stat = os.stat  # a `Path` for each of some six hundred would take longer than the question


class Sources:
    """Every module below a directory, links to directories included.

    They are listed once, and again where the time of a directory says that a name came or went; then a look, before
    each start of a process, is one question to the system per module; two in all, where it tells of changes: of those
    to a directory above this one it tells nothing.
    """

    def __init__(self, root: str, *, is_watched: bool = False) -> None:
        """`is_watched`: it is looked at often, and closed at the end."""
        self._root = root
        self._is_watched = is_watched
        self._watch: Watch | None = None
        self._seen: State = _NONE
        """The last state; the present one for as long as the watch has not spoken."""
        self._place = (0, 0)
        """Device and number of the directory that is watched: another one under this path says nothing to the watch."""
        self._listed: list[tuple[str, int]] = []
        """Each directory, and its time before it was listed."""
        self._modules: tuple[str, ...] = ()
        self._has_links = False
        """A module is a link to a file in a directory that is none of these."""

    def state(self) -> State:
        """Another one after any module was changed, added or removed."""
        if self._watch is None or self._watch.has_spoken() or self._has_moved():
            self.close()
            self._seen = self._looked()
        return self._seen

    def close(self) -> None:
        """Nothing is watched until the next look, which asks for each module again."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _has_moved(self) -> bool:
        try:
            return _place_of(self._root) != self._place
        except OSError:
            return True

    def _looked(self) -> State:
        try:
            if self._has_new_names():
                self._list()
            if self._is_watched and not self._has_links:
                self._begin_watch()
            states = tuple([(state.st_mtime_ns, state.st_size) for state in map(_stat, self._modules)])
        except OSError:  # one went while it was looked at
            self._listed = []
            self.close()
            return _NONE
        return self._modules, states

    def _begin_watch(self) -> None:
        """Before the modules are looked at: what changes from now on is told."""
        self._place = _place_of(self._root)
        with suppress(OSError):  # where it cannot be, each look asks for each module
            self._watch = Watch(path for path, _at in self._listed)
        if self._has_new_names():  # since they were listed
            self.close()

    def _has_new_names(self) -> bool:
        return not self._listed or any(_stat(path).st_mtime_ns != at for path, at in self._listed)

    def _list(self) -> None:
        self._listed, self._has_links = [], False
        self._modules = tuple(sorted(self._below(self._root)))

    def _below(self, directory: str) -> Iterator[str]:
        self._listed.append((directory, _stat(directory).st_mtime_ns))
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir():
                    yield from self._below(entry.path)
                elif entry.name.endswith(".py"):
                    self._has_links |= entry.is_symlink()
                    yield entry.path


def _place_of(directory: str) -> tuple[int, int]:
    found = _stat(directory)
    return found.st_dev, found.st_ino


def sources_digest() -> str:
    """Of the software on disk, for what is kept beyond this process. Takes some 5 ms."""
    return hashlib.sha256(repr(Sources(ROOT).state()).encode("utf-8", "surrogateescape")).hexdigest()
