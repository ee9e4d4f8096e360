"""What the ledger's tests stand on: a bus whose clock the test moves, a disk that fails on command, and writes to make."""

from __future__ import annotations

import asyncio
import errno
import struct
from collections.abc import Callable, Container
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID
from zlib import crc32

from hobus.bus.dispatch import Call
from hobus.bus.messages.ledger import Ack, Entry, Lookup, Part, Read, Tail, Write, WriteEntry
from hobus.bus.sim.disk import SimDisk, SimMedium
from hobus.config.sections.record import LedgerConfig
from hobus.ledger_service.frame import HEADER_BYTES, Built, build_frame, store_at
from hobus.ledger_service.service import LedgerService
from hobus.ledger_service.writer import Outcome

MASK = bytes(range(101, 117))
SESSION = "session/0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f21"


def ledger_config(**changed: Any) -> LedgerConfig:
    """Small figures, so that borders are near."""
    values: dict[str, Any] = {
        "segment_bytes": 65_536,
        "reserve_bytes": 4_096,
        "bodies_max_bytes": 32_768,
        "lazy_commit_ms": 10,
        "outage_wait_ms": 1_000,
        "search": {"enabled": True},
    }
    return LedgerConfig(**{**values, **changed})


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


class SteppedClock:
    """Time that only the test moves; ids by counting."""

    def __init__(self, at: float = 1_700_000_000.0, ids: str = "00000000") -> None:
        self.at = at
        self._ids = ids
        self._count = 0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def new_id(self) -> str:
        self._count += 1
        return str(UUID(f"{self._ids}{self._count:024x}"))

    def random(self) -> float:
        return 0.5


class SmallBus:
    """As much of the bus port as the ledger uses; `release` ends all sleeps longer than none."""

    def __init__(self, clock: SteppedClock | None = None, instance: str = "ledger/1@1") -> None:
        self.instance = instance
        self.principal = "client/1"  # on whose behalf the next handlers work
        self.clock = clock or SteppedClock()
        self._sleeping: list[asyncio.Future[None]] = []

    def now(self) -> float:
        return self.clock.now()

    def new_id(self) -> str:
        return self.clock.new_id()

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._sleeping.append(asyncio.get_running_loop().create_future())
        await self._sleeping[-1]

    async def release(self) -> None:
        """Let the index interval pass."""
        for _ in range(3):
            await asyncio.sleep(0)
        for sleeper in self._sleeping:
            if not sleeper.done():
                sleeper.set_result(None)
        self._sleeping.clear()
        for _ in range(5):
            await asyncio.sleep(0)


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


def medium(capacity_bytes: int = 1 << 30) -> SimMedium:
    """A device."""
    return SimMedium(capacity_bytes)


def write(submission_id: str, stream: str = "ho1m", *, body: bytes | None = b"payload", **fields: Any) -> WriteEntry:
    """One entry to write."""
    values: dict[str, Any] = {
        "submission_id": submission_id,
        "stream": stream,
        "event_type": "WO_COMPLETED",
        "at_us": 1_700_000_000_000_000,
        "bodies": [] if body is None else [body],
    }
    return WriteEntry(**{**values, **fields})


def take_over(tenure: int, prev: str, session: str = SESSION) -> WriteEntry:
    """A TookOver, as an owner derives it."""
    return write(f"TookOver:{session}/{tenure}", session, event_type="TookOver", prev=prev, tenure=tenure)


def append(name: str, prev: str, tenure: int, session: str = SESSION, **fields: Any) -> WriteEntry:
    """An entry of a session's journal."""
    values = {"event_type": "StepStarted", "prev": prev, "tenure": tenure, **fields}
    return write(name, session, **values)


def call(sender: str = "operator/1@7") -> Call:
    """A request's context; an operator reads everything."""
    return Call(sender, sender.split("/", maxsplit=1)[0], "m1", 1, "", "", None, "ledger")


class Ledger:
    """A started service, spoken to by its handlers."""

    def __init__(self, service: LedgerService, bus: SmallBus) -> None:
        self.service = service
        self.bus = bus

    async def write(self, *entries: WriteEntry, sender: str = "", origin: str = "ho2/1@7") -> list[Ack]:
        """With a sender: as its request. Without: past the tables of writers, ids and keys, as entries of `origin`."""
        if not sender:
            return await self.service.append(list(entries), origin)
        return (await self.service.on_write(Write(entries=list(entries)), call(sender))).acks

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

    async def all(self, **fields: Any) -> list[Entry]:
        question = Tail(**{"after": -1, "limit": 10_000, **fields})
        return (await self.service.on_tail(question, call())).entries


async def start(disk: Any, config: LedgerConfig | None = None, bus: SmallBus | None = None) -> Ledger:
    """A running ledger on this disk."""
    bus = bus or SmallBus()
    service = LedgerService(disk, config or ledger_config())
    await service.start(bus)
    return Ledger(service, bus)


@asynccontextmanager
async def running(disk: Any, config: LedgerConfig | None = None, bus: SmallBus | None = None):
    """A running ledger on this disk, drained at the end."""
    ledger = await start(disk, config, bus)
    try:
        yield ledger
    finally:
        await ledger.service.drain()
