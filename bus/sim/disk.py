"""The simulated disk: files in memory that know what was synced.

A killed process loses nothing that it wrote (the page cache outlives it); `crash` is the power cut: whatever was not
synced is taken back, newest first, file content and directory entries alike. A crash that tears lets the device keep
some of it: any sectors of any unsynced write, and the older ones of the unsynced directory entries. Further faults of a
medium: no room (`capacity_bytes`), and syncs that fail (`failing_syncs`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from hobus.bus.sim.clock import Draw

Undo = Callable[[], None]
_SECTOR_BYTES = 512


@dataclass(slots=True, eq=False)
class _File:
    """Hold a file's content as the page cache has it, with an undo log of what is not synced yet."""

    content: bytearray = field(default_factory=bytearray)
    undo: list[tuple[int, bytes, int, bytes]] = field(
        default_factory=list[tuple[int, bytes, int, bytes]]
    )  # offset, old bytes, old size, new bytes

    def write(self, offset: int, data: bytes) -> None:
        size = len(self.content)
        self.undo.append((offset, bytes(self.content[offset : offset + len(data)]), size, data))
        if offset > size:
            self.content.extend(bytes(offset - size))
        self.content[offset : offset + len(data)] = data

    def truncate(self, size: int) -> None:
        before = len(self.content)
        self.undo.append((size, bytes(self.content[size:]), before, b""))
        if size < before:
            del self.content[size:]
        else:
            self.content.extend(bytes(size - before))

    def take_back(self) -> None:
        """Undo everything that was not synced."""
        self._undo_in(self.content)
        self.undo.clear()

    def on_device(self) -> bytes:
        """Return the bytes that a power cut would leave."""
        content = bytearray(self.content)
        self._undo_in(content)
        return bytes(content)

    def _undo_in(self, content: bytearray) -> None:
        for offset, old, size, _ in reversed(self.undo):
            if len(content) < offset:
                content.extend(bytes(offset - len(content)))
            content[offset : offset + len(old)] = old
            del content[size:]

    def tear(self, draw: Draw) -> None:
        """Undo what was not synced, except the sectors of some writes that `draw` says reached the device."""
        written = [(offset, data) for offset, _, _, data in self.undo if data]
        self.take_back()
        for offset, data in written:
            share = draw.choice((0.0, 0.5, 1.0))
            at = offset
            while share and at < offset + len(data):
                end = min(offset + len(data), (at // _SECTOR_BYTES + 1) * _SECTOR_BYTES)
                if draw.random() < share:
                    self.content.extend(bytes(max(0, end - len(self.content))))
                    self.content[at:end] = data[at - offset : end - offset]
                at = end


@dataclass(slots=True)
class SimMedium:
    """Hold the files and directories below one root; they outlive processes."""

    capacity_bytes: int
    files: dict[str, _File] = field(default_factory=dict[str, _File])
    folders: dict[str, None] = field(default_factory=lambda: {"": None})
    locks: dict[str, SimDisk] = field(default_factory=dict[str, "SimDisk"])
    unsynced_names: list[tuple[str, Undo]] = field(default_factory=list[tuple[str, Undo]])
    failing_syncs: int = 0  # so many of the next syncs fail
    on_sync: Callable[[str], None] | None = None  # told the path of a file whose content is on the device now

    def crash(self, tear: Draw | None = None) -> None:
        """Cut the power: undo unsynced names and bytes (torn as `tear` draws it) and release all locks."""
        kept = 0 if tear is None else tear.randint(0, len(self.unsynced_names))
        for _, undo in reversed(self.unsynced_names[kept:]):
            undo()
        self.unsynced_names.clear()
        for name in sorted(self.files):
            if tear is None:
                self.files[name].take_back()
            else:
                self.files[name].tear(tear)
        self.locks.clear()

    def used_bytes(self) -> int:
        return sum(len(file.content) for file in self.files.values())

    def put(self, path: str, file: _File | None) -> None:
        """Set or remove a directory entry; a crash undoes it until the directory is synced."""
        before = self.files.pop(path, None)
        if file is not None:
            self.files[path] = file

        def undo() -> None:
            self.files.pop(path, None)
            if before is not None:
                self.files[path] = before

        self.unsynced_names.append((_get_folder(path), undo))


@dataclass(slots=True)
class SimFile:
    """Implement `bus.port.FileHandle` for one simulated process."""

    disk: SimDisk
    path: str
    file: _File
    is_writable: bool
    is_closed: bool = False

    def _check(self, *, write: bool = False) -> None:
        self.disk.check()
        if self.is_closed or (write and not self.is_writable):
            raise OSError(errno.EBADF, "the file is closed or not open for writing")

    def read_at(self, offset: int, size: int) -> bytes:
        self._check()
        return bytes(self.file.content[offset : offset + size])

    def write_at(self, offset: int, data: bytes | bytearray) -> None:
        self._check(write=True)
        grown = offset + len(data) - len(self.file.content)
        if grown > 0 and self.disk.free_bytes() < grown:
            raise OSError(errno.ENOSPC, "no space left on the simulated device")
        self.file.write(offset, bytes(data))

    def append(self, data: bytes) -> int:
        offset = len(self.file.content)
        self.write_at(offset, data)
        return offset

    def sync(self) -> None:
        self._check(write=True)
        medium = self.disk.medium
        if medium.failing_syncs > 0:
            medium.failing_syncs -= 1
            raise OSError(errno.EIO, "the simulated device failed")
        self.file.undo.clear()
        if medium.on_sync is not None:
            medium.on_sync(self.path)

    def truncate(self, size: int) -> None:
        self._check(write=True)
        self.file.truncate(size)

    def size(self) -> int:
        self._check()
        return len(self.file.content)

    def close(self) -> None:
        self.is_closed = True


@dataclass(slots=True, eq=False)
class SimDisk:
    """Implement `bus.port.Disk` for one incarnation; every access fails once its process is killed."""

    medium: SimMedium
    is_dead: bool = False

    def check(self) -> None:
        """Raise OSError if the process is dead."""
        if self.is_dead:
            raise OSError(errno.EIO, "the process of this disk was killed")

    def kill(self) -> None:
        """End the incarnation: release its locks, invalidate its handles."""
        self.is_dead = True
        self.medium.locks = {path: disk for path, disk in self.medium.locks.items() if disk is not self}

    def open(self, path: str, *, create: bool = False, write: bool = True) -> SimFile:
        self.check()
        file = self.medium.files.get(path)
        if file is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            if _get_folder(path) not in self.medium.folders:
                raise FileNotFoundError(errno.ENOENT, "no such directory", _get_folder(path))
            file = _File()
            self.medium.put(path, file)
        return SimFile(self, path, file, write)

    def exists(self, path: str) -> bool:
        self.check()
        return path in self.medium.files or path in self.medium.folders

    def list(self, path: str = "") -> list[str]:
        self.check()
        names = [name for name in [*self.medium.files, *self.medium.folders] if name and _get_folder(name) == path]
        return sorted(name.rpartition("/")[2] for name in names)

    def make_dir(self, path: str) -> None:
        """Make the directory and its parents, durably."""
        self.check()
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            self.medium.folders.setdefault("/".join(parts[:count]))

    def rename(self, source: str, target: str) -> None:
        self.check()
        file = self.medium.files.get(source)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self.medium.put(source, None)
        self.medium.put(target, file)

    def remove(self, path: str) -> None:
        """Remove the file; raises FileNotFoundError if there is none."""
        self.check()
        if path not in self.medium.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self.medium.put(path, None)

    def sync_dir(self, path: str = "") -> None:
        """Make names that were added, renamed and removed in this directory survive a crash."""
        self.check()
        self.medium.unsynced_names = [entry for entry in self.medium.unsynced_names if entry[0] != path]

    def free_bytes(self) -> int:
        self.check()
        return self.medium.capacity_bytes - self.medium.used_bytes()

    def lock(self, path: str) -> Callable[[], None] | None:
        """Take an exclusive lock, held until released or the process is killed; return None if somebody has it."""
        self.check()
        if path in self.medium.locks:
            return None
        self.medium.locks[path] = self
        return lambda: self._unlock(path)

    def _unlock(self, path: str) -> None:
        if self.medium.locks.get(path) is self:
            del self.medium.locks[path]

    def real_path(self, path: str) -> str | None:  # noqa: ARG002 - the port's signature
        """Return None: simulated files live in memory."""
        self.check()
        return None


def _get_folder(path: str) -> str:
    return path.rpartition("/")[0]
