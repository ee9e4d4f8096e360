"""The bytes of one batch: header, chained entries, bodies beside the chain, trailer. Pure; nothing here touches a file.

    header (96)    magic, version, flags, count, lengths, first sequence, previous chain, CRCs, mask, end mark
    entries        count x (length, CRC, entry bytes); the exact entry bytes are hashed into the chain
    bodies         per body: mark, CRC of salt and data, length of the data, salt (16), data; outside the chain, so that
                   it can be erased
    padding        zeros up to a multiple of eight
    trailer (8)    its bytes are never zero, so that a write torn anywhere before its end shows

What lies between header and trailer is stored masked (mask.py), so that no sector of a stored frame is all zeros; CRCs,
hashes and chain are of the bytes as they were given.
`flags` are zero; the mark of a body has room for "erased". Integers are little-endian. Chain value = SHA-256(previous
chain value + entry bytes).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import chain, repeat
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from hobus.ledger_service.mask import ALIGNMENT, MASK_BYTES, apply_mask

MAGIC = b"HOBUSLG1"
VERSION = 11
"""Of the whole record: another one is refused, whatever in it was written otherwise."""
GENESIS = bytes(32)
"""The chain value before the first entry."""
SALT_BYTES = 16

_FIELDS = Struct(f"<8sHHIIIQ32sI{MASK_BYTES}s")  # magic ... entries CRC, mask
_HEADER_CRC = Struct("<I")
_END_MARK = b"\xa5HDREND\xa5"
_TRAILER = b"\xa5BATEND\xa5"
_ENTRY = Struct("<II")  # length, CRC
_BODY = Struct("<cII")  # mark, CRC of salt and data, length of the data
_KEPT = b"B"
HEADER_BYTES = _FIELDS.size + _HEADER_CRC.size + len(_END_MARK)
ENTRY_HEAD_BYTES = _ENTRY.size
BODY_HEAD_BYTES = _BODY.size + SALT_BYTES


class FrameHeader(NamedTuple):
    """What a frame says about itself."""

    version: int
    entry_count: int
    entries_bytes: int
    bodies_bytes: int
    first_sequence: int
    previous_chain: bytes
    entries_crc: int
    mask: bytes

    @property
    def frame_bytes(self) -> int:
        """Return the length of the whole frame, padding and trailer included."""
        content = HEADER_BYTES + self.entries_bytes + self.bodies_bytes
        return content + (-content % ALIGNMENT) + len(_TRAILER)


class StoredBody(NamedTuple):
    """One body as it lies in a frame; `at` counts from the frame's first byte."""

    at: int
    salt: bytes
    data: bytes


class StoredFrame(NamedTuple):
    """A whole, undamaged frame."""

    header: FrameHeader
    entries: list[bytes]
    entries_at: list[int]  # first byte of each entry's bytes, from the frame's first byte
    bodies: list[StoredBody]


class FrameFault(NamedTuple):
    """The first bytes of a frame that are not what was written: [start, end) from the frame's first byte."""

    start: int
    end: int
    what: str


class Built(NamedTuple):
    """An encoded frame."""

    data: bytearray  # to be masked for its place
    chains: list[bytes]  # the chain value after each entry


def hash_salted(salt: bytes, data: bytes) -> bytes:
    """Return what an entry holds of a body: it names the body and does not give a short text away."""
    return sha256(salt + data).digest()


def compute_next_chain(chain: bytes, entry: bytes) -> bytes:
    return sha256(chain + entry).digest()


def build_frame(
    first_sequence: int, previous_chain: bytes, entries: Sequence[bytes], bodies: Sequence[bytes], mask: bytes
) -> Built:
    """Return the bytes of one batch; `bodies` are salt and data each, in the order of the entries that brought them.

    They are not masked yet: `store_at` does that, once it is known where they will lie.
    """
    after = previous_chain
    chains = [after := sha256(after + entry).digest() for entry in entries]
    heads = map(_ENTRY.pack, map(len, entries), map(crc32, entries))
    content = b"".join(chain.from_iterable(zip(heads, entries, strict=True)))
    heads = map(_BODY.pack, repeat(_KEPT), map(crc32, bodies), [size - SALT_BYTES for size in map(len, bodies)])
    beside = b"".join(chain.from_iterable(zip(heads, bodies, strict=True)))
    fields = _FIELDS.pack(
        MAGIC, VERSION, 0, len(entries), len(content), len(beside), first_sequence,
        previous_chain, crc32(content), mask,
    )  # fmt: skip
    header = fields + _HEADER_CRC.pack(crc32(fields)) + _END_MARK
    padding = bytes(-(len(content) + len(beside)) % ALIGNMENT)
    return Built(bytearray().join((header, content, beside, padding, _TRAILER)), chains)


