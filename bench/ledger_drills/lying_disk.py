"""A device behind a page cache that lies: after a failed sync the pages count as clean, as Linux does it."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

from hobus.bus.sim.disk import SimDisk, SimMedium


@dataclass
class LyingFile:
    """Cache and device of one file; `dirty` is what a sync would bring from one to the other."""

    cache: bytearray = field(default_factory=bytearray)
    device: bytearray = field(default_factory=bytearray)
    dirty: list[tuple[int, int]] = field(default_factory=list)


class LyingDisk(SimDisk):
    """Names are durable at once (they are not what is tested); bytes are durable as the device has them."""

    def __init__(self, files: dict[str, LyingFile]) -> None:
        super().__init__(SimMedium(1 << 30))
        self.lying = files
        self.fail_next_sync = False

    def open(self, path: str, *, create: bool = False, write: bool = True):
        if path not in self.lying:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.lying[path] = LyingFile()
        return _Handle(self, self.lying[path])

    def list(self, path: str = "") -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self.lying if name.rpartition("/")[0] == path)

    def exists(self, path: str) -> bool:
        return path in self.lying or any(name.startswith(f"{path}/") for name in self.lying)


def cut_power(files: dict[str, LyingFile]) -> None:
    """What the device has is what there is."""
    for file in files.values():
        file.cache[:] = file.device
        file.dirty.clear()


@dataclass
class _Handle:
    disk: LyingDisk
    file: LyingFile

    def read_at(self, offset: int, size: int) -> bytes:
        return bytes(self.file.cache[offset : offset + size])

    def write_at(self, offset: int, data: bytes) -> None:
        end = offset + len(data)
        if len(self.file.cache) < end:
            self.file.cache.extend(bytes(end - len(self.file.cache)))
        self.file.cache[offset:end] = data
        self.file.dirty.append((offset, end))

    def sync(self) -> None:
        dirty, self.file.dirty = self.file.dirty, []
        if self.disk.fail_next_sync:
            self.disk.fail_next_sync = False
            raise OSError(errno.EIO, "injected")
        for start, end in dirty:
            if len(self.file.device) < end:
                self.file.device.extend(bytes(end - len(self.file.device)))
            self.file.device[start:end] = self.file.cache[start:end]

    def size(self) -> int:
        return len(self.file.cache)

    def close(self) -> None:
        """Nothing to give back."""
