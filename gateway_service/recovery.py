"""What a gateway does before it opens: hand over its spool, rebuild the budgets from the record, close what has no end.

Interrupted by an outage it goes on where it stopped. It
begins behind the newest BUDGET_SNAPSHOT, so that a start takes no longer the longer the record is.

Snapshots are of what the record has, not of what a gateway means to have spent. While an earlier incarnation may still
be heard by the ledger, whatever stands is read; later nobody else writes, and this one's own acknowledged writes, in
their order, are the same entries: they are counted as they are acknowledged, and none is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog

from hobus.bus.errors import MessageTooLarge, RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ids import derive_entry_id
from hobus.bus.messages.ledger import Ack, Entry, Query, Read, WriteEntry
from hobus.bus.port import Bus
from hobus.bus.promise import Promise
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.prompts import BudgetAllocated, BudgetSnapshot
from hobus.bus.spool import Spool
from hobus.gateway_service import limits, records
from hobus.gateway_service.budget import BudgetState, list_figures, restore_state

_log = structlog.get_logger("gateway")


class OwnLedger(LedgerClient):
    """A client that tells of each write of this process what became of it."""

    on_decided: Callable[[Sequence[WriteEntry], list[Ack] | RuntimeFault], None]

    def submit(self, entries: Sequence[WriteEntry], **how: Any) -> Promise[list[Ack]]:
        acks = LedgerClient.submit(self, entries, **how)
        acks.then(partial(self.on_decided, entries))
        return acks


class Recovery:
    """One pass over the record; `run` may be called again after a LedgerError until it has returned once."""

    def __init__(self, bus: Bus, ledger: OwnLedger, spool: Spool, *, heard_s: float) -> None:
        """Begin with nothing. `heard_s`: so long after its end the ledger may still hear an earlier incarnation."""
        self._bus = bus
        self._ledger = ledger
        self._spool = spool
        self._heard_s = heard_s
        self._alone_at = 0.0  # monotonic
        self._is_alone = False
        self._decided: list[tuple[WriteEntry, Ack]] | None = None  # own, while the record is read for the last time
        ledger.on_decided = self._note_decided
        self._page = limits.REBUILD_PAGE
        self._after = -1
        self._unended: dict[str, Entry | WriteEntry] = {}
        self.state = BudgetState(limits.RECENT_CALLS_MAX)
        self._behind = 0  # entries since the newest snapshot

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
        self._alone_at = self._bus.clock.monotonic() + self._heard_s
        if self.is_due:
            await self._record()
        return self.state.copy()  # the caller's own: ours stays the record's

    async def take_snapshot(self) -> None:
        """Record what the record comes to; what somebody else wrote to the last moment is in it, or is read behind it.

        Raises LedgerError while the ledger is away.
        """
        if not self._is_alone:
            self._decided = own = [] if self._bus.clock.monotonic() >= self._alone_at else None
            await self._read_on()
            self._is_alone, self._decided = own is not None, None
            for entry, ack in own or ():
                self._count_own(entry, ack)
        await self._record()

    def _note_decided(self, entries: Sequence[WriteEntry], outcome: list[Ack] | RuntimeFault) -> None:
        if isinstance(outcome, RuntimeFault):
            return
        self._behind += len(entries)
        for entry, ack in zip(entries, outcome, strict=True):
            if self._is_alone:
                self._count_own(entry, ack)
            elif self._decided is not None:
                self._decided.append((entry, ack))

    def _count_own(self, entry: WriteEntry, ack: Ack) -> None:
        """Fold a write of this process that stands; acks come in the order of the record."""
        if ack.is_first and ack.sequence > self._after:
            self._take(entry, ack.sequence)

    @property
    def is_due(self) -> bool:
        """Return whether a snapshot, which has a line per scope, costs no more than what it saves."""
        if self._behind < limits.SNAPSHOT_ENTRIES:
            return False
        return self._behind >= len(self.state.scopes) - len(self.state.idle_orders)

    async def _record(self) -> None:
        payload = BudgetSnapshot(self._after, list_figures(self.state), tuple(sorted(self.state.open)))
        entry = records.make_entry("BUDGET_SNAPSHOT", str(self._after), payload=payload, at=self._bus.now())
        self._behind = 0
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
                unended: dict[str, Entry | WriteEntry] = {
                    name: one for name, one in zip(names, sent, strict=True) if one is not None
                }
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
                self._take(entry, entry.sequence)
            self._behind += len(found.entries)
            more = found.more

    def _take(self, entry: Entry | WriteEntry, sequence: int) -> None:
        """Fold one entry into the budgets; one that cannot be read must not keep the gateway from opening."""
        self._after = sequence
        try:
            self._fold(entry)
        except (ValueError, TypeError, LookupError) as error:
            origin, said = getattr(entry, "origin", self._bus.instance), type(error).__name__
            about = {"submission_id": entry.submission_id, "sequence": sequence, "origin": origin}
            _log.error("record_unreadable", **about, error=said)

    def _fold(self, entry: Entry | WriteEntry) -> None:
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

    def _close(self, entry: Entry | WriteEntry) -> WriteEntry:
        reservation = self.state.open[records.read_name(entry)]
        return records.make_unknown_end(entry, reservation, at=self._bus.now())
