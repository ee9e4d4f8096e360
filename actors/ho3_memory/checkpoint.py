"""The checkpoint file on the memory process's own disk. Losing it costs time at the next start, nothing else.

It holds frames of facts, each naming the entry of the record up to which it reaches. A frame is appended with what was
applied since the last one, so that its cost is that of the news. Each frame's digest covers all frames before it;
reading ends at the first frame that is torn or changed, and what stands before it is whole. Whether it belongs to this
record is for the reader to ask the ledger: position and chain hash are in it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import structlog

from hobus.actors.ho3_memory.records import Fact
from hobus.bus.messages.base import pack, unpack
from hobus.bus.messages.memory import Artifact
from hobus.bus.port import Disk, FileHandle

_MAGIC = b"HO3C"
_HEAD = struct.Struct(">4sI32s")  # magic, bytes of the payload, digest
_FORMAT = 3


class RecordPosition(NamedTuple):
    """An entry of the record: every fact up to it is in the file."""

    sequence: int
    submission_id: str
    chain: bytes


class CheckpointFrame(NamedTuple):
    """One whole frame; `end` is where the next one goes."""

    facts: list[Fact]
    position: RecordPosition | None
    end: int
    digest: bytes


NO_FRAME = CheckpointFrame([], None, 0, b"\0" * 32)
"""Stands before the first one."""


def encode(facts: Iterable[Fact], position: RecordPosition, digest: bytes) -> tuple[bytes, bytes]:
    """Return the bytes of one frame after the one with this digest, and its own digest."""
    payload = pack([_FORMAT, list(position), [_pack_fact(fact) for fact in facts]])
    following = sha256(digest + payload).digest()
    return _HEAD.pack(_MAGIC, len(payload), following) + payload, following


def read_frames(read: Callable[[int, int], bytes], size_bytes: int) -> Iterator[CheckpointFrame]:
    """Yield every whole frame from the beginning, one at a time; `read` gives so many bytes from an offset."""
    frame = _read_next(read, size_bytes, NO_FRAME)
    while frame is not None:
        yield frame
        frame = _read_next(read, size_bytes, frame)


def _read_next(read: Callable[[int, int], bytes], size_bytes: int, before: CheckpointFrame) -> CheckpointFrame | None:
    head = read(before.end, _HEAD.size)
    if len(head) < _HEAD.size:
        return None
    magic, length, digest = _HEAD.unpack(head)
    start = before.end + _HEAD.size
    if magic != _MAGIC or start + length > size_bytes:
        return None
    payload = read(start, length)
    if sha256(before.digest + payload).digest() != digest:
        return None
    try:
        form, position, rows = unpack(payload)
        if form != _FORMAT:
            return None
        return CheckpointFrame([_unpack_fact(row) for row in rows], RecordPosition(*position), start + length, digest)
    except (ValueError, TypeError, LookupError):  # written by another version
        return None


def _pack_fact(fact: Fact) -> list[Any]:
    return [value.model_dump(mode="json") if isinstance(value, Artifact) else value for value in fact]


def _unpack_fact(row: Sequence[Any]) -> Fact:
    fact = Fact(*row)
    return fact if fact.artifact is None else fact._replace(artifact=Artifact.model_validate(fact.artifact))


FILE = "memory.checkpoint"
_log = structlog.get_logger("memory")


class CheckpointFile:
    """One file of frames; one writer."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._end = 0
        self._digest = NO_FRAME.digest

    def load(self) -> Iterator[CheckpointFrame]:
        """Yield the whole frames; a torn or changed rest is passed over, and overwritten by the next frame."""
        self.discard()
        handle = self._open()
        if handle is None:
            return
        try:
            for frame in read_frames(handle.read_at, handle.size()):
                self._end, self._digest = frame.end, frame.digest
                yield frame
            if self._end < (size_bytes := handle.size()):
                _log.warning("checkpoint_cut", whole_bytes=self._end, file_bytes=size_bytes)
        except OSError as error:
            _log.warning("checkpoint_unreadable", error=str(error), whole_bytes=self._end)
        finally:
            handle.close()

    def discard(self) -> None:
        self._end, self._digest = 0, NO_FRAME.digest

    def _open(self) -> FileHandle | None:
        try:
            return self._disk.open(FILE, write=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("checkpoint_unreadable", error=str(error))
            return None

    def append(self, facts: Iterable[Fact], position: RecordPosition) -> None:
        """Append one frame, synced. Raises OSError: then the frame does not count, now or later."""
        data, digest = encode(facts, position, self._digest)
        is_new = not self._disk.exists(FILE)
        handle = self._disk.open(FILE, create=True)
        try:
            handle.truncate(self._end)
            handle.write_at(self._end, data)
            handle.sync()
        finally:
            handle.close()
        if is_new:
            self._disk.sync_dir()
        self._end, self._digest = self._end + len(data), digest
