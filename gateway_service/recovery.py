"""What a gateway does before it opens: hand over its spool, rebuild the budgets from the record, close what has no end.

Source: spec page "Gateway", Unknown outcome and Budgets. Interrupted by an outage it goes on where it stopped.
"""

from __future__ import annotations

import structlog

from bus.errors import MessageTooLarge
from bus.ledger_client import LedgerClient
from bus.messages.base import unpack
from bus.messages.ledger import Entry, WriteEntry
from bus.port import Bus
from bus.spool import Spool
from gateway_service import recorded, records
from gateway_service.budget import Allocate, BudgetState, Restore, Settle, apply

_log = structlog.get_logger("gateway")


class Recovery:
    """One pass over the record; `run` may be called again after a LedgerError until it has returned once."""

    def __init__(self, bus: Bus, ledger: LedgerClient, spool: Spool, *, page: int) -> None:
        self._bus = bus
        self._ledger = ledger
        self._spool = spool
        self._page = page
        self._after = -1
        self._unended: dict[str, Entry] = {}
        self.state = BudgetState()

    async def run(self) -> BudgetState:
        """The budgets as the record has them, with no open reservation. Raises LedgerError while the ledger is away."""
        await self._hand_over()
        await self._read_on()
        if self._unended:
            _log.warning("unknown_outcomes_closed", count=len(self._unended))
            await self._write([self._closed(entry) for entry in self._unended.values()])
            await self._read_on()
        return self.state

    async def _hand_over(self) -> None:
        """Everything an earlier incarnation spooled is in the ledger, under its own ids."""
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

    async def _read_on(self) -> None:
        more = True
        while more:
            try:
                found = await self._ledger.read(records.STREAM, after=self._after, limit=self._page, with_bodies=True)
            except MessageTooLarge:
                if self._page == 1:
                    raise
                self._page = max(1, self._page // 2)
                continue
            for entry in found.entries:
                self._fold(entry)
                self._after = entry.sequence
            more = found.more

    def _fold(self, entry: Entry) -> None:
        """One entry of the stream into the budgets; one that cannot be read must not keep the gateway from opening."""
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
        name = entry.submission_id.partition(":")[2]
        if entry.event_type == "PROMPT_SENT" and (reservation := recorded.reservation_in(entry)) is not None:
            apply(self.state, Restore(reservation))
            self._unended[name] = entry
        elif entry.event_type in ("PROMPT_RECEIVED", "PROMPT_FAILED"):
            apply(self.state, Settle(name, recorded.settlement_in(entry)))
            self._unended.pop(name, None)
        elif entry.event_type == "BUDGET_ALLOCATED" and entry.bodies and entry.bodies[0] is not None:
            payload = unpack(entry.bodies[0])
            apply(self.state, Allocate(payload["scope"], payload["limit"]))

    def _closed(self, entry: Entry) -> WriteEntry:
        reservation = self.state.open[entry.submission_id.partition(":")[2]]
        return records.closed_as_unknown(entry, reservation, at_us=round(self._bus.now() * 1_000_000))
