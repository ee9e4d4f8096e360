"""What every ledger drill shares: a record to harm, the verdict on what a start makes of it, and the row that counts them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.ledger_drills.rig import SmallBus, SteppedClock, ledger_config, start, write
from hobus.bus.disk import RealDisk
from hobus.bus.errors import LedgerError, RuntimeFault
from hobus.config.sections.record import LedgerConfig
from hobus.ledger_service.verify import is_ledger, verify_directory

Outcome = Literal["refused", "told", "repaired", "whole", "lost", "invented"]
"""refused: the start or a read said damaged. told: the start did not look there, `verify` says it. repaired: a batch was
set aside and recorded. whole: as if nothing had been. lost, invented: an acknowledged entry is not as it was, or one is
there that nobody wrote."""

SMALL = ledger_config(segment_bytes=2_048)
"""Several segments after a dozen batches."""
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


class Acked(dict[str, int]):
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


async def made(disk: Any, batches: int, config: LedgerConfig = SMALL, *, ids: str = "00000000") -> Acked:
    """A drained record of so many batches."""
    acked = Acked()
    ledger = await start(disk, config, SmallBus(SteppedClock(ids=ids)))
    await write_batches(ledger, range(batches), acked, lambda _name, _sequence: None)
    await ledger.service.drain()
    return acked


async def outcome(disk: Any, acked: Acked, config: LedgerConfig = SMALL, *, instance: str = "ledger/1@9") -> Outcome:
    """What a start makes of it; one that succeeds must have, and go on giving, everything that was acknowledged."""
    try:
        ledger = await start(disk, config, SmallBus(instance=instance))
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
    repaired = False
    for name, entry in found.items():
        if entry.event_type == "RECOVERED":
            repaired = True
        elif entry.bodies != [body_of(name)] or entry.once != f"k:{name}":
            return "invented"
    names = [name for name, entry in found.items() if entry.event_type != "RECOVERED"]
    again = await ledger.write(*(write(name, body=body_of(name), once=f"k:{name}") for name in names)) if names else []
    if any(ack.outcome != "known" or ack.sequence != found[ack.submission_id].sequence for ack in again):
        return "lost"
    (ack,) = await ledger.write(write("afterwards-e0", body=body_of("afterwards-e0"), once="k:afterwards-e0"))
    if ack.outcome == "committed" and ack.sequence != len(entries):
        return "lost"
    return "repaired" if repaired else "whole"


def on_disk(path: Path, acked: Acked, config: LedgerConfig = SMALL) -> Outcome:
    """`outcome` for a directory; where the start does not look, `verify` is asked."""
    with suppress(OSError):
        is_faulty = is_ledger(path) and not verify_directory(path).ok
        verdict = asyncio.run(outcome(RealDisk(path), acked, config))
        return "told" if verdict in ("whole", "lost", "invented") and is_faulty else verdict
    return "refused"
