"""Segment files on the disk port: names, reading by place, and the one that is written.

A segment is named by its first sequence number, zero-filled ahead of what is written, and never recycled: what lies
beyond the last batch is zeros, so stale bytes can never look like a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, count, repeat
from operator import add
from typing import NamedTuple

from hobus.bus.port import Disk, FileHandle
from hobus.bus.record.entry import Entry, decode_stored
from hobus.ledger_service.frame import (
    BODY_HEAD_BYTES,
    ENTRY_HEAD_BYTES,
    HEADER_BYTES,
    FrameFault,
    entry_is_whole,
    read_body,
    read_header,
)
from hobus.ledger_service.mask import align, unmask
from hobus.ledger_service.scan import Damage, demand_format
from hobus.ledger_service.source import Source, require_true

DIRECTORY = "segments"
SUFFIX = ".seg"
_DIGITS = 20
_OPEN_MAX = 64
"""Handles kept for reading; old ones are closed. Only speed depends on it."""


class EntryPlace(NamedTuple):
    """Where a committed entry lies."""

    sequence: int
    segment: int  # first sequence of the segment
    at: int  # first byte of the entry's bytes
    length: int
    bodies_at: int  # first byte of its first body's record
    chain: bytes  # the chain value after the entry


def list_places(  # noqa: PLR0913 - of each entry, and of the frame
    stored: Sequence[bytes], entries: Sequence[Entry], chains: Sequence[bytes], *, segment: int, at: int, first: int
) -> list[EntryPlace]:
    """Return where the entries of a frame lie that begins at this byte of its segment with this sequence."""
    sizes = [*map(len, stored)]
    *heads_at, bodies_at = accumulate([ENTRY_HEAD_BYTES + size for size in sizes], initial=at + HEADER_BYTES)
    lengths = [entry.body_lengths for entry in entries]
    bodies = map(add, map(sum, lengths), [BODY_HEAD_BYTES * number for number in map(len, lengths)])
    columns = (
        count(first), repeat(segment), [ENTRY_HEAD_BYTES + head_at for head_at in heads_at], sizes,
        accumulate(bodies, initial=bodies_at), chains,
    )  # fmt: skip
    return [*map(tuple.__new__, repeat(EntryPlace), zip(*columns))]  # noqa: B905 - the first two have no end


def name_segment(first_sequence: int) -> str:
    return f"{first_sequence:0{_DIGITS}d}{SUFFIX}"


def parse_segment_name(name: str) -> int | None:
    """Return what `name_segment` was given; None for any other file."""
    stem, dot, rest = name.partition(".")
    is_segment = dot + rest == SUFFIX and len(stem) == _DIGITS and stem.isdigit()
    return int(stem) if is_segment else None


class SegmentFiles:
    """All segments of one ledger."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._readers: dict[int, FileHandle] = {}
        self._mask: bytes | None = None

    @property
    def mask(self) -> bytes | None:
        """Return the ledger's mask, from its first batch; None while there is none. Raises OtherFormat (a Damage)."""
        firsts = [] if self._mask else self.firsts()
        if firsts:
            source = Source.of_handle(self.path(firsts[0]), self._open_reader(firsts[0]), None)
            header = read_header(source.get(0, HEADER_BYTES))
            if header is not None:
                demand_format(self.path(firsts[0]), 0, header)
                self._mask = header.mask
        return self._mask

    def begin(self, mask: bytes) -> None:
        """Set the mask of an empty ledger."""
        self._mask = mask

    def firsts(self) -> list[int]:
        """Return the first sequence of each segment, in order."""
        found = (parse_segment_name(name) for name in self._disk.list(DIRECTORY))
        return sorted(first for first in found if first is not None)

    def path(self, first: int) -> str:
        return f"{DIRECTORY}/{name_segment(first)}"

    def source(self, first: int) -> Source:
        return Source.of_handle(self.path(first), self._open_reader(first), self.mask)

    def entry(self, place: EntryPlace) -> Entry:
        """Read the entry at a place. Raises Damage if its bytes are not those that were written."""
        data = self._read_content(place.segment, place.at - ENTRY_HEAD_BYTES, ENTRY_HEAD_BYTES + place.length)
        head, stored = bytes(data[:ENTRY_HEAD_BYTES]), bytes(data[ENTRY_HEAD_BYTES:])
        if len(head) < ENTRY_HEAD_BYTES or not entry_is_whole(head, stored):
            raise Damage(self.path(place.segment), place.at, "the entry's CRC does not match", sequence=place.sequence)
        try:
            return decode_stored(stored)
        except ValueError as error:
            raise Damage(self.path(place.segment), place.at, str(error), sequence=place.sequence) from None

    def bodies(self, place: EntryPlace, entry: Entry) -> list[tuple[bytes, bytes]]:
        """Read (salt, data) of each of the entry's bodies. Raises Damage."""
        lengths = entry.body_lengths
        if not lengths:
            return []
        size = sum(lengths) + BODY_HEAD_BYTES * len(lengths)
        data = self._read_content(place.segment, place.bodies_at, size)
        found: list[tuple[bytes, bytes]] = []
        at = 0
        for length in lengths:
            body = read_body(data, at, len(data))
            if isinstance(body, FrameFault) or len(body.data) != length:
                what = body.what if isinstance(body, FrameFault) else "a body's length is not its entry's"
                raise Damage(self.path(place.segment), place.bodies_at + at, what, sequence=place.sequence)
            found.append((body.salt, body.data))
            at += BODY_HEAD_BYTES + length
        return found

    def open_for_writing(self, first: int, *, create: bool) -> FileHandle:
        """Open a handle that writes; a new file is in its directory for good before this returns."""
        if create and not self._disk.exists(DIRECTORY):
            self._disk.make_dir(DIRECTORY)
            self._disk.sync_dir()
        handle = self._disk.open(self.path(first), create=create)
        if create:
            self._disk.sync_dir(DIRECTORY)
        return handle

    def close(self) -> None:
        for handle in self._readers.values():
            handle.close()
        self._readers.clear()

    def _read_content(self, segment: int, at: int, size: int) -> memoryview:
        """Read bytes of one batch, unmasked; fewer at the end of the file. Raises Damage without a first batch."""
        start, whole = align(at, size)
        stored, mask = self._open_reader(segment).read_at(start, whole), self.mask
        if mask is None:
            raise Damage(self.path(segment), 0, "the header of the ledger's first batch is damaged")
        if len(stored) < whole:
            return memoryview(b"")
        return unmask(stored, start, mask)[at - start : at - start + size]

    def _open_reader(self, first: int) -> FileHandle:
        handle = self._readers.get(first)
        if handle is None:
            if len(self._readers) >= _OPEN_MAX:
                self._readers.pop(next(iter(self._readers))).close()
            try:
                handle = self._disk.open(self.path(first), write=False)
            except OSError as error:
                raise Damage(self.path(first), 0, f"the segment cannot be opened ({error.strerror})") from None
            self._readers[first] = handle
        return handle


