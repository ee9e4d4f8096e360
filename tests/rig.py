"""What the tests of each actor stand on: a simulated cluster with the real ledger, to which they add their own processes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Self, TypeVar

from hobus.bus.ledger_client import LedgerClient, read_pages
from hobus.bus.messages.ledger import Entry, Read
from hobus.bus.peer import Peer
from hobus.bus.sim.world import World
from hobus.config.snapshot import Snapshot
from hobus.ledger_service.service import LedgerService
from tests.conformance.clusters import ledger_settings

T = TypeVar("T")


class SimulatedRig:
    """A world, its ledger, and who reads and writes it; whatever is killed can be started again on the same medium.

    A test's rig names the streams that its actor writes, and how long what nobody waits for rests before it is in them.
    """

    streams: tuple[str, ...] = ()
    rests_s = 0.1

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.config = snapshot.config
        # Half as many beats as shipped, which keep within the same time-out: nothing here is about the bus.
        bus = snapshot.config.bus
        bus = bus.model_copy(update={"beat_interval_ms": bus.peer_timeout_ms // 2})
        self.world = World(bus, config_digest=snapshot.digest)
        self.operator = self.world.client("operator")  # reads everything
        self._clients: dict[str, LedgerClient] = {}
        self.start_ledger()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_ledger(self) -> Peer:
        """A ledger on the one medium."""
        disk = self.world.disk("ledger")
        self.ledger_service = LedgerService(disk, self.config.ledger)
        self.ledger = self.world.start(self.ledger_service, role="ledger", disk=disk)
        return self.ledger

    def kill_ledger(self) -> None:
        """SIGKILL."""
        self.world.kill(self.ledger.instance)

    def run(self, scenario: Coroutine[Any, Any, T]) -> T:
        """What it returns, in virtual time."""
        return self.world.run(scenario)

    def close(self) -> None:
        """The end of the world."""
        self.world.close()

    async def entries(self, *streams: str, rests_s: float | None = None) -> list[Entry]:
        """The entries of these streams, else of the rig's own, with their bodies, in the record's order."""
        await asyncio.sleep(self.rests_s if rests_s is None else rests_s)
        questions = [Read(stream=stream, limit=10_000, with_bodies=True) for stream in streams or self.streams]
        pages = [(await read_pages(self.operator, question, timeout_s=5))[0] for question in questions]
        return sorted((entry for page in pages for entry in page), key=lambda entry: entry.sequence)

    def ledger_client(self, role: str, peer: Peer | None = None) -> LedgerClient:
        """The ledger as this process has it, else one more of the role, the same each time."""
        if peer is not None or role not in self._clients:
            self._clients[role] = LedgerClient(peer or self.world.client(role), ledger_settings())
        return self._clients[role]


def of_type(entries: Sequence[Entry], event_type: str) -> list[Entry]:
    """Those of one event type."""
    return [entry for entry in entries if entry.event_type == event_type]


def names(entries: Sequence[Entry]) -> list[str]:
    """Event types in order."""
    return [entry.event_type for entry in entries]
