"""What the ledger's tests stand on beside the drills' rig: stored frames, a disk that fails on command, further questions."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Container
from contextlib import asynccontextmanager
from typing import Any
from zlib import crc32

from bench.ledger_drills import rig
from bench.ledger_drills.rig import SmallBus, SteppedClock, call, ledger_config, medium, write
from hobus.bus.messages.ledger import Entry, Lookup, Part, Read, WriteEntry
from hobus.bus.sim.disk import SimDisk
from hobus.config.sections.record import LedgerConfig
from hobus.ledger_service.frame import HEADER_BYTES, Built, build_frame, store_at
from hobus.ledger_service.writer import Outcome

__all__ = ["SmallBus", "SteppedClock", "call", "ledger_config", "medium", "write"]  # and what stands below
MASK = bytes(range(101, 117))
SESSION = "session/0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f21"


def stored_frame(
    first_sequence: int,
    chain: bytes,
    entries: list[bytes],
    bodies: list[tuple[bytes, bytes]],
    *,
    at: int = 0,
    mask: bytes = MASK,
) -> Built:
    """One batch as it is stored at byte `at` of a segment."""
    built = build_frame(first_sequence, chain, entries, [salt + data for salt, data in bodies], mask)
    return built._replace(data=store_at(built, at, mask))


def in_format(version: int, frame: bytearray) -> bytes:
    """The same batch as another version of the software would have written its header."""
    struct.pack_into("<H", frame, 8, version)
    struct.pack_into("<I", frame, HEADER_BYTES - 12, crc32(frame[: HEADER_BYTES - 12]))
    return bytes(frame)


class FailingDisk:
    """A disk whose n-th write or sync (counted from 0 over all files) fails, or tears first."""

    def __init__(self, inner: SimDisk, path: str | None = None) -> None:
        self.inner = inner
        self.calls: list[str] = []
        self.fail_at: int | None = None
        self.error = errno.EIO
        self.torn_bytes: int | None = None
        self.free: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def open(self, path: str, *, create: bool = False, write: bool = True) -> Any:
        return _FailingHandle(self, self.inner.open(path, create=create, write=write))

    def free_bytes(self) -> int:
        return self.inner.free_bytes() if self.free is None else self.free

    def step(self, what: str, partly: Callable[[], None] = lambda: None) -> None:
        self.calls.append(what)
        if self.fail_at is not None and len(self.calls) > self.fail_at:
            partly()
            raise OSError(self.error, "injected")


class _FailingHandle:
    def __init__(self, disk: FailingDisk, inner: Any) -> None:
        self._disk = disk
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write_at(self, offset: int, data: bytes) -> None:
        torn = self._disk.torn_bytes
        self._disk.step("write", lambda: self._inner.write_at(offset, data[:torn]) if torn else None)
        self._inner.write_at(offset, data)

    def sync(self) -> None:
        self._disk.step("sync")
        self._inner.sync()


def take_over(tenure: int, prev: str, session: str = SESSION) -> WriteEntry:
    return write(f"TookOver:{session}/{tenure}", session, event_type="TookOver", prev=prev, tenure=tenure)


def append(name: str, prev: str, tenure: int, session: str = SESSION, **fields: Any) -> WriteEntry:
    values = {"event_type": "StepStarted", "prev": prev, "tenure": tenure, **fields}
    return write(name, session, **values)


class Ledger(rig.Ledger):
    """A started service, of which more is asked than drills do."""

    async def write_together(
        self,
        *writes: list[WriteEntry],
        resting: int = 0,
        follows: str = "",
        denied: Container[int] = (),
        origin: str = "ho2/1@7",
    ) -> list[Outcome]:
        """As one frame of independent writes, past the tables; so many entries at the end of the last one rest on it.

        `follows`: the entry that this last one follows.
        """
        parts = [Part(len(entries)) for entries in writes[:-1]] + [Part(len(writes[-1]), resting, follows)]
        entries = [entry for one in writes for entry in one]
        answer = self.service._open().writer.submit(entries, origin, parts=parts, denied=denied)
        self.service._commit_soon(urgent=True)
        return await answer

    async def lookup(
        self, *submission_ids: str, once: tuple[str, ...] = (), bodies: bool = False
    ) -> list[Entry | None]:
        question = Lookup(submission_ids=list(submission_ids), once=list(once), with_bodies=bodies)
        return (await self.service.on_lookup(question, call())).entries

    async def read(self, stream: str, **fields: Any) -> list[Entry]:
        return (await self.service.on_read(Read(stream=stream, **{"limit": 1000, **fields}), call())).entries


async def start(disk: Any, config: LedgerConfig | None = None, bus: SmallBus | None = None) -> Ledger:
    """A running ledger on this disk."""
    started = await rig.start(disk, config, bus)
    return Ledger(started.service, started.bus)


@asynccontextmanager
async def running(disk: Any, config: LedgerConfig | None = None, bus: SmallBus | None = None):
    ledger = await start(disk, config, bus)
    try:
        yield ledger
    finally:
        await ledger.service.drain()
