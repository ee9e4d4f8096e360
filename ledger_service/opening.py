"""From a directory to a ledger that may acknowledge: lock, space, index, recovery, catching up, writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hobus.bus.errors import BusError, LedgerError
from hobus.bus.messages.ledger import Entries, Entry, WriteEntry
from hobus.bus.port import Disk
from hobus.bus.record.entry import INTEGER_MAX, estimate_spelled_bytes, to_entry
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import BatchSetAside
from hobus.config.sections.record import LedgerConfig
from hobus.ledger_service import limits
from hobus.ledger_service.index import FILE as INDEX
from hobus.ledger_service.index import FILES, Committed, Index, Position
from hobus.ledger_service.intake import Surroundings
from hobus.ledger_service.limits import compute_needed_bytes, make_disk_full
from hobus.ledger_service.recovery import Recovered, catch_up, recover
from hobus.ledger_service.segment import SegmentFiles
from hobus.ledger_service.tables import Tables
from hobus.ledger_service.writer import Writer

LOCK = "lock"


class _Held(Struct):
    """What a ledger's one process has of it."""

    files: SegmentFiles
    db: Index
    tables: Tables
    unlock: Callable[[], None]

    def close(self) -> None:
        """Give files, index and lock back; nothing acknowledged depends on it."""
        self.files.close()
        self.db.close()
        self.unlock()


class Opening(_Held):
    """A recovered ledger. `catch_up` must be exhausted before `accept`."""

    recovered: Recovered
    indexed: Position | None

    def catch_up(self) -> Iterator[int]:
        """Yield steps of bringing the index up to the ledger's end. Raises Damage."""
        return catch_up(self.files, self.tables, self.indexed, self.recovered.position)

    def accept(self, config: LedgerConfig, world: Surroundings) -> OpenLedger:
        """Return the ledger, which writes from here on; the record of a recovery comes first. Raises OSError."""
        writer = Writer(config=config, tables=self.tables, files=self.files, recovered=self.recovered, world=world)
        if self.recovered.removed is not None:
            writer.submit([_record_of(self.recovered.removed, world)], world.origin)
            writer.commit()
        return OpenLedger(self.files, self.db, self.tables, self.unlock, writer)


class OpenLedger(_Held):
    """A ledger that writes, and answers readers: entries with or without bodies, in pages of bounded size."""

    writer: Writer

    def close(self) -> None:
        self.writer.close()
        _Held.close(self)  # no `super()` in a class with slots

    def query(
        self, where: Mapping[str, Any], *, after: int, before: int | None, limit: int, newest_first: bool
    ) -> list[Committed]:
        """Query the index. Raises BusError(malformed) for a field that cannot be asked for."""
        for field, value in where.items():
            wanted = int if field == "run_seq" else str
            if type(value) is not wanted:
                raise BusError("malformed", f"`where.{field}` takes a {wanted.__name__}")
        try:
            end = INTEGER_MAX if before is None else before
            places = self.db.select(where, after=after, before=end, limit=limit, newest_first=newest_first)
        except ValueError as error:
            raise BusError("malformed", str(error)) from None
        return [Committed(place, self.files.entry(place)) for place in places]

    def page(self, found: Sequence[Committed], limit: int, *, head: int, with_bodies: bool) -> Entries:
        """Return at most `limit` of what was found (one more was asked for), and no more bytes than the limit."""
        entries: list[Entry] = []
        size = 0
        for committed in found[:limit]:
            size += _estimate_size(committed, with_bodies=with_bodies)
            if entries and size > limits.READ_BYTES_MAX:
                break
            entries.append(self._make_message(committed, with_bodies=with_bodies))
        return Entries(entries=entries, more=len(entries) < len(found), head=head)

    def messages(self, found: Sequence[Committed | None], *, with_bodies: bool) -> list[Entry | None]:
        """Return all of them, or raise BusError(too_large)."""
        size = sum(_estimate_size(committed, with_bodies=with_bodies) for committed in found if committed is not None)
        if len(found) > 1 and size > limits.READ_BYTES_MAX:
            raise BusError("too_large", f"{size} bytes; a page has {limits.READ_BYTES_MAX}: ask for fewer at once")
        return [None if one is None else self._make_message(one, with_bodies=with_bodies) for one in found]

    def _make_message(self, committed: Committed, *, with_bodies: bool) -> Entry:
        place, entry = committed
        bodies = [data for _, data in self.files.bodies(place, entry)] if with_bodies else []
        return to_entry(entry, place.sequence, place.chain, bodies)


def _estimate_size(committed: Committed, *, with_bodies: bool) -> int:
    """Return at least as many bytes as a reader gets of the entry, its ids spelled out."""
    bodies = sum(committed.entry.body_lengths) if with_bodies else 0
    return estimate_spelled_bytes(committed.entry, committed.place.length) + bodies


def open_ledger(disk: Disk, config: LedgerConfig) -> Opening:
    """Open a ledger. Raises LedgerError (rejected: held, or no index can be made; disk_full; damaged), OSError."""
    unlock = disk.lock(LOCK)
    if unlock is None:
        where = disk.real_path(LOCK) or LOCK
        raise LedgerError("rejected", f"another process writes this ledger (it holds {where}): stop that one first")
    files, db = SegmentFiles(disk), None
    try:
        if disk.free_bytes() < compute_needed_bytes(config):
            raise make_disk_full(disk.free_bytes(), config)
        db, positions = _open_index(disk)
        recovered = recover(disk, files, positions)
    except BaseException:
        if db is not None:
            db.close()
        files.close()
        unlock()
        raise
    indexed = positions[-1] if positions else None
    tables = Tables(db, files, indexed=indexed.last if indexed else -1, known_filter_bytes=limits.KNOWN_FILTER_BYTES)
    return Opening(files, db, tables, unlock, recovered, indexed)


def discard_index(disk: Disk) -> None:
    """Remove whatever stands in the index's place; the next start rebuilds it. Raises LedgerError otherwise."""
    for name in FILES:
        try:
            clear(disk, name)
        except OSError as error:
            raise make_no_index(disk, error) from error


def make_no_index(disk: Disk, error: Exception) -> LedgerError:
    """Return why a start has no index to decide by, and what fixes that."""
    where = disk.real_path(INDEX) or INDEX
    what = f"the index {where} can be neither used nor made anew ({error})"
    return LedgerError("rejected", f"{what}: see that this user may write in its directory, then start again")


def clear(disk: Disk, name: str) -> None:
    """Clear a place: remove a file or link; move a directory, which somebody may miss, aside."""
    try:
        disk.remove(name)
    except FileNotFoundError:
        return
    except OSError:
        number = 0
        while disk.exists(aside := f"{name}-{number}.aside"):
            number += 1
        disk.rename(name, aside)


def _open_index(disk: Disk) -> tuple[Index, list[Position]]:
    path = disk.real_path(INDEX)
    try:
        index = Index.open(path)
        try:
            return index, index.positions()
        except sqlite3.DatabaseError:
            index.close()
            raise
    except sqlite3.DatabaseError:
        discard_index(disk)
    try:
        return Index.open(path), []
    except sqlite3.Error as error:
        raise make_no_index(disk, error) from error


def _record_of(removed: BatchSetAside, world: Surroundings) -> WriteEntry:
    submission_id, bodies = f"RECOVERED:{world.origin}/1", [pack_payload(removed)]
    reason = f"{removed.kind}_batch"
    return WriteEntry(submission_id, "governance", "RECOVERED", world.now_us(), reason=reason, bodies=bodies)
