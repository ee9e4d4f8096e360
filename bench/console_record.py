"""A record of any size and a long session in it, for `bench.console`: turns that a cluster took, and copies of them.

Some sessions are played. Their entries are written again under the ids of other sessions, by the ledger's own writer:
admission, chain, frames, index. Then the cluster takes the turns of one long session, one after the other.
"""

from __future__ import annotations

import asyncio
import sys
import time
from uuid import UUID, uuid4

from bench.cluster import Cluster
from bench.turn import ROWS, talk
from hobus.bus.clock import SystemClock
from hobus.bus.disk import RealDisk
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.entry import WriteEntry
from hobus.config.snapshot import load_snapshot
from hobus.launch.cluster.client import connect_bus
from hobus.ledger_service.intake import Surroundings, make_salts
from hobus.ledger_service.opening import OpenLedger, open_ledger
from hobus.ledger_service.reader import EntryFilter, read_entries
from hobus.ledger_service.writer import Outcome

PLAYED, TURNS_EACH = 2, 10
PATIENT = {"launcher.ready_timeout_ms": 600_000}  # a start reads every prompt and signal of the record
_TOGETHER = 10
_FIELDS = WriteEntry._fields


async def taken(cluster: Cluster, turns: int) -> str:
    """The session of so many turns, one after the other."""
    async with connect_bus(cluster.place, "door") as door:
        return (await talk(door, None, turns))[0]


def make(cluster: Cluster, *, entries: int, turns: int) -> str:
    """A cluster that is up, on a record of about so many entries; the id of the session with so many turns."""
    cluster.up()
    played = [asyncio.run(taken(cluster, TURNS_EACH)) for _ in range(PLAYED)]
    assert cluster("down").code == 0
    found = [list(read_entries(cluster.home.ledger, EntryFilter(session=one), with_bodies=True)) for one in played]
    per_turn = sum(map(len, found)) / PLAYED / TURNS_EACH
    asyncio.run(copied(cluster, dict(zip(played, found, strict=True)), int(entries - turns * per_turn)))
    cluster.up(settings=PATIENT | ROWS[0][1])
    return asyncio.run(taken(cluster, turns))


async def copied(cluster: Cluster, played: dict[str, list[Entry]], until: int) -> None:
    """Further sessions like those that were played, until the record has so many entries."""
    clock, disk, begun = SystemClock(), RealDisk(cluster.home.ledger), time.perf_counter()
    opening = open_ledger(disk, load_snapshot().config.ledger)
    for _ in opening.catch_up():
        pass
    world = Surroundings("ledger/1@bench", disk.free_bytes, lambda: int(clock.now() * 1e6), make_salts(clock.new_id))
    ledger = opening.accept(load_snapshot().config.ledger, world)
    try:
        while ledger.writer.head < until:
            for session, entries in played.items():
                await write(ledger, session, entries, _TOGETHER)
    finally:
        ledger.tables.flush()
        ledger.close()
    print(f"{ledger.writer.head + 1:,} entries in {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)


async def write(ledger: OpenLedger, session: str, entries: list[Entry], count: int) -> None:
    """So many more sessions like this one; what no id of it names stays as it is."""
    answers: list[asyncio.Future[list[Outcome]]] = []
    for _ in range(count):
        other = str(UUID(bytes=uuid4().bytes, version=5))
        about = (one for one in entries if session in one.submission_id)
        answers += [ledger.writer.submit([renamed(one, session, other)], one.origin) for one in about]
    while ledger.writer.outstanding:
        ledger.writer.commit()
    for outcomes in await asyncio.gather(*answers):
        assert all(isinstance(one, list) and one[0].outcome == "committed" for one in outcomes), outcomes
    ledger.tables.flush()


def renamed(entry: Entry, session: str, other: str) -> WriteEntry:
    names = (name for name in _FIELDS if name not in ("bodies", "provenance"))
    fields = {name: _in(getattr(entry, name), session, other) for name in names}
    order = (entry.provenance.work_order_id or "").replace(session, other)
    bodies = [(body or b"").replace(session.encode(), other.encode()) for body in entry.bodies]
    about = entry.provenance._replace(session_id=other, work_order_id=order)
    return WriteEntry(**fields, provenance=about, bodies=bodies)


def _in(value: object, session: str, other: str) -> object:
    if isinstance(value, str):
        return value.replace(session, other)
    return [_in(one, session, other) for one in value] if isinstance(value, list) else value
