"""The bytes of a checkpoint file: frames of facts, each naming the entry of the record up to which it reaches.

Pure. A frame is appended with what was applied since the last one, so that its cost is that of the news. Each frame's
digest covers all frames before it; reading ends at the first frame that is torn or changed, and what stands before it
is whole. Whether it belongs to this record is for the reader to ask the ledger: position and chain hash are in it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from hobus.actors.ho3_memory.facts import DeactivatedFact, Fact, FailureFact, OverlayFact, SignalFact, WeightFact
from hobus.bus.messages.base import pack, unpack
from hobus.bus.messages.memory import Artifact

_MAGIC = b"HO3C"
_HEAD = struct.Struct(">4sI32s")  # magic, bytes of the payload, digest
_FORMAT = 1
_KINDS: dict[str, Any] = {
    "s": SignalFact,
    "o": OverlayFact,
    "d": DeactivatedFact,
    "w": WeightFact,
    "f": FailureFact,
}
_LETTERS = {kind: letter for letter, kind in _KINDS.items()}


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
    """The bytes of one frame after the one with this digest, and its own."""
    payload = pack([_FORMAT, list(position), [_row(fact) for fact in facts]])
    following = sha256(digest + payload).digest()
    return _HEAD.pack(_MAGIC, len(payload), following) + payload, following


def frames(data: bytes) -> Iterator[CheckpointFrame]:
    """Every whole frame from the beginning."""
    frame = _next(data, NO_FRAME)
    while frame is not None:
        yield frame
        frame = _next(data, frame)


def _next(data: bytes, before: CheckpointFrame) -> CheckpointFrame | None:
    head = data[before.end : before.end + _HEAD.size]
    if len(head) < _HEAD.size:
        return None
    magic, length, digest = _HEAD.unpack(head)
    start = before.end + _HEAD.size
    payload = data[start : start + length]
    if magic != _MAGIC or len(payload) < length or sha256(before.digest + payload).digest() != digest:
        return None
    try:
        form, position, rows = unpack(payload)
        if form != _FORMAT:
            return None
        return CheckpointFrame([_fact(row) for row in rows], RecordPosition(*position), start + length, digest)
    except (ValueError, TypeError, LookupError):  # written by another version
        return None


def _row(fact: Fact) -> list[Any]:
    values = [value.model_dump(mode="json") if isinstance(value, Artifact) else value for value in fact]
    return [_LETTERS[type(fact)], *values]


def _fact(row: Sequence[Any]) -> Fact:
    kind = _KINDS[row[0]]
    if kind is OverlayFact:
        return OverlayFact(row[1], row[2], row[3], Artifact.model_validate(row[4]))
    fact: Fact = kind(*row[1:])
    return fact
