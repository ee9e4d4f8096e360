"""The end of an order in the record: find the one that stands, write ours, answer the one that won."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import structlog

from actors.ho1_executor.receipts import (
    Moment,
    Tally,
    end_entry,
    end_once,
    failed,
    late_entry,
    receipt_of,
    text_ref,
)
from bus.errors import LedgerError, RuntimeFault
from bus.ledger_client import LedgerClient
from bus.messages.ledger import Ack
from bus.messages.work_order import Receipt, WorkOrder

_log = structlog.get_logger("ho1_executor")
_FOR_NOW = frozenset({"disk_full", "busy", "unavailable"})
"""What passes by itself."""


class _Kept(NamedTuple):
    """An end that is to be handed over again."""

    order: WorkOrder
    receipt: Receipt
    moment: Moment
    parents: list[str]
    on_durable: Callable[[], None]


class Ends:
    """Ends of orders, over one ledger client."""

    def __init__(self, ledger: LedgerClient, *, retry_s: float) -> None:
        """`retry_s`: pause before an end that the ledger could not take is handed over again."""
        self._ledger = ledger
        self._retry_s = retry_s
        self._kept: dict[str, _Kept] = {}  # work order id -> the end that the ledger could not take yet

    async def find(self, order: WorkOrder) -> Receipt | None:
        """The recorded receipt of this order, whoever wrote it; None while it has no end that can be answered with.

        A model's answer may be passed on before its record is durable. Where its gateway died with that, the end names
        a text that never came into the record: the gateway is asked again, and its next answer counts.
        """
        entry = (await self._ledger.lookup(once=[end_once(order.wo_id)], with_bodies=True))[0]
        if entry is None:
            return None
        ref = text_ref(entry)
        try:
            text = None if ref is None else await self._ledger.body(ref)
        except RuntimeFault as fault:
            if fault.code != "not_found":
                raise
            _log.warning("text_of_end_missing", submission_id=entry.submission_id, ref=ref)
            return None
        return receipt_of(entry, order, text)

    async def record(
        self,
        order: WorkOrder,
        receipt: Receipt,
        moment: Moment,
        *,
        parents: list[str],
        on_durable: Callable[[], None] = lambda: None,
    ) -> Receipt:
        """The receipt that won, once it is durable; ours if nobody ended this order before.

        For an end that says something which stands nowhere else (a tool's output, a failure) and for every repeated
        delivery: only the record knows whether another worker, or the supervisor that gave the order up, was first.
        Raises LedgerError (unavailable, disk_full, busy): the end is handed over until it stands, for whoever asks next
        must find it: a worker waits for it as long as this one lives.
        """
        try:
            entry = end_entry(order, receipt, moment, parents=parents)
            ack = (await self._ledger.write([entry], trace=moment.trace))[0]
        except LedgerError as fault:
            if fault.code in _FOR_NOW:
                self._keep(_Kept(order, receipt, moment, parents, on_durable))
            raise
        on_durable()
        if ack.is_first:
            return receipt
        self._keep_late(ack, order, receipt, moment)
        winner = await self.find(order)
        if winner is not None:
            return winner
        if ack.outcome == "lost":
            return receipt
        if receipt.state == "completed":
            refused = _refused(order, receipt, ack, moment)
            return await self.record(order, refused, moment, parents=parents, on_durable=on_durable)
        raise LedgerError("rejected", f"the ledger refused WO_FAILED of {order.wo_id}: {ack.code}")

    def submit(
        self,
        order: WorkOrder,
        receipt: Receipt,
        moment: Moment,
        *,
        parents: list[str],
        on_durable: Callable[[], None] = lambda: None,
    ) -> None:
        """Hands an end over without waiting, again and again while the ledger cannot take it.

        A lost one is kept as WO_LATE; one that is refused is recorded as failed.
        """
        kept = _Kept(order, receipt, moment, parents, on_durable)

        def acknowledged(done: asyncio.Future[list[Ack]]) -> None:
            if done.cancelled():
                return
            if (fault := done.exception()) is not None:
                if isinstance(fault, LedgerError) and fault.code in _FOR_NOW:
                    self._keep(kept)
                return
            ack = done.result()[0]
            on_durable()
            self._keep_late(ack, order, receipt, moment)
            if ack.outcome == "refused" and receipt.state == "completed":
                self.submit(order, _refused(order, receipt, ack, moment), moment, parents=parents)

        try:
            entry = end_entry(order, receipt, moment, parents=parents)
            self._ledger.submit([entry], trace=moment.trace).add_done_callback(acknowledged)
        except LedgerError:  # busy: over ledger.client_outstanding_max
            self._keep(kept)

    async def record_kept(self, order: WorkOrder) -> Receipt | None:
        """As `record`, of the end of this order that the ledger could not take before; None: there is none."""
        kept = self._kept.pop(order.wo_id, None)
        if kept is None:
            return None
        return await self.record(order, kept.receipt, kept.moment, parents=kept.parents, on_durable=kept.on_durable)

    def _keep(self, kept: _Kept) -> None:
        self._kept[kept.order.wo_id] = kept
        asyncio.get_running_loop().call_later(self._retry_s, self._submit_kept, kept)

    def _submit_kept(self, kept: _Kept) -> None:
        if self._kept.get(kept.order.wo_id) is kept:
            del self._kept[kept.order.wo_id]
            self.submit(kept.order, kept.receipt, kept.moment, parents=kept.parents, on_durable=kept.on_durable)

    def _keep_late(self, ack: Ack, order: WorkOrder, receipt: Receipt, moment: Moment) -> None:
        if ack.outcome != "lost":
            return
        with suppress(RuntimeFault):  # over ledger.client_outstanding_max; the winner stands, which is what matters
            self._ledger.submit([late_entry(order, receipt, moment, winner_id=ack.submission_id)], trace=moment.trace)


def _refused(order: WorkOrder, receipt: Receipt, ack: Ack, moment: Moment) -> Receipt:
    """What stands in the place of an end that the record cannot take at all (too large): the order still gets one.

    A tool has done what it did: `failed` would be an invitation to run it again.
    """
    code = "execution_error" if order.tool_call is None else "unknown_outcome"
    message = f"the ledger refused the end of this order: {ack.code}"
    fault = failed(order, code, message, Tally(started=moment.monotonic), moment)
    return fault.model_copy(update={"cost": receipt.cost})
