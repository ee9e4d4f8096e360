"""From a directory to a ledger that may acknowledge: lock, space, index, recovery, catching up, writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hobus.bus.errors import LedgerError
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.port import Disk
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import BatchSetAside
from hobus.config.schema import LedgerConfig
from hobus.ledger_service.index import FILE as INDEX
from hobus.ledger_service.index import FILES, Index, Position
from hobus.ledger_service.intake import World
from hobus.ledger_service.pages import Pages
from hobus.ledger_service.recovery import Recovered, Removed, catch_up, recover
from hobus.ledger_service.segment import SegmentFiles
from hobus.ledger_service.tables import Tables
from hobus.ledger_service.writer import Writer, disk_full, needed_bytes

LOCK = "lock"


@dataclass(slots=True)
class Opening:
    """A recovered ledger. `catch_up` must be exhausted before `accept`."""

    files: SegmentFiles
    db: Index
    tables: Tables
    recovered: Recovered
    indexed: Position | None
    unlock: Callable[[], None]

    def catch_up(self) -> Iterator[int]:
        """Steps of bringing the index up to the ledger's end. Raises Damage."""
        return catch_up(self.files, self.tables, self.indexed, self.recovered.position)

    def accept(self, config: LedgerConfig, world: World) -> OpenLedger:
        """From here on it writes; the record of a recovery comes first. Raises OSError."""
        writer = Writer(config=config, tables=self.tables, files=self.files, recovered=self.recovered, world=world)
        if self.recovered.removed is not None:
            writer.submit([_record_of(self.recovered.removed, world)], world.origin)
            writer.commit()
        pages = Pages(self.tables, self.db, self.files, read_bytes_max=config.read_bytes_max)
        return OpenLedger(self, self.tables, self.files, writer, pages)

    def close(self) -> None:
        """Give files, index and lock back."""
        self.files.close()
        self.db.close()
        self.unlock()


@dataclass(slots=True)
class OpenLedger:
    """A ledger that writes and reads."""

    opening: Opening
    tables: Tables
    files: SegmentFiles
    writer: Writer
    pages: Pages

    def close(self) -> None:
        """Give everything back; nothing acknowledged depends on it."""
        self.writer.close()
        self.opening.close()


def open_ledger(disk: Disk, config: LedgerConfig) -> Opening:
    """Raises LedgerError (rejected: another process has it, no index can be made; disk_full; damaged), OSError."""
    unlock = disk.lock(LOCK)
    if unlock is None:
        where = disk.real_path(LOCK) or LOCK
        raise LedgerError("rejected", f"another process writes this ledger (it holds {where}): stop that one first")
    files, db = SegmentFiles(disk), None
    try:
        if disk.free_bytes() < needed_bytes(config):
            raise disk_full(disk.free_bytes(), config)
        db, positions = _open_index(disk)
        recovered = recover(disk, files, positions)
    except BaseException:
        if db is not None:
            db.close()
        files.close()
        unlock()
        raise
    indexed = positions[-1] if positions else None
    tables = Tables(db, files, indexed=indexed.last if indexed else -1, known_filter_bytes=config.known_filter_bytes)
    return Opening(files, db, tables, recovered, indexed, unlock)


def discard_index(disk: Disk) -> None:
    """Nothing stands in the index's place, and the next start rebuilds it. Raises LedgerError where that cannot be."""
    for name in FILES:
        try:
            _clear(disk, name)
        except OSError as error:
            raise no_index(disk, error) from error


def no_index(disk: Disk, error: Exception) -> LedgerError:
    """Why a start has no index to decide by, and what mends that."""
    where = disk.real_path(INDEX) or INDEX
    what = f"the index {where} can be neither used nor made anew ({error})"
    return LedgerError("rejected", f"{what}: see that this user may write in its directory, then start again")


def _clear(disk: Disk, name: str) -> None:
    """A file or link is removed; a directory, which somebody may miss, is moved aside."""
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
        raise no_index(disk, error) from error


def _record_of(removed: Removed, world: World) -> WriteEntry:
    """The record of a recovery: which bytes were set aside, and where they are."""
    return WriteEntry(
        submission_id=f"RECOVERED:{world.origin}/1",
        stream="governance",
        event_type="RECOVERED",
        reason=f"{removed.kind}_batch",
        at_us=world.now_us(),
        bodies=[pack_payload(BatchSetAside(*removed))],
    )
