"""The log files of a home: read from their beginnings, and followed through growth, rotation and new ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from hobus.launch.logs.lines import LogLine, read_line

OLDER = ".1"
"""Suffix of the one older file that is kept."""

_PIECE_BYTES = 1 << 20


class _Place(Struct):
    """How far one file was read; an unfinished last line waits for its end."""

    inode: int
    offset: int = 0
    rest: bytes = b""
    at: float = 0.0


class LogFiles:
    """All logs below one directory; `more` gives what came since it was last asked."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._places: dict[str, _Place] = {}

    def older(self) -> list[LogLine]:
        """Return what stands in rotated files; asked once, before the first `more`."""
        found: list[LogLine] = []
        for path in sorted(self._directory.glob(f"*.log{OLDER}")):
            found += self._read_lines(_get_actor(path.name), path, _Place(0), is_whole=True)
        return found

    def more(self) -> list[LogLine]:
        """Return new lines of every file, by time; a file that was rotated meanwhile is read to its end first."""
        found: list[LogLine] = []
        for path in sorted(self._directory.glob("*.log")):
            found += self._read_file(path)
        return sorted(found, key=lambda line: line.at)

    def _read_file(self, path: Path) -> Iterator[LogLine]:
        actor = _get_actor(path.name)
        try:
            state = path.stat()
        except OSError:
            return  # between two files; the next look finds the new one
        place = self._places.get(path.name)
        if place is not None and (place.inode != state.st_ino or state.st_size < place.offset):
            older = path.with_name(path.name + OLDER)
            if _get_inode(older) == place.inode:
                yield from self._read_lines(actor, older, place, is_whole=True)
            place = _Place(state.st_ino, at=place.at)
        place = self._places[path.name] = place or _Place(state.st_ino)
        yield from self._read_lines(actor, path, place, is_whole=False)

    def _read_lines(self, actor: str, path: Path, place: _Place, *, is_whole: bool) -> Iterator[LogLine]:
        try:
            with path.open("rb") as file:
                file.seek(place.offset)
                while piece := file.read(_PIECE_BYTES):
                    place.offset += len(piece)
                    *whole, place.rest = (place.rest + piece).split(b"\n")
                    yield from self._read(actor, place, whole)
        except OSError:
            return
        if is_whole and place.rest:
            yield from self._read(actor, place, [place.rest])
            place.rest = b""

    def _read(self, actor: str, place: _Place, lines: list[bytes]) -> Iterator[LogLine]:
        for line in lines:
            if line.strip():
                read = read_line(line.decode("utf-8", "replace"), actor=actor, earlier_at=place.at)
                place.at = read.at
                yield read


def _get_actor(name: str) -> str:
    """Return `ho1/2` for `ho1-2.log`, `launcher` for `launcher.log`."""
    role, dash, number = name.partition(".log")[0].rpartition("-")
    return f"{role}/{number}" if dash and number.isdigit() else name.partition(".log")[0]


def _get_inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - of whatever lies there now
    except OSError:
        return 0
