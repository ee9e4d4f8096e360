"""What one durable chained append costs beside a raw 4 KB fdatasync append: `python -m bench.ledger [--count N] [--json FILE]`.

Both go to zero-filled files of one directory, in turns within one run, so that the disk's mood is the same for both. The
writer's append is the whole way of an entry: admission, salted hash, encoding, chain, frame, write, sync, acknowledgement.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.report import arguments, machine, percentile, say_machine, write_json
from hobus.bus import collector
from hobus.bus.clock import SystemClock
from hobus.bus.disk import RealDisk, RealFile
from hobus.bus.dispatch import Call
from hobus.bus.messages.ledger import Part, Provenance, Write, WriteEntry
from hobus.config.snapshot import load_snapshot
from hobus.ledger_service.service import LedgerService

ROUND = 50
GOAL = 1.3
RAW_BYTES = 4096


class _Bus:
    """The ledger's view of a process without a transport."""

    instance = "ledger/1@bench"

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.now = self.clock.now
        self.new_id = self.clock.new_id

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class TimedDisk(RealDisk):
    """The ledger's disk, and how long its last batch took there."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.last_s = 0.0

    def open(self, path: str, *, create: bool = False, write: bool = True) -> RealFile:
        opened = super().open(path, create=create, write=write)
        write_at, sync = opened.write_at, opened.sync

        def timed_write(offset: int, data: bytes) -> None:
            started = time.perf_counter()
            write_at(offset, data)
            self.last_s = time.perf_counter() - started

        def timed_sync() -> None:
            started = time.perf_counter()
            sync()
            self.last_s += time.perf_counter() - started

        opened.write_at, opened.sync = timed_write, timed_sync
        return opened


class RawFile:
    """4 KB appends with fdatasync to a file that was zero-filled."""

    def __init__(self, path: Path, count: int) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        for _ in range(count + 1):
            os.write(self._descriptor, bytes(RAW_BYTES))
        os.fsync(self._descriptor)
        self._at = 0
        self._data = os.urandom(RAW_BYTES)

    def append(self) -> float:
        started = time.perf_counter()
        os.pwrite(self._descriptor, self._data, self._at)
        os.fdatasync(self._descriptor)
        self._at += RAW_BYTES
        return time.perf_counter() - started


class LedgerWriter:
    """Entries like those of a turn: one write at a time, many at once, each in a frame of its own, or many in one frame."""

    def __init__(self, service: LedgerService) -> None:
        self._service = service
        self._count = 0
        self._call = Call("ho1/1@bench", "ho1", "m", 1, "", "", None, "ledger")

    def _write(self, entries: int) -> Write:
        return Write(entries=[self._entry() for _ in range(entries)], parts=[Part(1)] * entries if entries > 1 else [])

    def _entry(self) -> WriteEntry:
        self._count += 1
        session = "0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f21"
        order = f"WO-{session}-{self._count}.1.1"
        return WriteEntry(
            submission_id=f"TOOL_STARTED:{order}/ho1/1@bench",
            stream="ho1m",
            event_type="TOOL_STARTED",
            provenance=Provenance(agent_id="ADMIN", session_id=session, run_seq=1, work_order_id=order, tier="ho1"),
            parents=[f"WO_DISPATCHED:{order}"],
            at_us=1_700_000_000_000_000 + self._count,
            bodies=[b"p" * 240],
            once=f"start:{order}",
        )

    async def append(self, writes: int = 1, entries: int = 1) -> float:
        messages = [self._write(entries) for _ in range(writes)]
        started = time.perf_counter()
        if writes == 1:
            await self._service.on_write(messages[0], self._call)
        else:
            await asyncio.gather(*(self._service.on_write(message, self._call) for message in messages))
        return time.perf_counter() - started


def _row(name: str, seconds: list[float], entries: int = 1) -> dict[str, float | str]:
    return {
        "what": name,
        "p50_us": round(statistics.median(seconds) * 1e6, 1),
        "p99_us": round(percentile(seconds, 99) * 1e6, 1),
        "entries_per_s": round(entries * len(seconds) / sum(seconds)),
    }


async def measure(folder: Path, count: int) -> dict[str, object]:
    """All rows, taken in turns of 50."""
    disk = TimedDisk(folder / "ledger")
    service = LedgerService(disk, load_snapshot().config.ledger)
    await service.start(_Bus())  # pyright: ignore[reportArgumentType]
    collector.settle()  # as the ledger's process does
    raw, writer = RawFile(folder / "raw", count + ROUND), LedgerWriter(service)
    raws: list[float] = []
    ones: list[float] = []
    on_disk: list[float] = []
    groups: dict[int, list[float]] = {8: [], 64: []}
    framed: list[float] = []
    for _ in range(ROUND):
        await writer.append()
    while len(raws) < count:
        raws += [raw.append() for _ in range(ROUND)]
        for _ in range(ROUND):
            ones.append(await writer.append())
            on_disk.append(disk.last_s)
        for size, taken in groups.items():
            taken += [await writer.append(size) for _ in range(ROUND // 10)]
        framed += [await writer.append(entries=64) for _ in range(ROUND // 10)]
    rows = [_row("raw 4 KB write + fdatasync", raws), _row("one durable chained append", ones)]
    rows += [_row("  of it, write + fdatasync", on_disk)]
    rows += [_row(f"{size} writes at once", taken, size) for size, taken in groups.items()]
    rows += [_row("64 writes in one frame", framed, 64)]
    ratio = statistics.median(ones) / statistics.median(raws)
    await service.drain()
    return {"rows": rows, "ratio_p50": round(ratio, 2), "goal": GOAL, "measured_on": _machine(folder), "count": count}


def _machine(folder: Path) -> dict[str, object]:
    mount = max(
        (line.split() for line in Path("/proc/mounts").read_text().splitlines()),
        key=lambda fields: len(fields[1]) if str(folder).startswith(fields[1]) else -1,
    )
    return machine() | {"filesystem": mount[2]}


def main() -> None:
    parser = arguments(__doc__, json=True)
    parser.add_argument("--count", type=int, default=2000, help="appends per row")
    parser.add_argument("--directory", type=Path, help="where to write; a temporary directory if not given")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-ledger-", dir=options.directory))
    try:
        result = asyncio.run(measure(folder, options.count))
    finally:
        shutil.rmtree(folder)
    print(f"{'':32}{'p50 us':>10}{'p99 us':>10}{'entries/s':>12}")
    for row in result["rows"]:
        print(f"{row['what']:32}{row['p50_us']:>10}{row['p99_us']:>10}{row['entries_per_s']:>12}")
    verdict = "met" if result["ratio_p50"] <= result["goal"] else "missed"
    print(f"append / raw, p50: {result['ratio_p50']} (goal at most {result['goal']}: {verdict})")
    say_machine(result["measured_on"])
    write_json(options.json, result)


if __name__ == "__main__":
    sys.exit(main())
