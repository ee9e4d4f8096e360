"""What ledger drills and tests stand on: a bus whose clock they move, a ledger that is spoken to by its handlers, entries to write."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from hobus.bus.disk import RealDisk
from hobus.bus.dispatch import Call
from hobus.bus.errors import LedgerError, RuntimeFault
from hobus.bus.messages.ledger import Ack, Entry, Tail, Write, WriteEntry
from hobus.bus.sim.disk import SimDisk, SimMedium
from hobus.config.sections.record import LedgerConfig
from hobus.ledger_service.service import LedgerService
from hobus.ledger_service.verify import is_ledger, verify_directory


class LyingFile:
    """Cache and device of one file, open or not; `dirty` is what a sync brings from one to the other."""

    def __init__(self) -> None:
        self.disk: LyingDisk | None = None  # that opened it last
        self.cache, self.device = bytearray(), bytearray()
        self.dirty: list[tuple[int, bytes]] = []

    def read_at(self, offset: int, size: int) -> bytes:
        return bytes(self.cache[offset : offset + size])

    def write_at(self, offset: int, data: bytes) -> None:
        _put(self.cache, offset, data)
        self.dirty.append((offset, bytes(data)))

    def sync(self) -> None:
        dirty, self.dirty = self.dirty, []
        if self.disk is not None and self.disk.fail_next_sync:
            self.disk.fail_next_sync = False
            raise OSError(errno.EIO, "injected")
        for offset, data in dirty:
            _put(self.device, offset, data)

    def size(self) -> int:
        return len(self.cache)

    def close(self) -> None:
        """Nothing to give back."""


def _put(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


class LyingDisk(SimDisk):
    """Names are durable at once (they are not what is tested); bytes are durable as the device has them."""

    def __init__(self, files: dict[str, LyingFile]) -> None:
        super().__init__(SimMedium(1 << 30))
        self.lying = files
        self.fail_next_sync = False

    def open(self, path: str, *, create: bool = False, write: bool = True) -> Any:
        if path not in self.lying and not create:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        file = self.lying.setdefault(path, LyingFile())
        file.disk = self
        return file

    def list(self, path: str = "") -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self.lying if name.rpartition("/")[0] == path)

    def exists(self, path: str) -> bool:
        return path in self.lying or any(name.startswith(f"{path}/") for name in self.lying)


def cut_power(files: dict[str, LyingFile]) -> None:
    """What the device has is what there is."""
    for file in files.values():
        file.cache[:] = file.device
        file.dirty.clear()


def ledger_config(**changed: Any) -> LedgerConfig:
    values: dict[str, Any] = {
        "segment_bytes": 65_536, "reserve_bytes": 4_096, "bodies_max_bytes": 32_768, "lazy_commit_ms": 10,
        "outage_wait_ms": 1_000, "search": {"enabled": True},
    }  # fmt: skip
    return LedgerConfig(**{**values, **changed})


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
        if seconds > 0:
            self._sleeping.append(asyncio.get_running_loop().create_future())
            await self._sleeping[-1]
        else:
            await asyncio.sleep(0)

    async def release(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        for sleeper in (one for one in self._sleeping if not one.done()):
            sleeper.set_result(None)
        self._sleeping.clear()
        for _ in range(5):
            await asyncio.sleep(0)


def medium(capacity_bytes: int = 1 << 30) -> SimMedium:
    return SimMedium(capacity_bytes)


def write(submission_id: str, stream: str = "ho1m", *, body: bytes | None = b"payload", **fields: Any) -> WriteEntry:
    values: dict[str, Any] = {
        "submission_id": submission_id, "stream": stream, "event_type": "WO_COMPLETED",
        "at_us": 1_700_000_000_000_000, "bodies": [] if body is None else [body],
    }  # fmt: skip
    return WriteEntry(**{**values, **fields})


def call(sender: str = "operator/1@7") -> Call:
    """A request's context; an operator reads everything."""
    return Call(sender, sender.split("/", maxsplit=1)[0], "m1", 1, "", "", None, "ledger")


class Ledger:
    def __init__(self, service: LedgerService, bus: SmallBus) -> None:
        self.service = service
        self.bus = bus

    async def write(self, *entries: WriteEntry, sender: str = "", origin: str = "ho2/1@7") -> list[Ack]:
        """With a sender: as its request. Without: past the tables of writers, ids and keys, as entries of `origin`."""
        if not sender:
            return await self.service.append(list(entries), origin)
        return (await self.service.on_write(Write(entries=list(entries)), call(sender))).acks

    async def all(self, **fields: Any) -> list[Entry]:
        question = Tail(**{"after": -1, "limit": 10_000, **fields})
        return (await self.service.on_tail(question, call())).entries


