"""The real disk port: files of one process below one directory, private to its user; and single private files.

Directories are 0700 and files 0600. `sync` is fdatasync: what was written before it is on the device when it returns.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


def make_private_folder(path: Path) -> Path:
    """Make the directory, for this user alone. Raises OSError."""
    path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    path.chmod(_DIRECTORY_MODE)
    return path


def write_private(path: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Write the file whole or leave it as it was, never readable for others; `is_durable`: on the device.

    Its directory is made, or made private. Raises OSError.
    """
    make_private_folder(path.parent)
    replace_private(path, data, is_durable=is_durable)


def replace_private(path: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Do as `write_private`, in a directory that stays as it is."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "wb") as file:
        file.write(data)
        file.flush()
        if is_durable:
            os.fsync(file.fileno())
    beside.replace(path)
    if is_durable:
        _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class RealFile:
    """Implement `bus.port.FileHandle` on a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read_at(self, offset: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""
        parts: list[bytes] = []
        while size > 0:
            part = os.pread(self._descriptor, size, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def write_at(self, offset: int, data: bytes | bytearray) -> None:
        """Write all of `data` at `offset`, or raise OSError (then any prefix of it may have been written)."""
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._descriptor, rest, offset)
            offset += written
            rest = rest[written:]

    def append(self, data: bytes) -> int:
        """Write at the end and return the offset. One writer per file."""
        offset = self.size()
        self.write_at(offset, data)
        return offset

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RealDisk:
    """Implement `bus.port.Disk` below `root`, which is made if it is not there."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)

    def _path(self, path: str) -> Path:
        parts = path.split("/")
        if path.startswith("/") or ".." in parts:
            raise ValueError(f"not a path below the disk's root: {path!r}")
        return self._root / path

    def open(self, path: str, *, create: bool = False, write: bool = True) -> RealFile:
        flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC
        return RealFile(os.open(self._path(path), flags | (os.O_CREAT if create else 0), _FILE_MODE))

    def exists(self, path: str) -> bool:
        return self._path(path).exists()

    def list(self, path: str = "") -> list[str]:
        """Return the names in the directory, sorted; empty if it does not exist."""
        try:
            return sorted(entry.name for entry in self._path(path).iterdir())
        except FileNotFoundError:
            return []

    def make_dir(self, path: str) -> None:
        made = self._root
        for part in path.split("/"):
            made = made / part
            made.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        self._path(source).rename(self._path(target))

    def remove(self, path: str) -> None:
        """Remove the file; raises FileNotFoundError if there is none."""
        self._path(path).unlink()

    def remove_dir(self, path: str) -> None:
        """Remove the empty directory; raises FileNotFoundError if there is none."""
        self._path(path).rmdir()

    def sync_dir(self, path: str = "") -> None:
        """Sync names made, renamed and removed in this directory to the device."""
        _sync_folder(self._path(path))

    def free_bytes(self) -> int:
        """Return how many bytes an ordinary user may still write."""
        status = os.statvfs(self._root)
        return status.f_bavail * status.f_frsize

    def lock(self, path: str) -> Callable[[], None] | None:
        """Take an exclusive lock until the returned function is called or the process dies; None if somebody has it."""
        descriptor = os.open(self._path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return lambda: os.close(descriptor)

    def real_path(self, path: str) -> str:
        return str(self._path(path))
