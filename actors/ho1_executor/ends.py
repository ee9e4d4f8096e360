"""The end of an order in the record: find the one that stands, write ours, answer the one that won."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct, field

from hobus.actors.ho1_executor.receipts import (
    OrderUsage,
    Stamp,
    ToolSaid,
    end_entry,
    make_failed,
    read_order_end,
)
from hobus.bus.errors import LedgerError, RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ids import end_key
from hobus.bus.messages.ledger import Ack
from hobus.bus.messages.work_order import Receipt, WorkOrder

_FOR_NOW = frozenset({"disk_full", "busy", "unavailable"})
"""What passes by itself."""


class EndWritten(Struct, eq=False):
    """The end of an order, until it stands in the record."""

    order: WorkOrder
    receipt: Receipt
    stamp: Stamp
    parents: list[str]
    on_durable: Callable[[], None] = lambda: None
    said: ToolSaid = field(default_factory=ToolSaid)
    outcome: Ack | BaseException | None = None  # what the last hand-over came to; None: not known yet


class OrderEnds:
    """Find and write ends of orders over one ledger client."""

    def __init__(self, ledger: LedgerClient, *, retry_s: float) -> None:
        """Begin empty. `retry_s`: pause before an end that the ledger could not take is submitted again."""
        self._ledger = ledger
        self._retry_s = retry_s
        self._kept: dict[str, EndWritten] = {}  # work order id -> the end that the ledger could not take yet
        self._retry: asyncio.TimerHandle | None = None  # of all that is kept

    async def find(self, order: WorkOrder) -> Receipt | None:
        """Return the recorded receipt of this order, whoever wrote it; None while it has no end to answer with."""
        entry = (await self._ledger.lookup(once=[end_key(order.wo_id)], with_bodies=True))[0]
        return None if entry is None else read_order_end(entry, order)

    async def record(self, end: EndWritten) -> Receipt:
        """Submit the end and return the receipt that won, once it is durable.

        This one if nobody ended the order before.

        For an end that says something which stands nowhere else (a tool's output, a failure) and for every repeated
        delivery: only the record knows whether another worker, or the supervisor that gave the order up, was first. The
        end does not depend on whether the caller keeps waiting. Raises LedgerError (unavailable, disk_full, busy); the
        end is submitted until it stands, so that the next caller finds it.
        """
        self.submit(end, urgent=True)
        while end.outcome is None:  # twice for one that is refused
            await self._ledger.flush()
        if isinstance(end.outcome, BaseException):
            raise end.outcome
        if end.outcome.is_first:
            return end.receipt
        winner = await self.find(end.order)
        if winner is not None:
            return winner
        if end.outcome.outcome == "lost":
            return end.receipt
        raise LedgerError("rejected", f"the ledger refused WO_FAILED of {end.order.wo_id}: {end.outcome.code}")

    def submit(self, end: EndWritten, *, urgent: bool = False) -> None:
        """Submit an end without waiting, again and again while the ledger cannot take it.

        An end that loses is kept as WO_LATE; one that is refused is recorded as failed.
        """
        end.outcome = None
        entry = end_entry(end.order, end.receipt, end.stamp, parents=end.parents, said=end.said)
        try:
            # No order ends in its journal without its end here because its worker was killed just then.
            done = self._ledger.submit([entry], trace=end.stamp.trace, urgent=urgent, at_once=True)
        except LedgerError as fault:  # busy: too much is unacknowledged
            self._on_not_taken(end, fault)
        else:
            done.then(partial(self._on_acknowledged, end))

    def keeps(self, wo_id: str) -> bool:
        """Return whether the ledger could not take the end of this order yet."""
        return wo_id in self._kept

    async def record_kept(self, order: WorkOrder) -> Receipt | None:
        """Record the end of this order that the ledger could not take before; None: there is none."""
        kept = self._kept.pop(order.wo_id, None)
        return None if kept is None else await self.record(kept)

    def submit_kept(self) -> None:
        """Submit everything again that the ledger could not take before."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        kept, self._kept = self._kept, {}
        for end in kept.values():
            self.submit(end)

    def _on_acknowledged(self, end: EndWritten, outcome: list[Ack] | RuntimeFault) -> None:
        if isinstance(outcome, RuntimeFault):
            self._on_not_taken(end, outcome)
            return
        ack = outcome[0]
        if ack.outcome == "refused" and end.receipt.state == "completed":
            end.receipt, end.said = _make_refused(end, ack), ToolSaid()
            self.submit(end, urgent=True)
            return
        end.outcome = ack
        if ack.outcome != "refused":  # else nothing stands, and its tool may not be run as if it never had been
            end.on_durable()
        if ack.outcome != "lost":
            return
        with suppress(RuntimeFault):  # too much is unacknowledged; the winner stands, which is what matters
            parents = [ack.submission_id, *end.receipt.prompt_received_ids]
            late = end_entry(end.order, end.receipt, end.stamp, parents=parents, said=end.said, is_late=True)
            self._ledger.submit([late], trace=end.stamp.trace)

    def _on_not_taken(self, end: EndWritten, fault: BaseException) -> None:
        end.outcome = fault
        if not isinstance(fault, LedgerError) or fault.code not in _FOR_NOW:
            return
        self._kept[end.order.wo_id] = end
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(self._retry_s, self.submit_kept)


def _make_refused(end: EndWritten, ack: Ack) -> Receipt:
    """Build the end in place of one that the record cannot take at all (too large): the order still gets one.

    A tool has done what it did: `failed` would be an invitation to run it again.
    """
    code = "execution_error" if end.order.tool_call is None else "unknown_outcome"
    message = f"the ledger refused the end of this order: {ack.code}"
    fault = make_failed(end.order, code, message, OrderUsage(end.stamp.monotonic), end.stamp)
    return fault.model_copy(update={"cost": end.receipt.cost})
