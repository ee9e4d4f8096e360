"""What every part of a supervisor works with, and the entries that it writes beside journals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any

from msgspec import Struct, field

from hobus.actors.ho2_supervisor.attention.engine import Engine
from hobus.actors.ho2_supervisor.turn.history import HistoryLimits
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ids import derive_dispatched_id, derive_entry_id, derive_writer_id, end_key
from hobus.bus.messages.ledger import Provenance, WriteEntry
from hobus.bus.messages.work_order import Receipt
from hobus.bus.port import Bus
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.orders import end_of
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot


class Resources(Struct, frozen=True):
    """One configuration, and the ways out of the process, which stay the same as long as a supervisor lives."""

    bus: Bus
    client: LedgerClient
    snapshot: Snapshot
    config: AdminConfig
    limits: HistoryLimits
    packages: Mapping[str, str]  # agent id -> the package that owns it
    attention: Engine
    _numbers: Iterator[int] = field(default_factory=partial(count, 1))

    def entry(
        self,
        event_type: str,
        payload: tuple[Any, ...],
        *,
        texts: Iterable[str] = (),
        submission_id: str = "",
        stream: str = "ho2m",
        **facts: Any,
    ) -> WriteEntry:
        """Build an entry of this moment beside the journals; its parents say which journal entry it stands on.

        Without an id of its own it is counted, per incarnation. `texts`: what the payload is about, as bodies behind
        it. `facts`: its other fields.
        """
        counted = derive_writer_id(self.bus.instance, str(next(self._numbers))) if not submission_id else ""
        return WriteEntry(
            submission_id=submission_id or derive_entry_id(event_type, counted),
            stream=stream,
            event_type=event_type,
            at_us=self._read_clock_us(),
            bodies=[pack_payload(payload), *(text.encode() for text in texts)],
            **facts,
        )

    def order_end(self, receipt: Receipt, *, provenance: Provenance, trace: str) -> WriteEntry:
        """Build the end of an order that no executor answered; an end that HO1 recorded after all comes first."""
        event_type = f"WO_{receipt.state.upper()}"
        submission_id = derive_entry_id(event_type, derive_writer_id(receipt.wo_id, self.bus.instance))
        parents, texts = [derive_dispatched_id(receipt.wo_id)], []
        if receipt.output_result is not None and receipt.output_result.text.text:
            texts = [receipt.output_result.text.text]
        end = end_of(receipt, submission_id, at_us=self._read_clock_us(), has_own_text=bool(texts))
        return self.entry(
            event_type, end, submission_id=submission_id, stream="ho1m", texts=texts,
            reason="" if receipt.error is None else receipt.error.code, provenance=provenance,
            parents=parents, trace=trace, once=end_key(receipt.wo_id),
        )  # fmt: skip

    def _read_clock_us(self) -> int:
        return round(self.bus.now() * 1_000_000)
