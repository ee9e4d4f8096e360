"""From a directory to a ledger that may acknowledge: lock, space, index, recovery, catching up. Source: spec page "The ledger"."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bus.errors import LedgerError
from bus.port import Disk
from config.schema import LedgerConfig
from ledger_service.index import Index, Position
from ledger_service.recovery import Recovered, catch_up, recover
from ledger_service.segment import SegmentFiles
from ledger_service.tables import Tables
from ledger_service.writer import disk_full

LOCK = "lock"
INDEX = "index.sqlite"


class Opened(NamedTuple):
    """A recovered ledger; `steps` brings its index up to date and must be exhausted before anything is written."""

    files: SegmentFiles
    index: Index
    tables: Tables
    recovered: Recovered
    steps: Iterator[int]
    unlock: Callable[[], None]


def open_ledger(disk: Disk, config: LedgerConfig) -> Opened:
    """Raises LedgerError (rejected: another process has it; disk_full; damaged), OSError."""
    unlock = disk.lock(LOCK)
    if unlock is None:
        where = disk.real_path(LOCK) or LOCK
        raise LedgerError("rejected", f"another process writes this ledger (it holds {where}); stop that one first")
    files, index = SegmentFiles(disk), None
    try:
        needed = config.segment_bytes + config.reserve_bytes
        if disk.free_bytes() < needed:
            raise disk_full(disk.free_bytes(), needed)
        index, positions = _open_index(disk)
        recovered = recover(disk, files, positions)
    except BaseException:
        if index is not None:
            index.close()
        files.close()
        unlock()
        raise
    indexed = positions[-1] if positions else None
    tables = Tables(index, files, indexed=indexed.last if indexed else -1)
    return Opened(files, index, tables, recovered, catch_up(files, tables, indexed, recovered.position), unlock)


def discard_index(disk: Disk) -> None:
    """Remove the index; the next start rebuilds it from the segments."""
    for name in (INDEX, f"{INDEX}-wal", f"{INDEX}-shm"):
        if disk.exists(name):
            disk.remove(name)


def _open_index(disk: Disk) -> tuple[Index, list[Position]]:
    path = disk.real_path(INDEX)
    try:
        index = Index.open(path)
        return index, index.positions()
    except sqlite3.DatabaseError:
        discard_index(disk)
        index = Index.open(path)
        return index, index.positions()
