"""HO3: where READ and LOG arrive, and nothing else. Source: spec page "HO3: signal-based memory", Runtime contract."""

from __future__ import annotations

from actors.ho3_memory.store import Store
from bus.dispatch import Actor
from bus.errors import RuntimeFault
from bus.ledger_client import LedgerClient
from bus.port import Bus, Disk
from config.snapshot import Snapshot


class Memory(Actor):
    """Always addressable, never executing by itself: a message comes in, an answer goes out. Calls no model."""

    service = "ho3"

    def __init__(self, *, snapshot: Snapshot, disk: Disk) -> None:
        config = snapshot.config.memory
        if config is None:
            raise ValueError("memory is off in this configuration (ho3.enabled): no memory process belongs to it")
        self._ledger_config = snapshot.config.ledger
        self._config = config
        self._disk = disk

    async def start(self, bus: Bus) -> None:
        """Touches nothing; the record is read in `ready`."""
        ledger = LedgerClient(
            bus,
            request_timeout_s=self._ledger_config.request_timeout_ms / 1000,
            outage_wait_s=self._ledger_config.outage_wait_ms / 1000,
            outstanding_max=self._ledger_config.client_outstanding_max,
        )
        self._store = Store(ledger, page=self._config.rebuild_page)

    async def ready(self) -> str:
        """Ready once the derived state stands as the record has it."""
        try:
            await self._store.catch_up()
        except RuntimeFault as fault:
            return f"ledger: {fault.code}"
        return ""

    def counters(self) -> dict[str, int]:
        """For the heartbeat."""
        return {"applied": self._store.applied_seq}
