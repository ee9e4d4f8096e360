"""A process that writes to a ledger until it is killed, and says on its standard output what was acknowledged.

Arguments: directory, incarnation. Each line is `<submission id> <sequence>`, printed after the ack.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from bus.clock import SystemClock
from bus.disk import RealDisk
from bus.messages.ledger import WriteEntry
from config.schema import LedgerConfig
from ledger_service.service import LedgerService

WRITERS = 4
PAUSE_S = 0.004
"""Keeps the ledger small enough to be verified after every kill."""


class ProcessBus:
    """What the ledger needs of a bus."""

    def __init__(self, incarnation: str) -> None:
        self.instance = f"ledger/1@{incarnation}"
        self.clock = SystemClock()
        self.now = self.clock.now
        self.new_id = self.clock.new_id

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


CONFIG = LedgerConfig(
    segment_bytes=262_144,
    reserve_bytes=4_096,
    zero_fill_chunk_bytes=65_536,
    batch_entries_max=64,
    batch_bytes_max=65_536,
    entry_max_bytes=8_192,
    bodies_max_bytes=32_768,
    read_bytes_max=65_536,
    outstanding_max=1_000,
    outstanding_max_bytes=1_000_000,
    lazy_commit_ms=5,
    index_interval_ms=20,
    outage_wait_ms=1_000,
    client_outstanding_max=1_000,
    request_timeout_ms=1_000,
    spool_retry_ms=1_000,
    tails_per_sender_max=16,
    denied_interval_ms=500,
    denied_max=64,
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
        sys.stdout.flush()
        await asyncio.sleep(PAUSE_S)


async def _main(directory: Path, incarnation: str) -> None:
    service = LedgerService(RealDisk(directory), CONFIG)
    await service.start(ProcessBus(incarnation))
    sys.stdout.write("ready -1\n")
    sys.stdout.flush()
    async with asyncio.TaskGroup() as group:
        for number in range(WRITERS):
            group.create_task(_write_for_ever(service, f"ho1/{incarnation}.{number}"))


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2]))