def store_at(frame: Built, at: int, mask: bytes) -> bytearray:
    """Return the frame's bytes as they are stored at byte `at` of a segment; to be called once."""
    apply_mask(frame.data, at, mask, start=HEADER_BYTES, end=len(frame.data) - len(_TRAILER))
    return frame.data


def read_header(data: bytes) -> FrameHeader | None:
    """Return the header at the beginning, of whatever version, or None if they are not an undamaged one."""
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
        return None
    fields = data[: _FIELDS.size]
    (crc,) = _HEADER_CRC.unpack_from(data, _FIELDS.size)
    if crc32(fields) != crc or data[HEADER_BYTES - len(_END_MARK) : HEADER_BYTES] != _END_MARK:
        return None
    _, version, _, count, entries_bytes, bodies_bytes, first, chain, entries_crc, mask = _FIELDS.unpack(fields)
    return FrameHeader(version, count, entries_bytes, bodies_bytes, first, chain, entries_crc, mask)


def read_frame(stored: bytes, header: FrameHeader, at: int) -> StoredFrame | FrameFault:
    """Return the frame stored at byte `at` of a segment, or what is wrong with it; `header` is of the same bytes."""
    buffer = bytearray(stored)
    apply_mask(buffer, at, header.mask, start=HEADER_BYTES, end=len(buffer) - len(_TRAILER))
    data = memoryview(buffer)
    bodies_start = HEADER_BYTES + header.entries_bytes
    bodies_end = bodies_start + header.bodies_bytes
    entries = _read_entries(data, header, bodies_start)
    if isinstance(entries, FrameFault):
        return entries
    bodies = _read_bodies(data, bodies_start, bodies_end)
    if isinstance(bodies, FrameFault):
        return bodies
    if bytes(data[bodies_end : header.frame_bytes]) != bytes(-bodies_end % ALIGNMENT) + _TRAILER:
        return FrameFault(bodies_end, header.frame_bytes, "the batch's end mark is damaged")
    return StoredFrame(header, entries[0], entries[1], bodies)


def _read_entries(data: memoryview, header: FrameHeader, end: int) -> tuple[list[bytes], list[int]] | FrameFault:
    if crc32(data[HEADER_BYTES:end]) != header.entries_crc or end > len(data):
        return FrameFault(HEADER_BYTES, end, "the entries' CRC does not match")
    entries: list[bytes] = []
    entries_at: list[int] = []
    at = HEADER_BYTES
    while at + ENTRY_HEAD_BYTES <= end:
        length, _ = _ENTRY.unpack_from(data, at)
        at += ENTRY_HEAD_BYTES
        entries.append(bytes(data[at : at + length]))
        entries_at.append(at)
        at += length
    if at != end or len(entries) != header.entry_count:
        return FrameFault(HEADER_BYTES, end, "the entries do not fill their area")
    return entries, entries_at


def _read_bodies(data: memoryview, start: int, end: int) -> list[StoredBody] | FrameFault:
    bodies: list[StoredBody] = []
    at = start
    while at < end:
        body = read_body(data, at, end)
        if isinstance(body, FrameFault):
            return body
        bodies.append(body)
        at += BODY_HEAD_BYTES + len(body.data)
    return bodies


def read_body(data: memoryview, at: int, end: int) -> StoredBody | FrameFault:
    """Return the body whose record begins at `at` and ends at or before `end`."""
    there = min(end, len(data))
    if at + BODY_HEAD_BYTES > there:
        return FrameFault(at, end, "a body is cut short")
    mark, crc, length = _BODY.unpack_from(data, at)
    data_at = at + BODY_HEAD_BYTES
    if data_at + length > there:
        return FrameFault(at, end, "a body's length does not fit its area")
    salted = bytes(data[at + _BODY.size : data_at + length])
    if crc32(salted) != crc:
        return FrameFault(at, data_at + length, "a body's CRC does not match")
    if mark != _KEPT:
        return FrameFault(at, data_at, "a body's mark is damaged")
    return StoredBody(at, salted[:SALT_BYTES], salted[SALT_BYTES:])


def entry_is_whole(head: bytes, entry: bytes) -> bool:
    """Return whether an entry's bytes, read alone, are those that its length and CRC in front of it tell."""
    length, crc = _ENTRY.unpack(head)
    return bool(length == len(entry) and crc32(entry) == crc)
