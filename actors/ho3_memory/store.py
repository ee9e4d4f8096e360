"""The derived state and the record it comes from. Source: spec page "HO3: signal-based memory", Data."""

from __future__ import annotations

from bus.ledger_client import LedgerClient

STREAMS = ("signals", "overlays")


class Store:
    """What the streams of memory add up to, up to `applied_seq`."""

    def __init__(self, ledger: LedgerClient, *, page: int) -> None:
        self._ledger = ledger
        self._page = page
        self.applied_seq = -1
        """Every entry of the two streams up to this sequence of the ledger counts."""

    async def catch_up(self) -> None:
        """Reads on to the head of the record. Raises RuntimeFault while the ledger is away."""
        heads = [await self._read(stream) for stream in STREAMS]
        self.applied_seq = max(self.applied_seq, min(heads))

    async def _read(self, stream: str) -> int:
        """The ledger's head when the last page was read."""
        after, more, head = self.applied_seq, True, -1
        while more:
            found = await self._ledger.read(stream, after=after, limit=self._page, with_bodies=True)
            if found.entries:
                after = found.entries[-1].sequence
            more, head = found.more, found.head
        return head
