"""Group commit: whatever is queued goes into one frame, one write, one sync; acknowledged after that and never before.

Synchronous on purpose: nothing runs between a decision and the sync that makes it true. Source: spec page "The ledger".
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from bus.errors import BusError, LedgerError
from bus.messages.base import pack
from bus.messages.ledger import Ack, WriteEntry
from config.schema import LedgerConfig
from ledger_service.admission import Earlier, StreamHead, advance, fault_of_shape, judge, refusal
from ledger_service.entry import SCHEMA_VERSION, StoredEntry, encode_entry, provenance_fields
from ledger_service.frame import build_frame, salted_hash
from ledger_service.index import Committed, Position
from ledger_service.scan import Damage
from ledger_service.segment import ActiveSegment, Place, SegmentFiles
from ledger_service.tables import Tables

WRITE_CONFLICT = "WRITE_CONFLICT"
_NOWHERE = Place(-1, -1, -1, -1, -1, b"")


@dataclass(slots=True)
class _Pending:
    """One Write on its way: decided entry by entry, answered when all of them are durable."""

    origin: str
    entries: list[WriteEntry]
    answer: asyncio.Future[list[Ack]]
    acks: list[Ack] = field(default_factory=list[Ack])


@dataclass(slots=True)
class _Batch:
    """What the next frame holds."""

    entries: list[bytes] = field(default_factory=list[bytes])
    bodies: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    body_counts: list[int] = field(default_factory=list[int])
    written: dict[str, WriteEntry] = field(default_factory=dict[str, WriteEntry])
    size_bytes: int = 0


class Writer:
    """The one writer of a ledger. `commit` raises OSError or sqlite3.Error; after that it must never be called again."""

    def __init__(
        self,
        *,
        config: LedgerConfig,
        tables: Tables,
        files: SegmentFiles,
        position: Position,
        ledger_at_us: int,
        origin: str,
        free_bytes: Callable[[], int],
        now_us: Callable[[], int],
        draw_salt: Callable[[], bytes],
    ) -> None:
        self.head = position.last
        """Sequence of the last acknowledged entry."""
        self.chain = position.chain
        self.commits = self.syncs = self.entries = self.bytes_written = 0
        self._config = config
        self._tables = tables
        self._files = files
        self._ledger_at_us = ledger_at_us
        self._origin = origin
        self._free_bytes = free_bytes
        self._now_us = now_us
        self._draw_salt = draw_salt
        self._queue: deque[_Pending] = deque()
        self._outstanding = 0
        self._next_sequence = position.last + 1
        self._active = self._open(position.first, end=position.end, create=False)

    @property
    def has_work(self) -> bool:
        """Whether something is queued."""
        return bool(self._queue)

    def submit(self, entries: list[WriteEntry], origin: str) -> asyncio.Future[list[Ack]]:
        """The acks, once everything they say is durable. Raises BusError(busy) above `ledger.outstanding_max`."""
        if self._outstanding and self._outstanding + len(entries) > self._config.outstanding_max:
            raise BusError(
                "busy", f"{self._outstanding} writes wait already; the limit is ledger.outstanding_max, resubmit later"
            )
        self._outstanding += len(entries)
        answer: asyncio.Future[list[Ack]] = asyncio.get_running_loop().create_future()
        self._queue.append(_Pending(origin, entries, answer))
        return answer

    def commit(self) -> None:
        """Decide what is queued, up to one batch; write it, sync it, acknowledge it."""
        if self._refuse_when_full():
            return
        batch = _Batch()
        finished = self._gather(batch)
        if batch.entries:
            self._write(batch)
        for pending in finished:
            self._outstanding -= len(pending.entries)
            if not pending.answer.done():
                pending.answer.set_result(pending.acks)

    def fill_ahead(self) -> None:
        """Zero-fill for the next batches while nobody waits. Raises OSError, which is as final as in `commit`."""
        if self._free_bytes() >= self._needed_bytes() and self._active.fill_ahead():
            self.syncs += 1

    def fail_all(self, fault: LedgerError) -> None:
        """Answer everything that is queued with this fault."""
        for pending in self._queue:
            self._outstanding -= len(pending.entries)
            if not pending.answer.done():
                pending.answer.set_exception(fault)
        self._queue.clear()

    def is_same(self, entry: WriteEntry, earlier: Committed, written: dict[str, WriteEntry] | None = None) -> bool:
        """Whether a write with a known submission id has the content of the entry that stands. Raises Damage."""
        stored = earlier.entry
        if (entry.stream, entry.event_type, entry.prev, entry.tenure) != (
            stored.stream, stored.event_type, stored.prev, stored.tenure,
        ):  # fmt: skip
            return False
        if tuple(map(len, entry.bodies)) != stored.body_lengths:
            return False
        first = (written or {}).get(entry.submission_id)
        if first is not None:
            return first.bodies == entry.bodies
        salts = (salt for salt, _ in self._files.bodies(earlier.place, stored))
        return tuple(map(salted_hash, salts, entry.bodies)) == stored.body_hashes

    def close(self) -> None:
        """Close the segment; everything acknowledged is durable already."""
        self._active.close()

    def _needed_bytes(self) -> int:
        return self._config.segment_bytes + self._config.reserve_bytes

    def _refuse_when_full(self) -> bool:
        free = self._free_bytes()
        if free >= self._needed_bytes():
            return False
        self.fail_all(disk_full(free, self._needed_bytes()))
        return True

    def _gather(self, batch: _Batch) -> list[_Pending]:
        """Decides writes in the order they came, until the frame is full; returns those that are decided entirely."""
        finished: list[_Pending] = []
        now_us = self._ledger_at_us = max(self._now_us(), self._ledger_at_us)
        while self._queue:
            pending = self._queue[0]
            while len(pending.acks) < len(pending.entries):
                if (
                    len(batch.entries) >= self._config.batch_entries_max
                    or batch.size_bytes >= self._config.batch_bytes_max
                ):
                    return finished
                try:
                    pending.acks.append(self._decide(pending.entries[len(pending.acks)], pending.origin, now_us, batch))
                except Damage as damage:
                    if not pending.answer.done():
                        pending.answer.set_exception(damage)
                    break
            finished.append(self._queue.popleft())
        return finished

    def _decide(self, entry: WriteEntry, origin: str, now_us: int, batch: _Batch) -> Ack:
        head = self._tables.head(entry.stream) if entry.stream.startswith("session/") else StreamHead()
        if fault_of_shape(entry):
            return refusal(entry, "invalid", head)
        known = self._earlier(self._tables.by_submission(entry.submission_id), entry, batch)
        holder = self._earlier(self._tables.by_once(entry.once), None, batch) if entry.once is not None else None
        ack = judge(entry, known=known, holder=holder, head=head)
        if ack is None:
            return self._stage(entry, origin, now_us, head, batch)
        if ack.code == "conflict" and known is not None:
            self._record_conflict(entry, origin, known, now_us, batch)
        return ack

    def _earlier(self, found: Committed | None, entry: WriteEntry | None, batch: _Batch) -> Earlier | None:
        if found is None:
            return None
        stored = found.entry
        same = entry is not None and self.is_same(entry, found, batch.written)
        return Earlier(found.place.sequence, stored.submission_id, stored.origin, stored.event_type, same)

    def _stage(self, entry: WriteEntry, origin: str, now_us: int, head: StreamHead, batch: _Batch) -> Ack:
        lengths = tuple(map(len, entry.bodies))
        if sum(lengths) > self._config.bodies_max_bytes:
            return refusal(entry, "too_large", head)
        salts = [self._draw_salt() for _ in lengths]
        stored = StoredEntry(
            SCHEMA_VERSION, entry.submission_id, origin, entry.stream, entry.event_type, entry.decision, entry.reason,
            provenance_fields(entry.provenance), tuple(entry.parents), entry.trace, entry.at_us, now_us,
            tuple(map(salted_hash, salts, entry.bodies)), lengths, entry.prev, entry.tenure, entry.once,
        )  # fmt: skip
        try:
            data = encode_entry(stored)
        except (ValueError, OverflowError):
            return refusal(entry, "invalid", head)
        if len(data) > self._config.entry_max_bytes:
            return refusal(entry, "too_large", head)
        sequence = self._next_sequence
        self._next_sequence += 1
        batch.entries.append(data)
        batch.bodies.extend(zip(salts, entry.bodies, strict=True))
        batch.body_counts.append(len(lengths))
        batch.written[entry.submission_id] = entry
        batch.size_bytes += len(data) + sum(lengths)
        self._tables.stage(Committed(_NOWHERE._replace(sequence=sequence), stored), advance(head, entry))
        return Ack.model_construct(
            outcome="committed",
            sequence=sequence,
            submission_id=entry.submission_id,
            origin=origin,
            event_type=entry.event_type,
        )

    def _record_conflict(self, entry: WriteEntry, writer: str, first: Earlier, now_us: int, batch: _Batch) -> None:
        """Once per submission id: who tried to give an id that stands another content. Ids only."""
        submission_id = f"{WRITE_CONFLICT}:{entry.submission_id}"
        if self._tables.by_submission(submission_id) is not None:
            return
        facts = {
            "submission_id": entry.submission_id,
            "writer": writer,
            "sequence": first.sequence,
            "origin": first.origin,
        }
        record = WriteEntry.model_construct(
            submission_id=submission_id,
            stream="governance",
            event_type=WRITE_CONFLICT,
            decision="REJECTED",
            reason="conflict",
            provenance=entry.provenance,
            parents=[entry.submission_id],
            at_us=now_us,
            bodies=[pack(facts)],
        )
        self._stage(record, self._origin, now_us, StreamHead(), batch)

    def _write(self, batch: _Batch) -> None:
        first = self._next_sequence - len(batch.entries)
        frame = build_frame(first, self.chain, batch.entries, batch.bodies)
        if not self._active.has_room_for(len(frame.data)):
            self._active.close()
            self._active = self._open(first, end=0, create=True)
        at = self._active.end
        self._active.append(frame.data)
        self.commits += 1
        self.syncs += 1
        self.entries += len(batch.entries)
        self.bytes_written += len(frame.data)
        places: list[Place] = []
        body = 0
        for number, data in enumerate(batch.entries):
            bodies_at = at + frame.bodies_at[body] if batch.body_counts[number] else 0
            body += batch.body_counts[number]
            places.append(
                Place(
                    first + number,
                    self._active.first,
                    at + frame.entries_at[number],
                    len(data),
                    bodies_at,
                    frame.chains[number],
                )
            )
        self.head, self.chain = places[-1].sequence, frame.chains[-1]
        self._tables.settle(places, Position(self._active.first, self.head, self._active.end, self.chain))

    def _open(self, first: int, *, end: int, create: bool) -> ActiveSegment:
        handle = self._files.open_for_writing(first, create=create)
        return ActiveSegment(
            handle,
            first=first,
            end=end,
            limit_bytes=self._config.segment_bytes,
            chunk_bytes=self._config.zero_fill_chunk_bytes,
        )


def disk_full(free_bytes: int, needed_bytes: int) -> LedgerError:
    """The answer while less than a segment and the reserve is free."""
    return LedgerError(
        "disk_full",
        f"{free_bytes} bytes are free where the ledger lies; it needs {needed_bytes} "
        "(ledger.segment_bytes + ledger.reserve_bytes): free some space, then write again",
        facts={"free_bytes": free_bytes, "needed_bytes": needed_bytes},
    )
