"""Configurations by their digests, as the record holds them: how a process comes by another one than its own."""

from __future__ import annotations

from collections import OrderedDict

from hobus.bus.errors import ConfigError, RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ids import derive_body_ref, derive_snapshot_id
from hobus.bus.window import remember
from hobus.config.snapshot import Snapshot


class Snapshots:
    """The snapshot that this process began with, and the last few that were fetched from the record by digest.

    What is in progress under one that is kept no more holds it itself.
    """

    def __init__(self, own: Snapshot, ledger: LedgerClient, *, kept_max: int) -> None:
        self._own = own
        self._ledger = ledger
        self._kept_max = kept_max
        self._others: OrderedDict[str, Snapshot] = OrderedDict()

    async def get(self, digest: str) -> Snapshot:
        """Return the snapshot with this digest.

        Raises ConfigError when the record has none that is whole and can be read here, the record's retryable fault.
        """
        if digest == self._own.digest:
            return self._own
        snapshot = self._others.get(digest) or await self._fetch(digest)
        remember(self._others, digest, snapshot, at_most=self._kept_max)
        return snapshot

    async def _fetch(self, digest: str) -> Snapshot:
        try:
            snapshot = Snapshot.from_bytes(await self._ledger.body(derive_body_ref(derive_snapshot_id(digest), 0)))
        except ConfigError as fault:
            raise ConfigError(f"the recorded snapshot {digest}: {fault.detail}") from None
        except RuntimeFault as fault:
            if fault.retryable:
                raise
            raise ConfigError(f"no snapshot {digest[:80]!r} in the record") from None
        if snapshot.digest != digest:
            raise ConfigError(f"the snapshot recorded as {digest} has another digest")
        return snapshot
