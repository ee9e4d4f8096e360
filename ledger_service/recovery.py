"""What a ledger does before it acknowledges anything: find its end, set a torn batch aside, sync the last batch again.

Reads one segment and the index's position, whatever the size. Refuses (raises Damage, naming file and byte) whatever
cannot be explained by one batch in flight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hobus.bus.port import Disk
from hobus.bus.record.catalog import is_session_stream
from hobus.bus.record.entry import Entry, decode_stored
from hobus.bus.record.payloads.governance import BatchSetAside
from hobus.ledger_service.admission import StreamHead, advance
from hobus.ledger_service.frame import ENTRY_HEAD_BYTES, GENESIS, HEADER_BYTES, read_header
from hobus.ledger_service.index import Committed, Position
from hobus.ledger_service.scan import Damage, SegmentTail, Whole, walk
from hobus.ledger_service.segment import DIRECTORY, SegmentFiles, list_places, name_segment
from hobus.ledger_service.source import Source
from hobus.ledger_service.tables import Tables

_ROWS_PER_STEP = 2000
"""Entries indexed between two chances for the rest of the process to run."""


class Recovered(NamedTuple):
    """Where the ledger stands."""

    position: Position  # of the segment to go on with; `last` is -1 for an empty ledger
    ledger_at_us: int
    removed: BatchSetAside | None


class _SegmentEnd(NamedTuple):
    position: Position
    last: Whole | None
    tail: SegmentTail


def recover(disk: Disk, files: SegmentFiles, indexed: Sequence[Position]) -> Recovered:
    """Find the ledger's end and make it durable. An empty ledger gets its first segment. Raises Damage, OSError."""
    firsts = files.firsts()
    _check_segments(files, firsts, indexed)
    if not firsts:
        files.open_for_writing(0, create=True).close()
        return Recovered(Position(0, -1, 0, GENESIS), 0, None)
    if len(firsts) > 1 and files.mask is None:
        raise Damage(files.path(firsts[0]), 0, "no whole batch begins here, but a later segment exists")
    end = _walk(files.source(firsts[-1]), firsts[-1], indexed)
    rewritten_in, last = firsts[-1], end.last
    if last is None and len(firsts) > 1:
        rewritten_in = firsts[-2]
        before = _walk(files.source(rewritten_in), rewritten_in, indexed)
        _demand_sealed(files.path(rewritten_in), before, firsts[-1])
        last = before.last
        end = end._replace(position=end.position._replace(chain=before.position.chain))
    _check_reached(files.path(firsts[-1]), end, indexed)
    removed = _set_aside(disk, files, firsts[-1], end.tail)
    if last is not None:
        _make_durable(files, rewritten_in, last)
    return Recovered(end.position, decode_stored(last.frame.entries[-1]).ledger_at_us if last else 0, removed)


def catch_up(files: SegmentFiles, tables: Tables, indexed: Position | None, target: Position) -> Iterator[int]:
    """Bring the index from its position to the ledger's end, a step at a time; yields how far it is. Raises Damage."""
    reached = indexed or Position(0, -1, 0, GENESIS)
    for first in files.firsts():
        if first < reached.first:
            continue
        if first != reached.first:
            if first != reached.last + 1:
                raise Damage(
                    files.path(first), 0, f"a segment is missing: no file begins with entry {reached.last + 1}"
                )
            reached = Position(first, reached.last, 0, reached.chain)
        source = files.source(first)
        source.refresh()
        for found in walk(source, reached.last + 1, reached.chain, at=reached.end):
            if isinstance(found, Whole):
                reached = _index_frame(tables, source.name, first, found)
                if tables.behind >= _ROWS_PER_STEP:
                    tables.flush()
                    yield reached.last
            elif found.kind != "clean":
                raise Damage(source.name, found.at, "no whole batch begins here, and this is not the ledger's last one")
    if (reached.last, reached.chain) != (target.last, target.chain):
        raise Damage(files.path(target.first), target.end, "the segments do not lead to the ledger's last batch")
    tables.flush()
    yield reached.last


def decode_all(found: Whole, file: str) -> list[Entry]:
    """Return the entries of a frame. Raises Damage."""
    entries: list[Entry] = []
    for number, data in enumerate(found.frame.entries):
        try:
            entries.append(decode_stored(data))
        except ValueError as error:
            byte = found.at + found.frame.entries_at[number] - ENTRY_HEAD_BYTES
            sequence = found.frame.header.first_sequence + number
            raise Damage(file, byte, str(error), sequence=sequence) from None
    return entries