async def start(disk: Any, config: LedgerConfig | None = None, bus: SmallBus | None = None) -> Ledger:
    bus = bus or SmallBus()
    service = LedgerService(disk, config or ledger_config())
    await service.start(bus)
    return Ledger(service, bus)


Outcome = Literal["refused", "told", "repaired", "whole", "lost", "invented"]
"""refused: the start or a read said damaged. told: the start did not look there, `verify` says it. repaired: a batch was
set aside and recorded. whole: as if nothing had been. lost, invented: an acknowledged entry is not as it was, or one is
there that nobody wrote."""
SMALL = ledger_config(segment_bytes=2_048)  # several segments after a dozen batches
EXAMPLES_MAX = 5


@dataclass(slots=True)
class Row:
    """One drill, with or without the index file."""

    drill: str
    index: str
    cases: int = 0
    outcomes: dict[str, int] = field(default_factory=dict[str, int])
    lost: int = 0
    wrong: int = 0  # any other outcome than what docs/ledger.md promises for the case
    examples: list[str] = field(default_factory=list[str])

    @property
    def faults(self) -> list[str]:
        return self.examples

    def count(self, outcome: Outcome, expected: Iterable[Outcome], what: str) -> None:
        """One case; `what` names it, should it be wrong."""
        self.cases += 1
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if outcome in expected:
            return
        self.lost += outcome == "lost"
        self.wrong += outcome != "lost"
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(f"{self.drill}: {what}: {outcome}")


Acked = dict[str, int]
"""Submission id -> sequence of everything that was acknowledged; contents follow from the id (`body_of`)."""


def body_of(name: str) -> bytes:
    """The body of an entry: text for one, runs of NUL that fill sectors for the next."""
    number = int(name.rpartition("e")[2])
    return bytes(700 + number) if number % 3 == 1 else name.encode() * 20


async def write_batches(ledger: Any, numbers: Iterable[int], acked: Acked, tell: Callable[[str, int], None]) -> None:
    """A batch of two entries per number."""
    for number in numbers:
        names = [f"e{number}", f"twin-e{number}"]
        for ack in await ledger.write(*(write(name, body=body_of(name), once=f"k:{name}") for name in names)):
            acked[ack.submission_id] = ack.sequence
            tell(ack.submission_id, ack.sequence)


async def made(disk: Any, batches: int, *, ids: str = "00000000") -> Acked:
    acked = Acked()
    ledger = await start(disk, SMALL, SmallBus(SteppedClock(ids=ids)))
    await write_batches(ledger, range(batches), acked, lambda _name, _sequence: None)
    await ledger.service.drain()
    return acked


async def outcome(disk: Any, acked: Acked, *, instance: str = "ledger/1@9") -> Outcome:
    """What a start makes of it; one that succeeds must have, and go on giving, everything that was acknowledged."""
    try:
        ledger = await start(disk, SMALL, SmallBus(instance=instance))
    except (LedgerError, OSError):
        return "refused"
    try:
        return await _judged(ledger, acked)
    except (RuntimeFault, sqlite3.DatabaseError):  # the latter: it is fenced, and its next start makes the index anew
        return "refused"
    finally:
        ledger.service.stop()


async def _judged(ledger: Any, acked: Acked) -> Outcome:
    entries = await ledger.all(with_bodies=True)
    found = {entry.submission_id: entry for entry in entries}
    if [entry.sequence for entry in entries] != list(range(len(entries))):
        return "lost"
    for name, sequence in acked.items():
        if name not in found or found[name].sequence != sequence or found[name].bodies != [body_of(name)]:
            return "lost"
    names = [name for name, entry in found.items() if entry.event_type != "RECOVERED"]
    if any(found[name].bodies != [body_of(name)] or found[name].once != f"k:{name}" for name in names):
        return "invented"
    again = await ledger.write(*(write(name, body=body_of(name), once=f"k:{name}") for name in names)) if names else []
    if any(ack.outcome != "known" or ack.sequence != found[ack.submission_id].sequence for ack in again):
        return "lost"
    (ack,) = await ledger.write(write("afterwards-e0", body=body_of("afterwards-e0"), once="k:afterwards-e0"))
    if ack.outcome == "committed" and ack.sequence != len(entries):
        return "lost"
    return "repaired" if len(names) < len(found) else "whole"


def on_disk(path: Path, acked: Acked) -> Outcome:
    """`outcome` for a directory; where the start does not look, `verify` is asked."""
    with suppress(OSError):
        is_faulty = is_ledger(path) and not verify_directory(path).ok
        verdict = asyncio.run(outcome(RealDisk(path), acked))
        return "told" if verdict in ("whole", "lost", "invented") and is_faulty else verdict
    return "refused"
