"""Salts for body hashes: nobody can guess a short text from its hash once salt and body are overwritten.

Counted from a secret that is drawn once per process and never written, so one salt tells nothing about another, and the
simulation, whose draws are seeded, gets the same salts each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from hobus.bus.messages.ledger import Ack, WriteEntry
from hobus.bus.record.catalog import is_session_stream
from hobus.bus.record.entry import encode_stored, to_stored
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import WriteConflict
from hobus.config.sections.ledger import LedgerConfig
from hobus.ledger_service.admission import Earlier, StreamHead, advance, fault_of_shape, judge, refusal
from hobus.ledger_service.frame import SALT_BYTES, salted_hash
from hobus.ledger_service.index import Committed
from hobus.ledger_service.segment import SegmentFiles
from hobus.ledger_service.tables import Tables


def salts(new_id: Callable[[], str]) -> Callable[[], bytes]:
    """A function that gives a fresh salt at each call; `new_id` is the bus port's draw (two of 122 bits each)."""
    secret = f"{new_id()}{new_id()}".encode()
    count = 0

    def draw() -> bytes:
        nonlocal count
        count += 1
        return sha256(secret + count.to_bytes(8, "big")).digest()[:SALT_BYTES]

    return draw


WRITE_CONFLICT = "WRITE_CONFLICT"
_NO_HEAD = StreamHead()


class Surroundings(NamedTuple):
    """What the ledger takes from outside; the simulation gives its own."""

    origin: str  # the ledger's instance: origin of its own entries
    free_bytes: Callable[[], int]
    now_us: Callable[[], int]
    draw_salt: Callable[[], bytes]


@dataclass(slots=True)
class Batch:
    """What the next frame holds."""

    first_sequence: int
    now_us: int
    entries: list[bytes] = field(default_factory=list)
    bodies: list[tuple[bytes, bytes]] = field(default_factory=list)  # salt, data
    body_counts: list[int] = field(default_factory=list)
    written: dict[str, WriteEntry] = field(default_factory=dict)
    size_bytes: int = 0


@dataclass(slots=True)
class Intake:
    """Decides writes one by one; what it stages is seen by every later decision."""

    _config: LedgerConfig
    _tables: Tables
    _files: SegmentFiles
    _world: Surroundings

    def is_full(self, batch: Batch) -> bool:
        """Whether the batch takes no further entry."""
        return len(batch.entries) >= self._config.batch_entries_max or batch.size_bytes >= self._config.batch_bytes_max

    def decide(self, entry: WriteEntry, origin: str, batch: Batch) -> Ack:
        """The answer to a write, true once the batch is durable. Raises Damage if an earlier entry cannot be read."""
        head = self._tables.head(entry.stream) if is_session_stream(entry.stream) else _NO_HEAD
        if fault_of_shape(entry):
            return refusal(entry, "invalid", head)
        known, ack = self._judged(entry, origin, head, batch)
        if ack is None:
            return self._stage(entry, origin, head, batch)
        if ack.code == "conflict" and known is not None:
            self._record_conflict(entry, origin, known, batch)
        return ack

    def recall(self, entry: WriteEntry) -> Ack | None:
        """The answer to a write that adds nothing, since it or who has its once key stands there; None for any other.

        Raises Damage if the earlier entry cannot be read.
        """
        _, ack = self._judged(entry, "", _NO_HEAD, Batch(0, 0))
        return ack if ack is not None and ack.outcome in ("known", "lost") else None

    def _judged(
        self, entry: WriteEntry, origin: str, head: StreamHead, batch: Batch
    ) -> tuple[Earlier | None, Ack | None]:
        """Who has its submission id already, and what `judge` says."""
        found = self._tables.by_submission(entry.submission_id)
        known = None if found is None else _earlier(found, is_same=self._is_same(entry, found, batch))
        first = None if entry.once is None else self._tables.by_once(entry.once)
        holder = None if first is None else _earlier(first)
        return known, judge(entry, origin=origin, known=known, holder=holder, head=head)

    def _is_same(self, entry: WriteEntry, found: Committed, batch: Batch) -> bool:
        """Same stream, event type, bodies, and on a session's stream the same predecessor and tenure."""
        stored = found.entry
        if (entry.stream, entry.event_type, entry.prev, entry.tenure) != (
            stored.stream, stored.event_type, stored.prev, stored.tenure,
        ):  # fmt: skip
            return False
        if tuple(map(len, entry.bodies)) != stored.body_lengths:
            return False
        first = batch.written.get(entry.submission_id)
        if first is not None:
            return first.bodies == entry.bodies
        salts = (salt for salt, _ in self._files.bodies(found.place, stored))
        return tuple(map(salted_hash, salts, entry.bodies)) == stored.body_hashes

    def _stage(self, entry: WriteEntry, origin: str, head: StreamHead, batch: Batch) -> Ack:
        lengths = tuple(map(len, entry.bodies))
        bodies_bytes = sum(lengths)
        if bodies_bytes > self._config.bodies_max_bytes:
            return refusal(entry, "too_large", head)
        salts = [self._world.draw_salt() for _ in lengths]
        stored = to_stored(entry, origin, batch.now_us, tuple(map(salted_hash, salts, entry.bodies)), lengths)
        try:
            data = encode_stored(stored, entry.packed)
        except (ValueError, OverflowError):
            return refusal(entry, "invalid", head)
        if len(data) > self._config.entry_max_bytes:
            return refusal(entry, "too_large", head)
        sequence = batch.first_sequence + len(batch.entries)
        batch.entries.append(data)
        batch.bodies.extend(zip(salts, entry.bodies, strict=True))
        batch.body_counts.append(len(lengths))
        batch.written[entry.submission_id] = entry
        batch.size_bytes += len(data) + bodies_bytes
        self._tables.stage(sequence, stored, advance(head, entry, origin))
        return Ack("committed", sequence, entry.submission_id, origin, entry.event_type)

    def _record_conflict(self, entry: WriteEntry, writer: str, first: Earlier, batch: Batch) -> None:
        """Once per submission id: who tried to give a known id another content. Ids only."""
        submission_id = f"{WRITE_CONFLICT}:{entry.submission_id}"
        if self._tables.by_submission(submission_id) is not None:
            return
        facts = WriteConflict(entry.submission_id, writer, first.sequence, first.origin)
        record = WriteEntry(
            submission_id=submission_id,
            stream="governance",
            event_type=WRITE_CONFLICT,
            decision="REJECTED",
            reason="conflict",
            provenance=entry.provenance,
            parents=[entry.submission_id],
            at_us=batch.now_us,
            bodies=[pack_payload(facts)],
        )
        self._stage(record, self._world.origin, StreamHead(), batch)


def _earlier(found: Committed, *, is_same: bool = False) -> Earlier:
    entry = found.entry
    return Earlier(found.place.sequence, entry.submission_id, entry.origin, entry.event_type, is_same)
