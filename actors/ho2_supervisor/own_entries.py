"""Entries that HO2 writes beside a session's journal: the chain, the gate, escalations, context, lost orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hobus.bus.messages.ids import by_writer, dispatched_id, end_key, entry_id
from hobus.bus.messages.ledger import Provenance, WriteEntry
from hobus.bus.messages.work_order import Receipt
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.orders import end_of


class OwnEntries:
    """Builds entries, of stream ho2m unless said otherwise; submission ids count per incarnation."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._count = 0

    def next_id(self, event_type: str) -> str:
        """A submission id of this incarnation, by counting."""
        self._count += 1
        return entry_id(event_type, by_writer(self._instance, str(self._count)))

    def ho2m(  # noqa: PLR0913 - an entry has these fields
        self,
        event_type: str,
        payload: tuple[Any, ...],
        *,
        provenance: Provenance,
        parents: Sequence[str],
        at_us: int,
        texts: Iterable[str] = (),
        submission_id: str = "",
        stream: str = "ho2m",
        decision: str = "",
        reason: str = "",
        trace: str = "",
        once: str | None = None,
    ) -> WriteEntry:
        """One entry, by count unless it has an id of its own; its parents say which journal entry it stands on.

        `texts`: what the payload is about, as bodies behind it.
        """
        return WriteEntry(
            submission_id=submission_id or self.next_id(event_type),
            stream=stream,
            event_type=event_type,
            decision=decision,
            reason=reason,
            provenance=provenance,
            parents=list(parents),
            trace=trace,
            at_us=at_us,
            bodies=[pack_payload(payload), *(text.encode() for text in texts)],
            once=once,
        )

    def lost_order(self, receipt: Receipt, *, provenance: Provenance, at_us: int, trace: str) -> WriteEntry:
        """WO_FAILED of an order that nobody answered; an end that HO1 recorded after all stands before it."""
        submission_id = entry_id("WO_FAILED", by_writer(receipt.wo_id, self._instance))
        parents = [dispatched_id(receipt.wo_id)]
        return WriteEntry(
            submission_id=submission_id,
            stream="ho1m",
            event_type="WO_FAILED",
            reason="" if receipt.error is None else receipt.error.code,
            provenance=provenance,
            parents=parents,
            trace=trace,
            at_us=at_us,
            bodies=[pack_payload(end_of(receipt, submission_id, parents, at_us=at_us))],
            once=end_key(receipt.wo_id),
        )
