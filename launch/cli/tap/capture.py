"""A capture: tapped frames in a file that the same filters read.

    magic   8 bytes   b"HOBUSTAP"
    items   length (4 bytes), CRC-32 (4 bytes), MessagePack value; big-endian
      first item   ["capture", version, {facts}]
      then         ["batch", epoch, first, next, lost, beats, restarted, reaches_at, [record, ...]]
      at the end   ["end", [account of each life of the broker]]

A batch holds the frames that the filter took; what it left out is in the account at the end. A torn last item (the
writer was killed, the disk was full) is tolerated and said; damage before that is not.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from hobus.bus.broker.tap_record import TapRecord, record_from
from hobus.bus.broker.tap_wire import TapBatch
from hobus.bus.messages.base import pack, unpack

MAGIC = b"HOBUSTAP"
CAPTURE_VERSION = 1
_ITEM = struct.Struct(">II")
_BATCH_FIELDS = 9


class CaptureDamaged(ValueError):
    """A file that is no capture, or one whose bytes were changed."""


class CaptureWriter:
    """Write one capture, mode 0600: it may hold bodies."""

    def __init__(self, path: Path, facts: dict[str, Any], *, replace: bool) -> None:
        """Open the file. Raises FileExistsError for one that holds something, unless it is to be replaced."""
        if not replace and path.is_file() and path.stat().st_size:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file: BinaryIO = os.fdopen(descriptor, "wb")
        self._file.write(MAGIC)
        self._write_item(["capture", CAPTURE_VERSION, facts])

    def batch(self, batch: TapBatch, kept: list[TapRecord]) -> None:
        if kept or batch.lost or batch.restarted or batch.reaches_at is not None:
            epoch, _, first, following, *facts = batch
            self._write_item(["batch", epoch, first, following, *facts, [list(record) for record in kept]])

    def close(self, account: list[dict[str, int | str]]) -> None:
        """Complete the capture with its account. Raises OSError."""
        try:
            self._write_item(["end", account])
        finally:
            self._file.close()

    def _write_item(self, value: list[Any]) -> None:
        data = pack(value)
        self._file.write(_ITEM.pack(len(data), zlib.crc32(data)) + data)
        self._file.flush()


@dataclass(slots=True)
class CaptureReader:
    """Read one capture."""

    path: Path
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    account: list[dict[str, int | str]] | None = None  # None: the writer was ended before it could say
    torn_at: int | None = None  # byte of a torn last item

    def batches(self) -> Iterator[TapBatch]:
        """Yield what was captured, in order. Raises OSError, CaptureDamaged."""
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise CaptureDamaged(f"{self.path} is not a capture of hobus tap")
            self._begin(next(self._read_items(file), None))
            for item in self._read_items(file):
                if item[0] == "end":
                    self.account = item[1]
                elif item[0] == "batch" and len(item) == _BATCH_FIELDS:
                    yield _make_batch(item)
                else:
                    raise CaptureDamaged(f"{self.path}, before byte {file.tell()}: an item of an unknown form")

    def list_missing(self) -> list[str]:
        """Return sentences about what is missing at its end; for after its batches were read."""
        torn = f"the capture is torn at byte {self.torn_at}: its last item was not written in full and is left out"
        unknown = "the capture did not end cleanly: what its filter left out at the end is unknown"
        return ([] if self.torn_at is None else [torn]) + ([unknown] if self.account is None else [])

    def _begin(self, item: list[Any] | None) -> None:
        if item is None or item[0] != "capture":
            raise CaptureDamaged(f"{self.path} ends before its header is whole")
        if item[1] != CAPTURE_VERSION:
            raise CaptureDamaged(f"{self.path} is a capture of version {item[1]}; this hobus reads {CAPTURE_VERSION}")
        self.facts = item[2]

    def _read_items(self, file: BinaryIO) -> Iterator[list[Any]]:
        end = os.fstat(file.fileno()).st_size
        while (at := file.tell()) < end:
            head = file.read(_ITEM.size)
            length, checksum = _ITEM.unpack(head) if len(head) == _ITEM.size else (end, 0)
            data = file.read(length) if at + _ITEM.size + length <= end else b""
            if len(data) != length:
                self.torn_at = at
                return
            if zlib.crc32(data) != checksum:
                if file.tell() == end:
                    self.torn_at = at
                    return
                raise CaptureDamaged(f"{self.path}, byte {at}: the bytes are not what was written")
            yield _read_item(data, self.path, at)


def _read_item(data: bytes, path: Path, at: int) -> list[Any]:
    try:
        value = unpack(data)
    except ValueError:
        value = None
    if not isinstance(value, list) or not value:
        raise CaptureDamaged(f"{path}, byte {at}: not an item of a capture")
    return value


def _make_batch(item: list[Any]) -> TapBatch:
    _, epoch, first, following, lost, beats, restarted, reaches_at, records = item
    try:
        return TapBatch(
            epoch, [record_from(record) for record in records], first, following, lost, beats, restarted, reaches_at
        )
    except ValueError as error:
        raise CaptureDamaged(f"a record of another version: {error}") from None
