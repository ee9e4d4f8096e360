"""Configuration snapshots by digest: an order is executed under the one that it names. The last few are kept."""

from __future__ import annotations

from collections import OrderedDict

from hobus.bus.errors import ConfigError, RuntimeFault, WorkOrderFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ids import body_ref, snapshot_id
from hobus.config.snapshot import Snapshot


class Snapshots:
    """The worker's own snapshot, and others fetched from the record."""

    def __init__(self, own: Snapshot, ledger: LedgerClient, *, kept_max: int) -> None:
        self._own = own
        self._ledger = ledger
        self._kept_max = kept_max
        self._others: OrderedDict[str, Snapshot] = OrderedDict()

    async def get(self, digest: str) -> Snapshot:
        """The snapshot with this digest. Raises WorkOrderFault(execution_error) when there is none."""
        if digest == self._own.digest:
            return self._own
        snapshot = self._others.get(digest)
        if snapshot is None:
            snapshot = await self._fetched(digest)
        self._others[digest] = snapshot
        self._others.move_to_end(digest)
        while len(self._others) > self._kept_max:
            self._others.popitem(last=False)
        return snapshot

    async def _fetched(self, digest: str) -> Snapshot:
        try:
            snapshot = Snapshot.from_bytes(await self._ledger.body(body_ref(snapshot_id(digest), 0)))
        except ConfigError as fault:
            raise WorkOrderFault("execution_error", f"the recorded snapshot {digest}: {fault.detail}") from None
        except RuntimeFault as fault:
            if fault.retryable:
                raise
            raise WorkOrderFault("execution_error", f"no snapshot {digest[:80]!r} in the record") from None
        if snapshot.digest != digest:
            raise WorkOrderFault("execution_error", f"the snapshot recorded as {digest} has another digest")
        return snapshot