def _index_frame(tables: Tables, file: str, segment: int, found: Whole) -> Position:
    entries = decode_all(found, file)
    heads: dict[str, StreamHead] = {}
    for entry in entries:
        if is_session_stream(entry.stream):
            head = heads.get(entry.stream) or tables.head(entry.stream)
            heads[entry.stream] = advance(head, entry, entry.origin)
    first = found.frame.header.first_sequence
    places = list_places(found.frame.entries, entries, found.chains, segment=segment, at=found.at, first=first)
    position = Position(segment, places[-1].sequence, found.end, found.chains[-1])
    tables.settle([*map(Committed, places, entries)], heads, position)
    return position


def _walk(source: Source, first: int, indexed: Sequence[Position]) -> _SegmentEnd:
    """Walk to the end of one segment. The chain value before it is the index's, else the one its first batch names."""
    source.refresh()
    known = {position.first: position for position in indexed}
    before = next((position.chain for position in indexed if position.last == first - 1), None)
    header = read_header(source.get(0, HEADER_BYTES))
    chain = GENESIS if first == 0 else before or (header.previous_chain if header else GENESIS)
    position = Position(first, first - 1, 0, chain)
    last, tail = None, SegmentTail("clean", 0, 0)
    for found in walk(source, first, chain):
        if isinstance(found, SegmentTail):
            tail = found
            continue
        count = found.frame.header.entry_count
        position = Position(first, position.last + count, found.end, found.chains[-1])
        last = found
        if first in known and position.last == known[first].last and position != known[first]:
            raise Damage(source.name, found.at, "the index recorded another history up to here", sequence=position.last)
    return _SegmentEnd(position, last, tail)


def _check_segments(files: SegmentFiles, firsts: Sequence[int], indexed: Sequence[Position]) -> None:
    """Check that every segment that the index knows is there, as long as it was, and no other between them."""
    known = [position.first for position in indexed]
    if known and [first for first in firsts if first <= known[-1]] != known:
        wrong = next(first for first in sorted({*firsts, *known}) if (first in known) != (first in firsts))
        what = "the segment is missing" if wrong in known else "the index does not know this segment"
        raise Damage(files.path(wrong), 0, what, sequence=wrong)
    if not known and firsts and firsts[0] != 0:
        raise Damage(files.path(0), 0, "the segment is missing", sequence=0)
    for position in indexed[:-1]:
        source = files.source(position.first)
        if source.size < position.end:
            raise Damage(source.name, source.size, f"the file ends here, but had {position.end} bytes at least")


def _check_reached(file: str, end: _SegmentEnd, indexed: Sequence[Position]) -> None:
    """Check that what the index holds, which was acknowledged, is still there."""
    last = indexed[-1].last if indexed else -1
    if end.position.last < last:
        what = f"entries {end.position.last + 1} to {last} were acknowledged and are gone or damaged"
        raise Damage(file, end.position.end, what, sequence=end.position.last + 1)


def _demand_sealed(file: str, end: _SegmentEnd, next_first: int) -> None:
    if end.tail.kind != "clean":
        raise Damage(file, end.tail.at, "no whole batch begins here, but a later segment exists")
    if end.position.last + 1 != next_first:
        what = f"the segment that begins with entry {end.position.last + 1} is missing"
        raise Damage(file, end.position.end, what, sequence=end.position.last + 1)


def _set_aside(disk: Disk, files: SegmentFiles, first: int, tail: SegmentTail) -> BatchSetAside | None:
    """Copy what follows the last whole batch to a file of its own, durably, then put zeros there."""
    if tail.kind == "clean":
        return None
    torn = files.source(first).get(tail.at, tail.end - tail.at)
    number = 0
    while disk.exists(kept := f"{DIRECTORY}/{name_segment(first).removesuffix('.seg')}-{tail.at}-{number}.torn"):
        number += 1
    copy = disk.open(kept, create=True)
    copy.write_at(0, torn)
    copy.sync()
    copy.close()
    disk.sync_dir(DIRECTORY)
    handle = files.open_for_writing(first, create=False)
    handle.write_at(tail.at, bytes(len(torn)))
    handle.sync()
    handle.close()
    return BatchSetAside(files.path(first), tail.at, len(torn), kept, tail.kind)


def _make_durable(files: SegmentFiles, first: int, last: Whole) -> None:
    """Write the last batch again and sync it: after a failed sync the page cache may hold what the device does not."""
    handle = files.open_for_writing(first, create=False)
    handle.write_at(last.at, last.data)
    handle.sync()
    handle.close()
