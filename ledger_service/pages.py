"""Answers to readers: entries as messages, with or without bodies, in pages bounded by count and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hobus.bus.errors import BusError
from hobus.bus.messages.ledger import Entries, Entry
from hobus.bus.record.entry import spelled_more_bytes, to_entry
from hobus.ledger_service.index import Committed, Index
from hobus.ledger_service.segment import SegmentFiles
from hobus.ledger_service.tables import Tables


class Pages:
    """Reads of a running ledger."""

    def __init__(self, tables: Tables, index: Index, files: SegmentFiles, *, read_bytes_max: int) -> None:
        self._tables = tables
        self._index = index
        self._files = files
        self._read_bytes_max = read_bytes_max

    def query(self, where: Mapping[str, Any], *, after: int, limit: int, newest_first: bool) -> list[Committed]:
        """From the index. Raises BusError(malformed) for a field that cannot be asked for."""
        for field, value in where.items():
            wanted = int if field == "run_seq" else str
            if type(value) is not wanted:
                raise BusError("malformed", f"`where.{field}` takes a {wanted.__name__}")
        try:
            places = self._index.select(where, after=after, limit=limit, newest_first=newest_first)
        except ValueError as error:
            raise BusError("malformed", str(error)) from None
        return [Committed(place, self._files.entry(place)) for place in places]

    def page(self, found: Sequence[Committed], limit: int, *, head: int, with_bodies: bool) -> Entries:
        """At most `limit` of what was found (one more was asked for), and no more bytes than the limit."""
        entries: list[Entry] = []
        size = 0
        for committed in found[:limit]:
            size += _size_of(committed, with_bodies=with_bodies)
            if entries and size > self._read_bytes_max:
                break
            entries.append(self._message(committed, with_bodies=with_bodies))
        return Entries.model_construct(entries=entries, more=len(entries) < len(found), head=head)

    def messages(self, found: Sequence[Committed | None], *, with_bodies: bool) -> list[Entry | None]:
        """All of them, or BusError(too_large)."""
        size = sum(_size_of(committed, with_bodies=with_bodies) for committed in found if committed is not None)
        if len(found) > 1 and size > self._read_bytes_max:
            raise BusError("too_large", f"{size} bytes; the limit is ledger.read_bytes_max: ask for fewer at once")
        return [None if one is None else self._message(one, with_bodies=with_bodies) for one in found]

    def _message(self, committed: Committed, *, with_bodies: bool) -> Entry:
        place, entry = committed
        bodies = [data for _, data in self._files.bodies(place, entry)] if with_bodies else []
        return to_entry(entry, place.sequence, place.chain, bodies)


def _size_of(committed: Committed, *, with_bodies: bool) -> int:
    """At least as many bytes as a reader gets of it, its ids spelled out."""
    bodies = sum(committed.entry.body_lengths) if with_bodies else 0
    return committed.place.length + spelled_more_bytes(committed.entry) + bodies