class ActiveSegment:
    """The segment that is written: zeros ahead, then one write and one sync per batch."""

    def __init__(self, handle: FileHandle, *, first: int, end: int, limit_bytes: int, chunk_bytes: int) -> None:
        self.first = first
        self.end = end
        self._handle = handle
        self._limit_bytes = limit_bytes
        self._chunk_bytes = chunk_bytes
        self._filled = handle.size()
        require_true(end <= self._filled, "what was written before lies within its file")

    def has_room_for(self, size: int) -> bool:
        """Return whether a batch of this size belongs here; an empty segment takes any one batch."""
        return self.end == 0 or self.end + size <= self._limit_bytes

    @property
    def is_filled_ahead(self) -> bool:
        """Return whether the next batch of ordinary size needs no new space on the disk."""
        return self._filled - self.end >= min(self._chunk_bytes // 4, self._limit_bytes - self.end)

    def append(self, frame: bytearray) -> None:
        """Write the batch durably. Raises OSError, after which nothing may be written again."""
        end = self.end + len(frame)
        self._fill(end)
        require_true(self.end < end <= self._filled, "a batch is written over zeros, behind the last one")
        self._handle.write_at(self.end, frame)
        self._handle.sync()
        self.end = end

    def fill_ahead(self) -> bool:
        """Write zeros for the next batches, durably, while nobody waits; return whether there was anything to do."""
        wanted = min(self.end + self._chunk_bytes // 2, self._limit_bytes)
        if self._filled >= wanted:
            return False
        self._fill(wanted)
        self._handle.sync()
        return True

    def close(self) -> None:
        """Close the file; everything acknowledged is durable already."""
        self._handle.close()

    def _fill(self, wanted: int) -> None:
        if wanted <= self._filled:
            return
        chunks = -(-(wanted - self._filled) // self._chunk_bytes)
        target = max(wanted, min(self._filled + chunks * self._chunk_bytes, self._limit_bytes))
        self._handle.write_at(self._filled, bytes(target - self._filled))
        self._filled = target
