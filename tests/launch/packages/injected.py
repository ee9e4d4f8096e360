"""A disk that counts every operation that changes something, and lets one of them fail, or be the process's last."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable

from hobus.bus.disk import RealDisk, RealFile


class Failpoint:
    def __init__(self, at: int = 0, strike: Callable[[str], None] = lambda _what: None) -> None:
        self.seen: list[str] = []
        self._at = at
        self._strike = strike

    def passed(self, what: str) -> None:
        self.seen.append(what)
        if len(self.seen) == self._at:
            self._strike(what)


def full_disk(what: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), what)


def kill(_what: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def disk_with(point: Failpoint) -> type[RealDisk]:
    class PointedFile(RealFile):
        def write_at(self, offset: int, data: bytes | bytearray) -> None:
            half = len(data) // 2
            super().write_at(offset, data[:half])
            point.passed("write")
            super().write_at(offset + half, data[half:])

        def sync(self) -> None:
            point.passed("sync")
            super().sync()

    class PointedDisk(RealDisk):
        def open(self, path: str, *, create: bool = False, write: bool = True) -> RealFile:
            point.passed(f"open {path}")
            found = super().open(path, create=create, write=write)
            try:
                return PointedFile(os.dup(found._descriptor))  # the same file, counted
            finally:
                found.close()

        def make_dir(self, path: str) -> None:
            point.passed(f"make_dir {path}")
            super().make_dir(path)

        def rename(self, source: str, target: str) -> None:
            point.passed(f"rename {source}")
            super().rename(source, target)

        def remove(self, path: str) -> None:
            point.passed(f"remove {path}")
            super().remove(path)

        def remove_dir(self, path: str) -> None:
            point.passed(f"remove_dir {path}")
            super().remove_dir(path)

        def sync_dir(self, path: str = "") -> None:
            point.passed(f"sync_dir {path}")
            super().sync_dir(path)

    return PointedDisk
