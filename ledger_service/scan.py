"""Walks a segment frame by frame and tells a torn last batch from damage.

One batch is in flight at a time, so only what follows the last whole frame can be torn, and only the way a device tears
a write: a prefix arrived, or some sectors arrived and others still hold the zeros that were there. A frame that is
wrong in any other way, or that has another frame behind it, was whole once: damage. No sector of a stored frame is all
zeros, and no content of a frame reads as a header: the mask (mask.py) sees to that, whatever a writer says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from hobus.ledger_service.frame import (
    HEADER_BYTES,
    MAGIC,
    VERSION,
    FrameFault,
    FrameHeader,
    StoredFrame,
    compute_next_chain,
    read_frame,
    read_header,
)
from hobus.ledger_service.mask import ALIGNMENT, SECTOR_BYTES
from hobus.ledger_service.source import Damage, OtherFormat, Source

_WRITTEN_BYTES_MIN = 8
"""A sector that was written holds at least a batch's end mark; fewer bytes than that are strays, not a write."""


TRIES_BESIDE_WRITER = 3
"""A fault is looked at again: what was half written a moment ago is whole now."""


class Whole(NamedTuple):
    """An undamaged frame that continues the chain."""

    at: int
    frame: StoredFrame
    data: bytes  # as stored
    chains: list[bytes]  # the chain value after each entry

    @property
    def end(self) -> int:
        return self.at + len(self.data)


class SegmentTail(NamedTuple):
    """What follows the last whole frame."""

    kind: Literal["clean", "torn", "stray"]  # stray: bytes that no write left there
    at: int
    end: int


def read_next_whole(source: Source, at: int, sequence: int, chain: bytes) -> Whole | SegmentTail:
    """Return the frame at `at`, which must begin with entry `sequence` after chain value `chain`; or the tail.

    Raises Damage. A torn frame is the tail only if nothing was written after it.
    """
    head = source.get(at, HEADER_BYTES)
    header = read_header(head)
    if header is None:
        return _tail(source, at, head, sequence)
    demand_format(source.name, at, header)
    source.mask = source.mask or header.mask
    if header.mask != source.mask:
        raise Damage(source.name, at, "this batch belongs to another ledger", sequence=sequence)
    if header.first_sequence != sequence or header.previous_chain != chain or not header.entry_count:
        raise Damage(source.name, at, f"this batch does not continue the chain at entry {sequence}", sequence=sequence)
    data = source.get(at, header.frame_bytes)
    found = read_frame(data, header, at) if len(data) == header.frame_bytes else FrameFault(0, len(data), "cut short")
    if isinstance(found, FrameFault):
        return _judge_torn(source, at, data, header, found)
    chains: list[bytes] = []
    for entry in found.entries:
        chain = compute_next_chain(chain, entry)
        chains.append(chain)
    return Whole(at, found, data, chains)


def walk(source: Source, sequence: int, chain: bytes, *, at: int = 0, tries: int = 1) -> Iterator[Whole | SegmentTail]:
    """Yield the whole frames from `at` on, the first of which is `read_next_whole`, and then the tail.

    Raises Damage. What is no whole frame is looked at so many times (`tries`).
    """
    left = tries
    while True:
        left -= 1
        try:
            found = read_next_whole(source, at, sequence, chain)
        except Damage:
            if left <= 0:
                raise
            source.refresh()
            continue
        if isinstance(found, Whole):
            left = tries
            at, sequence, chain = found.end, sequence + found.frame.header.entry_count, found.chains[-1]
        elif found.kind != "clean" and left > 0:
            source.refresh()
            continue
        yield found
        if isinstance(found, SegmentTail):
            return


def demand_format(file: str, byte: int, header: FrameHeader) -> None:
    """Raise OtherFormat for a batch that another version of this software wrote."""
    if header.version != VERSION:
        raise OtherFormat(
            file,
            byte,
            f"the record is in format {header.version}, and this software reads {VERSION}",
            fix="move the directory `ledger` of this home away to begin a new record, and read the old one with the "
            "software that wrote it",
        )


def _judge_torn(source: Source, at: int, data: bytes, header: FrameHeader, fault: FrameFault) -> SegmentTail:
    frame_end = at + header.frame_bytes
    content_end = source.end_of_content(at)
    was_whole = (
        len(data) == header.frame_bytes and data[-1] != 0 and not _lacks_sector(data, at, fault.start, fault.end)
    )
    if was_whole or content_end > frame_end:
        raise Damage(source.name, at + fault.start, fault.what, sequence=header.first_sequence)
    return SegmentTail("torn", at, content_end)


def _tail(source: Source, at: int, head: bytes, sequence: int) -> SegmentTail:
    end = source.end_of_content(at)
    if end == at:
        return SegmentTail("clean", at, at)
    if _has_later_frame(source, at, end):
        raise Damage(source.name, at, "no whole batch begins here, but one follows", sequence=sequence)
    if not _was_written(source, at, end):
        return SegmentTail("stray", at, end)
    if len(head) == HEADER_BYTES and head[-1] != 0 and not _lacks_sector(head, at, 0, HEADER_BYTES):
        raise Damage(source.name, at, "the header of the last batch is damaged", sequence=sequence)
    return SegmentTail("torn", at, end)


def _lacks_sector(data: bytes, at: int, start: int, end: int) -> bool:
    """Return whether some sector's share of the bytes [start, end) is all zeros: it never reached the device."""
    sector = (at + start) // SECTOR_BYTES * SECTOR_BYTES
    while sector < at + end:
        share = data[max(0, sector - at) : sector - at + SECTOR_BYTES]
        if share.count(0) == len(share):
            return True
        sector += SECTOR_BYTES
    return False


def _has_later_frame(source: Source, at: int, end: int) -> bool:
    rest = source.get(at, end - at)
    found = rest.find(MAGIC, 1)
    while found >= 0:
        is_aligned = (at + found) % ALIGNMENT == 0
        header = read_header(rest[found : found + HEADER_BYTES]) if is_aligned else None
        if header is not None and source.mask in (None, header.mask):
            return True
        found = rest.find(MAGIC, found + 1)
    return False


def _was_written(source: Source, at: int, end: int) -> bool:
    rest = source.get(at, end - at)
    if len(rest) < _WRITTEN_BYTES_MIN and MAGIC.startswith(rest):
        return True
    at_sector = -(at % SECTOR_BYTES)
    return any(
        len(share) - share.count(0) >= _WRITTEN_BYTES_MIN
        for share in (rest[max(0, start) : start + SECTOR_BYTES] for start in range(at_sector, len(rest), SECTOR_BYTES))
    )
