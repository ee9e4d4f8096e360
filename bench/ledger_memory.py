"""What a flood of big bodies and of questions for them leaves in memory: `python -m bench.ledger_memory`.

usage: python -m bench.ledger_memory [--bodies 656] [--questions 400] [--at-once 16]

A real cluster. A flooder writes so many bodies of 8 MB, so many at once, asks again where it is told `busy`, and then asks as
fast as it is answered for pages and lists with those bodies. The kernel's peak of the memory (RSS) of broker and ledger
is read, and what they hold until they are back near what it was. All that was acknowledged must stand in the record.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, cluster
from bench.report import arguments, markdown
from hobus.bus.clock import SystemClock
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import Entries, Query, Read, Write, WriteEntry, Written
from hobus.bus.port import Bus
from hobus.launch.cluster.client import client_of
from hobus.launch.cluster.kernel import return_big_memory
from hobus.ledger_service.reader import read_entries

BODY_BYTES = 7_900_000
_BODY = bytes(range(256)) * (BODY_BYTES // 256)
"""One for all: what the flooder itself holds is what is on its way. Each is salted and stored by itself."""
_TIMEOUT_S = 120.0
"""Longer than any answer takes: what is given up is still on its way, and sent again beside that."""
BACK_WITHIN_S = 60.0
SLACK_MB = 48.0
"""Back is: at most so much above what it was before the flood."""
_PAUSE_S = 0.05
_AGAIN_S = 1.0
"""Who was refused without a word of when to come again."""
_WATCHED = ("broker", "ledger")


@dataclass(frozen=True, slots=True)
class Row:
    """One process through one flood."""

    flood: str
    process: str
    before_mb: float
    peak_mb: float
    after_mb: float
    back_s: float | None  # None: not within the time
    answered: int
    refused: int


class _Watch:
    """Memory of some processes; the kernel keeps the peaks."""

    def __init__(self, found: Cluster) -> None:
        self._pids = {actor.split("/")[0]: process.pid for actor, process in found.processes.items()}
        for process in _WATCHED:
            with suppress(OSError):  # another user's process keeps the peak of its start
                Path(f"/proc/{self._pids[process]}/clear_refs").write_text("5")  # begins a new peak
        self.before = self.now()

    def now(self, line: str = "VmRSS") -> dict[str, float]:
        """MB by process."""
        return {process: self._read(self._pids[process], line) for process in _WATCHED}

    def peak(self) -> dict[str, float]:
        """The most since this began."""
        return self.now("VmHWM")

    @staticmethod
    def _read(pid: int, line: str) -> float:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(next(row for row in status.splitlines() if row.startswith(line)).split()[1]) / 1024

    async def back(self) -> dict[str, float | None]:
        """Seconds until each is back; None for one that is not within the time."""
        began = time.monotonic()
        left: dict[str, float | None] = dict.fromkeys(_WATCHED)
        while (waited := time.monotonic() - began) < BACK_WITHIN_S and None in left.values():
            for process, size in self.now().items():
                if left[process] is None and size <= self.before[process] + SLACK_MB:
                    left[process] = round(waited, 1)
            await asyncio.sleep(_PAUSE_S)
        return left


def _entry(number: int, writer: str) -> WriteEntry:
    session = "0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f21"
    return WriteEntry(
        submission_id=f"WO_COMPLETED:WO-{session}-{number + 1}.1.1/{writer}",
        stream="ho1m",
        event_type="WO_COMPLETED",
        at_us=1,
        bodies=[_BODY],
        once=f"end:WO-{session}-{number + 1}.1.1",
    )


async def _many(count: int, at_once: int, step: Callable[[int], Awaitable[int]]) -> tuple[int, int]:
    """`step` for each number, so many at a time; how many were answered, and how often one was refused before."""
    numbers, refused, answered = iter(range(count)), 0, 0

    async def work() -> None:
        nonlocal refused, answered
        for number in numbers:
            refused += await step(number)
            answered += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    return answered, refused


async def _insisted(bus: Bus, message: Any, expect: Any) -> int:
    """How often it was refused until it was answered."""
    for refused in range(10_000):
        try:
            await bus.request("ledger", message, expect=expect, timeout_s=_TIMEOUT_S)
        except RuntimeFault as fault:
            await bus.sleep(fault.pause_s(_AGAIN_S, 0.5))
        else:
            return refused
    raise SystemExit("never answered")


async def _flood(
    found: Cluster, role: str, name: str, count: int, at_once: int, ask: Callable[[Bus, int], Awaitable[int]]
) -> list[Row]:
    async with client_of(found.place, role, clock=SystemClock()) as peer:
        await peer.start(timeout_s=10.0)
        watch = _Watch(found)
        answered, refused = await _many(count, at_once, lambda number: ask(peer, number))
    peak, back, after = watch.peak(), await watch.back(), watch.now()
    return [
        Row(
            name, process, round(watch.before[process], 1), round(peak[process], 1), round(after[process], 1),
            back[process], answered, refused,
        )
        for process in _WATCHED
    ]  # fmt: skip


async def measure(bodies: int, questions: int, at_once: int) -> tuple[list[Row], int]:
    """Both floods; how many of the bodies stand in the record afterwards."""
    with cluster({}) as found:
        rows = await _flood(
            found, "ho1", f"{bodies} bodies of 8 MB, {at_once} at once", bodies, at_once,
            lambda bus, number: _insisted(bus, Write(entries=[_entry(number, bus.instance)]), Written),
        )  # fmt: skip
        rows += await _flood(
            found, "operator", f"{questions} pages with such bodies, {at_once} at once", questions, at_once,
            lambda bus, number: _insisted(bus, _question(number), Entries),
        )  # fmt: skip
        stands = sum(entry.event_type == "WO_COMPLETED" for entry in read_entries(found.home.ledger))
    return rows, stands


def _question(number: int) -> Read | Query:
    if number % 2:
        return Read(stream="ho1m", after=number, limit=100, with_bodies=True)
    return Query(where={"event_type": "WO_COMPLETED"}, after=number, limit=100, with_bodies=True)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--bodies", type=int, default=656)
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--at-once", type=int, default=16)
    given = parser.parse_args()
    return_big_memory()
    rows, stands = asyncio.run(measure(given.bodies, given.questions, given.at_once))
    columns = ("flood", "process", "RSS before, MB", "peak", "after", "back after, s", "answered", "refused as busy")
    told = markdown(
        columns, ([value if value is not None else "not" for value in asdict(row).values()] for row in rows)
    )
    own_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        told,
        f"the flooder itself: {own_mb} MB at most",
        f"{stands} of {given.bodies} acknowledged bodies in the record",
        sep="\n",
    )
    sys.exit(0 if stands == given.bodies and all(row.back_s is not None for row in rows) else 1)


if __name__ == "__main__":
    main()
