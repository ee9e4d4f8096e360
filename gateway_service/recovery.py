"""What a gateway does before it opens: hand over its spool, rebuild the budgets from the record, close what has no end.

Interrupted by an outage it goes on where it stopped. It
begins behind the newest BUDGET_SNAPSHOT, so that a start takes no longer the longer the record is.
"""

from __future__ import annotations

import structlog

from hobus.bus.errors import MessageTooLarge
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ids import derive_entry_id
from hobus.bus.messages.ledger import Entry, Query, Read, WriteEntry
from hobus.bus.port import Bus
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.prompts import BudgetAllocated, BudgetSnapshot
from hobus.bus.spool import Spool
from hobus.gateway_service import limits, records
from hobus.gateway_service.budget import BudgetState, list_figures, restore_state

_log = structlog.get_logger("gateway")


class Recovery:
    """One pass over the record; `run` may be called again after a LedgerError until it has returned once."""

    def __init__(self, bus: Bus, ledger: LedgerClient, spool: Spool) -> None:
        self._bus = bus
        self._ledger = ledger
        self._spool = spool
        self._page = limits.REBUILD_PAGE
        self._after = -1
        self._unended: dict[str, Entry] = {}
        self.state = BudgetState(limits.RECENT_CALLS_MAX)
        self._read_count = 0  # since the newest snapshot

    async def run(self) -> BudgetState:
        """Return the recorded budgets, with no open reservation. Raises LedgerError while the ledger is away."""
        await self._hand_over()
        if self._after < 0:
            await self._begin_at_snapshot()
        await self._read_on()
        if self._unended:
            _log.warning("unknown_outcomes_closed", count=len(self._unended))
            await self._write([self._close(entry) for entry in self._unended.values()])
            await self._read_on()
        await self.take_snapshot(read_on=False)
        return self.state.copy()  # the caller's own: ours stays the record's

    async def take_snapshot(self, *, read_on: bool = True) -> None:
        """Fold what was recorded since, and record the sum if that is `limits.SNAPSHOT_ENTRIES` or more.

        From the record alone, never from what a gateway has in mind: so an entry of another incarnation that wrote
        until the last moment is in it, or is read behind it. Raises LedgerError while the ledger is away.
        """
        if read_on:
            await self._read_on()
        lines = len(self.state.scopes) - len(self.state.idle_orders)
        if self._read_count < max(limits.SNAPSHOT_ENTRIES, lines):
            return  # a snapshot has a line per scope: so it costs no more than what it saves
        payload = BudgetSnapshot(self._after, list_figures(self.state), tuple(sorted(self.state.open)))
        entry = records.make_entry("BUDGET_SNAPSHOT", str(self._after), payload=payload, at=self._bus.now())
        self._read_count = 0
        try:
            await self._write([entry])
        except MessageTooLarge as fault:
            _log.error("snapshot_too_large", scopes=len(self.state.scopes), detail=fault.detail)

    async def _hand_over(self) -> None:
        """Hand everything that an earlier incarnation spooled to the ledger, under its own ids."""
        waiting = self._spool.waiting
        await self._write(waiting)
        for entry in waiting:
            self._spool.forget(entry.submission_id)

    async def _write(self, entries: list[WriteEntry]) -> None:
        for start in range(0, len(entries), self._page):
            for entry, ack in zip(
                chunk := entries[start : start + self._page], await self._ledger.write(chunk), strict=True
            ):
                if ack.outcome == "refused":
                    _log.warning("record_refused", submission_id=entry.submission_id, code=ack.code)

    async def _begin_at_snapshot(self) -> None:
        """Begin at the newest snapshot, if there is any: before it only the calls open there are read."""
        where = {"stream": records.STREAM, "event_type": "BUDGET_SNAPSHOT"}
        newest = await self._ledger.page(Query(where=where, limit=1, newest_first=True, with_bodies=True))
        for entry in newest.entries:
            try:
                if (snapshot := read_payload(BudgetSnapshot, entry)) is None:
                    raise LookupError("erased")
                after, figures, names = snapshot
                sent = await self._ledger.lookup(
                    [derive_entry_id("PROMPT_SENT", name) for name in names], with_bodies=True
                )
                unended = {name: one for name, one in zip(names, sent, strict=True) if one is not None}
                held = [held for sent in unended.values() if (held := records.read_held(sent)[0]) is not None]
                self.state = restore_state(figures, held, self.state.idle_orders_max)
                self._after, self._unended = after, unended
            except (ValueError, TypeError, LookupError) as error:
                _log.error("snapshot_unreadable", submission_id=entry.submission_id, error=type(error).__name__)

    async def _read_on(self) -> None:
        more = True
        while more:
            try:
                question = Read(stream=records.STREAM, after=self._after, limit=self._page, with_bodies=True)
                found = await self._ledger.page(question)
            except MessageTooLarge:
                if self._page == 1:
                    raise
                self._page = max(1, self._page // 2)
                continue
            for entry in found.entries:
                self._fold(entry)
                self._after = entry.sequence
                self._read_count += entry.event_type != "BUDGET_SNAPSHOT"
            more = found.more

    def _fold(self, entry: Entry) -> None:
        """Fold one entry into the budgets; one that cannot be read must not keep the gateway from opening."""
        try:
            self._apply(entry)
        except (ValueError, TypeError, LookupError) as error:
            _log.error(
                "record_unreadable",
                submission_id=entry.submission_id,
                sequence=entry.sequence,
                origin=entry.origin,
                error=type(error).__name__,
            )

    def _apply(self, entry: Entry) -> None:
        name = records.read_name(entry)
        if entry.event_type == "PROMPT_SENT":
            reservation, order = records.read_held(entry)
            if order is not None:
                self.state.allocate(*order)
            if reservation is not None:
                self.state.restore(reservation)
                self._unended[name] = entry
        elif entry.event_type in ("PROMPT_RECEIVED", "PROMPT_FAILED"):
            self.state.settle(name, records.read_settlement(entry))
            self._unended.pop(name, None)
        elif entry.event_type == "BUDGET_ALLOCATED" and (new := read_payload(BudgetAllocated, entry)) is not None:
            self.state.allocate(new.scope, new.limit)

    def _close(self, entry: Entry) -> WriteEntry:
        reservation = self.state.open[records.read_name(entry)]
        return records.make_unknown_end(entry, reservation, at=self._bus.now())
