"""Under which configuration a cluster runs, and CONFIG_SNAPSHOT: what the record has of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hobus.bus.errors import LedgerError
from hobus.bus.limits import LEDGER_REQUEST_TIMEOUT_MS
from hobus.bus.messages.ids import derive_snapshot_id
from hobus.bus.messages.ledger import Write, WriteEntry, Written
from hobus.bus.port import Bus
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import OperatorCommand
from hobus.config.snapshot import Snapshot


class ClusterRun(Struct):
    """The configuration under which a cluster runs; the launcher's, changed here."""

    snapshot: Snapshot
    origin: str
    given: Mapping[str, Mapping[str, str]]
    """Role -> variables of the user's environment that its processes get."""


def make_snapshot_entry(snapshot: Snapshot, now_s: float) -> WriteEntry:
    """Build CONFIG_SNAPSHOT:<digest>: the snapshot itself, and the files behind it; a repeat adds nothing."""
    return WriteEntry(
        submission_id=derive_snapshot_id(snapshot.digest),
        stream="governance",
        event_type="CONFIG_SNAPSHOT",
        at_us=round(now_s * 1_000_000),
        bodies=[snapshot.to_bytes(), snapshot.contents],
    )


def make_command_entry(said: OperatorCommand, now_s: float, *, instance: str, number: int) -> WriteEntry:
    """Build OPERATOR_COMMAND: the launcher's n-th."""
    return WriteEntry(
        submission_id=f"OPERATOR_COMMAND:{instance}/{number}",
        stream="governance",
        event_type="OPERATOR_COMMAND",
        at_us=round(now_s * 1_000_000),
        bodies=[pack_payload(said)],
    )


async def record_snapshot(bus: Bus, snapshot: Snapshot) -> None:
    """Make the snapshot durable in the record. Raises RuntimeFault, retryable while the ledger is away."""
    await record(bus, make_snapshot_entry(snapshot, bus.now()))


async def record(bus: Bus, entry: WriteEntry) -> None:
    """Make the entry durable. Raises RuntimeFault, retryable while the ledger is away."""
    timeout_s = LEDGER_REQUEST_TIMEOUT_MS / 1000
    written = await bus.request("ledger", Write(entries=[entry]), expect=Written, timeout_s=timeout_s)
    ack = written.acks[0]
    if not ack.is_first:
        raise LedgerError(ack.code or "conflict", f"{entry.submission_id} was {ack.outcome}", retryable=False)
