"""What memory has put out of RAM, on the memory process's own disk: scratch of one incarnation.

Empty at each start and never synced: the record makes all of it again. What is written lies in a place whose size is a
step of a scale, so that places are used again and the file does not grow while things go out and come in. Each piece
carries a checksum over its number and its incarnation: nothing is believed but what this process wrote there last.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress

import structlog

from hobus.bus.errors import LedgerError
from hobus.bus.port import Disk, FileHandle

FILE = "memory.spill"
_HEAD = struct.Struct(">I")  # checksum
_FINEST_BITS, _STEPS_BITS = 6, 3
"""Sizes of places: multiples of 64 bytes, and from 512 on four to eight steps up to the next power of two."""
_log = structlog.get_logger("memory")


class SpillUnreadable(LedgerError):
    """A piece cannot be read, or is not what was written: this process can answer nothing any more."""

    def __init__(self, detail: str) -> None:
        super().__init__("unavailable", f"memory's spill file: {detail}; memory starts anew from the record")


class SpillFile:
    """Pieces by the offset at which they were written; one writer."""

    def __init__(self, disk: Disk, owner: str, on_fault: Callable[[SpillUnreadable], None]) -> None:
        """`owner`: this incarnation's name; `on_fault` is told once that it cannot go on."""
        self._disk = disk
        self._on_fault = on_fault
        self._seed = zlib.crc32(owner.encode())
        self._handle: FileHandle | None = None
        self._free: dict[int, list[int]] = {}  # size of a place -> offsets of those that nobody has
        self._is_failing = False
        self.size_bytes = 0
        """Of all places, used or free."""
        self.fault: SpillUnreadable | None = None
        """Why nothing of this incarnation can be believed any more."""

    def write(self, number: int, data: bytes) -> int:
        """Where it lies now. Raises OSError: then it lies nowhere."""
        size = _place_bytes(len(data))
        free = self._free.get(size)
        offset = free[-1] if free else self.size_bytes
        try:
            self._opened().write_at(offset, _HEAD.pack(self._checksum(number, data)) + data)
        except OSError as error:
            if not self._is_failing:
                _log.warning("spill_not_written", error=str(error), consequence="it stays in RAM")
            self._is_failing = True
            raise
        self._is_failing = False
        if free:
            free.pop()
        else:
            self.size_bytes += size
        return offset

    def read(self, number: int, offset: int, length: int) -> bytes:
        """What was written there. Raises SpillUnreadable for anything else."""
        try:
            found = self._opened().read_at(offset, _HEAD.size + length)
        except OSError as error:
            raise self._unreadable(str(error)) from None
        data = found[_HEAD.size :]
        if len(data) != length or found[: _HEAD.size] != _HEAD.pack(self._checksum(number, data)):
            raise self._unreadable(f"the {length} bytes at {offset} are not what was written")
        return data

    def free(self, offset: int, length: int) -> None:
        """Nobody needs what lies there any more."""
        self._free.setdefault(_place_bytes(length), []).append(offset)

    def clear(self) -> None:
        """Nothing lies here."""
        self._free.clear()
        self.size_bytes = 0

    def _unreadable(self, detail: str) -> SpillUnreadable:
        if self.fault is None:
            self.fault = SpillUnreadable(detail)
            self._on_fault(self.fault)
        return self.fault

    def _opened(self) -> FileHandle:
        if self._handle is None:
            with suppress(OSError):  # what lies there is another process's, or a link that leads elsewhere
                self._disk.remove(FILE)
            handle = self._disk.open(FILE, create=True)
            handle.truncate(0)
            self._handle = handle
        return self._handle

    def _checksum(self, number: int, data: bytes) -> int:
        return zlib.crc32(data, zlib.crc32(number.to_bytes(8), self._seed))


def _place_bytes(length: int) -> int:
    needed = _HEAD.size + length
    step = 1 << max(_FINEST_BITS, needed.bit_length() - _STEPS_BITS)
    return -(-needed // step) * step
