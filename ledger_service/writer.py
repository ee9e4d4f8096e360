"""Group commit: whatever is queued goes into one frame, one write, one sync; acknowledged after that and never before.

Synchronous on purpose: nothing runs between a decision and the sync that makes it true.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import accumulate

from hobus.bus.errors import BusError, LedgerError, RuntimeFault
from hobus.bus.limits import INDEX_INTERVAL_MS
from hobus.bus.messages.ledger import Ack, Part, WriteEntry
from hobus.config.sections.ledger import LedgerConfig
from hobus.ledger_service.admission import StreamHead, refusal
from hobus.ledger_service.frame import (
    BODY_HEAD_BYTES,
    ENTRY_HEAD_BYTES,
    HEADER_BYTES,
    Built,
    build_frame,
    next_chain,
    read_header,
    store_at,
)
from hobus.ledger_service.index import Position
from hobus.ledger_service.intake import Batch, Intake, Surroundings
from hobus.ledger_service.mask import ALIGNMENT, mask_of
from hobus.ledger_service.recovery import Recovered
from hobus.ledger_service.scan import Damage
from hobus.ledger_service.segment import ActiveSegment, EntryPlace, SegmentFiles
from hobus.ledger_service.source import trusted
from hobus.ledger_service.space import disk_full, needed_bytes
from hobus.ledger_service.tables import Tables

Outcome = list[Ack] | RuntimeFault
"""Of one write: its acks, or why it could not be taken at all."""


@dataclass(slots=True)
class _Pending:
    """One frame of writes on its way: decided entry by entry, answered when all of them are durable."""

    origin: str
    entries: list[WriteEntry]
    parts: Sequence[Part]
    denied: Container[int]  # numbers of the entries that are not this origin's to write
    answer: asyncio.Future[list[Outcome]]
    size_bytes: int
    outcomes: list[Outcome]  # of the parts that are decided
    acks: list[Ack]  # of the part that is being decided, so far
    first: int = 0  # number of that part's first entry

    def fail(self, fault: RuntimeFault) -> None:
        if not self.answer.done():
            self.answer.set_exception(fault)


class Writer:
    """The one writer of a ledger. When `commit` raises OSError or sqlite3.Error it must never be called again."""

    def __init__(
        self, *, config: LedgerConfig, tables: Tables, files: SegmentFiles, recovered: Recovered, world: Surroundings
    ) -> None:
        position = recovered.position
        self.head = position.last
        """Sequence of the last acknowledged entry."""
        self.chain = position.chain
        self.commits = self.syncs = self.entries = self.bytes_written = 0
        self._config = config
        self._tables = tables
        self._files = files
        self._world = world
        self._intake = Intake(config, tables, files, world)
        self._ledger_at_us = recovered.ledger_at_us
        self._queue: deque[_Pending] = deque()
        self.outstanding = self._outstanding_bytes = 0  # entries that are queued or being written
        self._space_checked_us: int | None = None
        self._mask = files.mask or mask_of(world.draw_salt())
        files.begin(self._mask)
        self._active = self._open(position.first, end=position.end, create=False)

    @property
    def has_work(self) -> bool:
        """Whether something is queued."""
        return bool(self._queue)

    def submit(
        self, entries: list[WriteEntry], origin: str, *, parts: Sequence[Part] = (), denied: Container[int] = ()
    ) -> asyncio.Future[list[Outcome]]:
        """What became of each part, once everything that says is durable; no parts: all entries are one.

        Raises BusError(busy) above `ledger.outstanding_max…`, and then none of them was taken.
        """
        size = sum([sum(map(len, entry.bodies)) for entry in entries])
        self._demand_room(len(entries), size)
        self.outstanding += len(entries)
        self._outstanding_bytes += size
        answer: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._queue.append(_Pending(origin, entries, parts or (Part(len(entries)),), denied, answer, size, [], []))
        return answer

    def _demand_room(self, count: int, size_bytes: int) -> None:
        """Any one frame is taken; what waits beside it is bounded in number and in bytes."""
        config = self._config
        if not self.outstanding:
            return
        if self.outstanding + count > config.outstanding_max:
            what = f"{self.outstanding} entries wait; the limit is {config.outstanding_max} (ledger.outstanding_max)"
        elif self._outstanding_bytes + size_bytes > config.outstanding_max_bytes:
            limit = config.outstanding_max_bytes
            what = f"{self._outstanding_bytes} bytes wait; the limit is {limit} (ledger.outstanding_max_bytes)"
        else:
            return
        raise BusError("busy", f"{what}: resubmit later")

    def commit(self) -> None:
        """Decide what is queued, up to one batch; write it, sync it, acknowledge it."""
        clock_us = self._world.now_us()
        fault = self._space_fault(clock_us)
        if fault is not None:
            self._answer_without_room(fault)
            return
        now_us = self._ledger_at_us = max(clock_us, self._ledger_at_us)
        batch = Batch(self.head + 1, now_us)
        finished: list[_Pending] = []
        try:
            self._gather(batch, finished)
            if batch.entries:
                self._write(batch)
            for pending in finished:
                self._check_answer(pending)
        except BaseException:
            self._queue.extendleft(reversed(finished))  # they are answered when the ledger is fenced
            raise
        for pending in finished:
            self._gone(pending)
            if not pending.answer.done():
                pending.answer.set_result(pending.outcomes)

    def fill_ahead(self) -> None:
        """Zeros for the next batches while nobody waits. Raises OSError, which is as final as in `commit`."""
        self._space_checked_us = None
        if self._space_fault(self._world.now_us()) is None and self._active.fill_ahead():
            self.syncs += 1

    def _answer_without_room(self, fault: LedgerError) -> None:
        """Who asks again for what stands there is told so, as ever; every other write gets this fault."""
        for pending in self._queue:
            outcomes: list[Outcome] = []
            at = 0
            for part in pending.parts:
                outcomes.append(self._recalled(pending, range(at, at + part.entries)) or fault)
                at += part.entries
            if not pending.answer.done() and outcomes != [fault]:  # each of several is told for itself
                pending.answer.set_result(outcomes)
        self.fail_all(fault)

    def _recalled(self, pending: _Pending, numbers: range) -> Outcome | None:
        """The answer to a write that needs no room; None where it does."""
        acks: list[Ack] = []
        for number in numbers:
            entry = pending.entries[number]
            try:
                ack = refusal(entry, "denied", StreamHead()) if number in pending.denied else self._intake.recall(entry)
            except Damage as damage:
                return damage
            if ack is None:
                return None
            acks.append(ack)
        return acks

    def fail_all(self, fault: LedgerError) -> None:
        """Answer everything that is queued with this fault."""
        for pending in self._queue:
            self._gone(pending)
            pending.fail(fault)
        self._queue.clear()

    def _gone(self, pending: _Pending) -> None:
        self.outstanding -= len(pending.entries)
        self._outstanding_bytes -= pending.size_bytes

    def close(self) -> None:
        """Close the segment; everything acknowledged is durable already."""
        self._active.close()

    def _space_fault(self, clock_us: int) -> LedgerError | None:
        """Looks at the disk once per index interval: what is zero-filled cannot run out meanwhile."""
        checked, interval_us = self._space_checked_us, INDEX_INTERVAL_MS * 1000
        if checked is not None and 0 <= clock_us - checked < interval_us and self._active.is_filled_ahead:
            return None
        free = self._world.free_bytes()
        self._space_checked_us = clock_us if free >= needed_bytes(self._config) else None
        return None if self._space_checked_us is not None else disk_full(free, self._config)

    def _gather(self, batch: Batch, finished: list[_Pending]) -> None:
        """Decides writes in the order they came, until the batch is full; those decided entirely are finished."""
        while self._queue:
            pending = self._queue[0]
            for part in pending.parts[len(pending.outcomes) :]:
                try:
                    if not self._decide(pending, part, batch):
                        return
                    outcome: Outcome = pending.acks
                except Damage as damage:
                    outcome = damage
                pending.outcomes.append(outcome)
                pending.first += part.entries
                pending.acks = []
            finished.append(self._queue.popleft())

    def _decide(self, pending: _Pending, part: Part, batch: Batch) -> bool:
        """Whether a write is decided up to its end. What rests on others is never parted from them by a full batch."""
        acks, base, first = pending.acks, part.entries - part.resting, pending.first
        is_founded = True  # asked once: a hostile frame may hold tens of thousands of either kind
        for number in range(len(acks), part.entries):
            entry = pending.entries[first + number]
            if number < base:
                if self._intake.is_full(batch):
                    return False
            elif number == base:
                is_founded = all(ack.is_first for ack in acks)
            if first + number in pending.denied:
                acks.append(refusal(entry, "denied", StreamHead()))
            elif is_founded:
                acks.append(self._intake.decide(entry, pending.origin, batch))
            else:
                acks.append(refusal(entry, "unfounded", StreamHead()))
        return True

    def _check_answer(self, pending: _Pending) -> None:
        """One ack for each entry, and none for what is not durable."""
        if pending.answer.done():
            return
        trusted(len(pending.outcomes) == len(pending.parts), "every write of an answered frame has its outcome")
        for part, outcome in zip(pending.parts, pending.outcomes, strict=True):
            if isinstance(outcome, RuntimeFault):
                continue
            trusted(len(outcome) == part.entries, "every entry of an answered write has its ack")
            trusted(max([ack.sequence for ack in outcome]) <= self.head, "what is acknowledged is durable")

    def _check_frame(self, batch: Batch, frame: Built) -> None:
        """What will be written is the batch, behind what stands there already."""
        entries, header = batch.entries, read_header(bytes(frame.data[:HEADER_BYTES]))
        trusted(batch.first_sequence == self.head + 1, "a batch begins behind the head")
        trusted(len(batch.body_counts) == len(entries), "every entry has its number of bodies")
        trusted(sum(batch.body_counts) == len(batch.bodies), "every body belongs to an entry")
        trusted(len(frame.chains) == len(entries), "every entry has its chain value")
        before = frame.chains[-2] if len(entries) > 1 else self.chain
        trusted(frame.chains[-1] == next_chain(before, entries[-1]), "the chain goes on")
        sizes, at = [ENTRY_HEAD_BYTES + size for size in map(len, entries)], HEADER_BYTES + ENTRY_HEAD_BYTES
        *entries_at, at = accumulate(sizes, initial=at)
        trusted(frame.entries_at == entries_at, "entries lie one behind the other")
        sizes = [BODY_HEAD_BYTES + size for size in map(len, [data for _, data in batch.bodies])]
        *bodies_at, at = accumulate(sizes, initial=at - ENTRY_HEAD_BYTES)
        trusted(frame.bodies_at == bodies_at, "bodies lie behind them, in the same order")
        trusted(at < len(frame.data), "all of them lie within their frame")
        trusted(
            header is not None
            and (header.first_sequence, header.previous_chain, header.entry_count, header.mask, header.frame_bytes)
            == (self.head + 1, self.chain, len(entries), self._mask, len(frame.data)),
            "a frame's header tells what it holds and what it follows",
        )

    def _write(self, batch: Batch) -> None:
        frame = build_frame(batch.first_sequence, self.chain, batch.entries, batch.bodies, self._mask)
        self._check_frame(batch, frame)
        if not self._active.has_room_for(len(frame.data)):
            self._active.close()
            self._active = self._open(batch.first_sequence, end=0, create=True)
        at, segment = self._active.end, self._active.first
        trusted(segment == batch.first_sequence if at == 0 else segment <= self.head, "a segment begins with its name")
        trusted(at % ALIGNMENT == 0, "a batch begins where the mask allows")
        self._active.append(store_at(frame, at, self._mask))
        trusted(self._active.end == at + len(frame.data), "the batch is written whole, and synced")
        places: list[EntryPlace] = []
        body = 0
        for number, data in enumerate(batch.entries):
            count = batch.body_counts[number]
            bodies_at = at + frame.bodies_at[body] if count else 0
            entry_at, chain = at + frame.entries_at[number], frame.chains[number]
            places.append(EntryPlace(batch.first_sequence + number, segment, entry_at, len(data), bodies_at, chain))
            body += count
        self.head, self.chain = places[-1].sequence, places[-1].chain
        self._tables.settle(places, Position(segment, self.head, self._active.end, self.chain))
        self.commits += 1
        self.syncs += 1
        self.entries += len(places)
        self.bytes_written += len(frame.data)

    def _open(self, first: int, *, end: int, create: bool) -> ActiveSegment:
        return ActiveSegment(
            self._files.open_for_writing(first, create=create),
            first=first,
            end=end,
            limit_bytes=self._config.segment_bytes,
            chunk_bytes=self._config.zero_fill_chunk_bytes,
        )
