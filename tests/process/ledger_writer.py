"""Processes that write to a ledger until they are killed, and say on a common standard output what was acknowledged.

For each line `<incarnation>` on standard input one is forked, so that only the first one loads. It says `ready <pid>`,
then `<submission id> <sequence>` after each ack; when it is dead its parent says `dead <pid>`. Argument: the directory.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from hobus.bus.clock import SystemClock
from hobus.bus.disk import RealDisk
from hobus.bus.messages.ledger import WriteEntry
from hobus.config.sections.record import LedgerConfig, SearchConfig
from hobus.ledger_service.service import LedgerService

WRITERS = 4
PAUSE_S = 0.008
"""Keeps the ledger small enough to be verified after every kill."""


class ProcessBus:
    def __init__(self, incarnation: str) -> None:
        self.instance = f"ledger/1@{incarnation}"
        self.principal = "ledger_writer"
        self.clock = SystemClock()
        self.now = self.clock.now
        self.new_id = self.clock.new_id

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


CONFIG = LedgerConfig(
    segment_bytes=262_144,
    reserve_bytes=4_096,
    bodies_max_bytes=32_768,
    lazy_commit_ms=5,
    outage_wait_ms=1_000,
    search=SearchConfig(enabled=True),
)


def entry(name: str) -> WriteEntry:
    """The write of this id: its content follows from the id alone."""
    return WriteEntry(
        submission_id=name,
        stream="ho1m",
        event_type="WO_COMPLETED",
        at_us=1,
        bodies=[name.encode() * 20],
        once=f"k:{name}",
    )


async def _write_for_ever(service: LedgerService, writer: str) -> None:
    number = 0
    while True:
        entries = [entry(f"{writer}/{number + step}") for step in range(3)]
        number += 3
        for ack in await service.append(entries, f"{writer}@1"):
            sys.stdout.write(f"{ack.submission_id} {ack.sequence}\n")
        sys.stdout.flush()  # far below what a pipe takes in one piece
        await asyncio.sleep(PAUSE_S)


async def _write(directory: Path, incarnation: str) -> None:
    service = LedgerService(RealDisk(directory), CONFIG)
    await service.start(ProcessBus(incarnation))
    _say(f"ready {os.getpid()}")
    async with asyncio.TaskGroup() as group:
        for number in range(WRITERS):
            group.create_task(_write_for_ever(service, f"ho1/{incarnation}.{number}"))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(directory: Path) -> None:
    """One writer after the other, until nobody asks for more."""
    while incarnation := sys.stdin.readline().strip():
        pid = os.fork()
        if pid == 0:
            asyncio.run(_write(directory, incarnation))
        os.waitpid(pid, 0)
        _say(f"dead {pid}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
