"""Group commit: whatever is queued goes into one frame, one write, one sync; acknowledged after that and never before.

Synchronous on purpose: nothing runs between a decision and the sync that makes it true.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sequence
from itertools import repeat

from msgspec import Struct

from hobus.bus import limits
from hobus.bus.errors import BusError, LedgerError, RuntimeFault
from hobus.bus.limits import INDEX_INTERVAL_MS
from hobus.bus.messages.ledger import Ack, Part, WriteEntry
from hobus.bus.promise import Promise
from hobus.config.sections.record import LedgerConfig
from hobus.ledger_service import limits as own_limits
from hobus.ledger_service.admission import StreamHead, make_refusal
from hobus.ledger_service.frame import (
    BODY_HEAD_BYTES,
    HEADER_BYTES,
    Built,
    build_frame,
    compute_next_chain,
    read_header,
    store_at,
)
from hobus.ledger_service.index import Committed, Position, hash_keys
from hobus.ledger_service.intake import Batch, Intake, Sealed, Surroundings, seal
from hobus.ledger_service.limits import compute_needed_bytes, make_disk_full
from hobus.ledger_service.mask import ALIGNMENT, mask_of
from hobus.ledger_service.recovery import Recovered
from hobus.ledger_service.scan import Damage
from hobus.ledger_service.segment import ActiveSegment, EntryPlace, SegmentFiles, list_places
from hobus.ledger_service.source import Untrue, require_true
from hobus.ledger_service.tables import Tables

Outcome = list[Ack] | RuntimeFault
"""Of one write: its acks, or why it could not be taken at all."""


class _Pending(Struct):
    """One frame of writes on its way: decided entry by entry, answered when all of them are durable."""

    origin: str
    entries: list[WriteEntry]
    parts: Sequence[Part]
    denied: Container[int]  # numbers of the entries that are not this origin's to write
    answer: Promise[list[Outcome]]
    hashed: Mapping[str, int]  # of their submission ids and once keys
    count: int
    size_bytes: int
    outcomes: list[Outcome]  # of the parts that are decided
    acks: list[Ack]  # of the part that is being decided, so far
    first: int = 0  # number of that part's first entry
    follows: Sequence[str] = ()  # the entries of others that it waits for, until it has waited long enough
    has_waited: bool = False


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
        self._early: list[_Pending] = []  # they follow an entry that is not there yet
        self.outstanding = self._outstanding_bytes = 0  # entries that are queued or being written
        self._space_checked_us: int | None = None
        self._mask = files.mask or mask_of(world.draw_salts(1)[0])
        files.begin(self._mask)
        self._active = self._open(position.first, end=position.end, create=False)

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    @property
    def has_early(self) -> bool:
        """Return whether a write waits for an entry of another writer."""
        return bool(self._early)

    def give_up_early(self) -> None:
        """Stop waiting for entries since the last call: the next commit decides."""
        for pending in self._early:
            if pending.has_waited:
                pending.follows = ()
            pending.has_waited = True

    def submit(
        self, entries: list[WriteEntry], origin: str, *, parts: Sequence[Part] = (), denied: Container[int] = ()
    ) -> Promise[list[Outcome]]:
        """Queue writes; the promise tells what became of each part, once that is durable.

        No parts: all entries are one.

        Raises BusError(busy) above `limits.OUTSTANDING_MAX…`, and then none of them was taken.
        """
        count, size = len(entries), sum(map(len, [body for entry in entries for body in entry.bodies]))
        if self.outstanding:  # any one frame is taken
            self._demand_room(count, size)
        hashed = hash_keys(
            [text for entry in entries for text in (entry.submission_id, entry.once) if text is not None]
        )
        answer: Promise[list[Outcome]] = Promise()
        follows = [part.follows for part in parts if part.follows]
        parts = parts or (Part(count),)
        pending = _Pending(
            origin, entries, parts, denied, answer, hashed, count, size, [], [], follows=follows
        )  # fmt: skip
        self._queue.append(pending)
        self.outstanding += count
        self._outstanding_bytes += size
        return answer

    def _demand_room(self, count: int, size_bytes: int) -> None:
        """Bound what waits beside another frame in number and in bytes."""
        if self.outstanding + count > own_limits.OUTSTANDING_MAX:
            what = f"{self.outstanding} entries wait; the limit is {own_limits.OUTSTANDING_MAX}"
        elif self._outstanding_bytes + size_bytes > own_limits.OUTSTANDING_MAX_BYTES:
            limit = own_limits.OUTSTANDING_MAX_BYTES
            what = f"{self._outstanding_bytes} bytes wait; the limit is {limit}"
        else:
            return
        raise BusError("busy", f"{what}: resubmit later")

    def commit(self) -> None:
        """Decide what is queued, up to one batch; write it, sync it, acknowledge it."""
        clock_us = self._world.now_us()
        fault = self._find_space_fault(clock_us)
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
            self._check_answers(finished)
        except BaseException:
            self._queue.extendleft(reversed(finished))  # they are answered when the ledger is fenced
            raise
        for pending in finished:
            self._note_gone(pending)
        for pending in finished:
            pending.answer.settle(pending.outcomes)

    def fill_ahead(self) -> None:
        """Write zeros for the next batches while nobody waits. Raises OSError, which is as final as in `commit`."""
        self._space_checked_us = None
        if self._find_space_fault(self._world.now_us()) is None and self._active.fill_ahead():
            self.syncs += 1

    def _answer_without_room(self, fault: LedgerError) -> None:
        """Answer repetitions of what stands, as ever, and give every other write this fault."""
        for pending in self._queue:
            outcomes: list[Outcome] = []
            at = 0
            for part in pending.parts:
                outcomes.append(self._recall(pending, range(at, at + part.entries)) or fault)
                at += part.entries
            if outcomes != [fault]:  # each of several is told for itself
                pending.answer.settle(outcomes)
        self.fail_all(fault)

    def _recall(self, pending: _Pending, numbers: range) -> Outcome | None:
        """Return the answer to a write that needs no room; None where it does."""
        acks: list[Ack] = []
        for number in numbers:
            entry = pending.entries[number]
            is_denied = number in pending.denied
            try:
                ack = None if is_denied else self._intake.recall(entry, pending.hashed)
            except Damage as damage:
                return damage
            if ack is None and not is_denied:
                return None
            acks.append(ack or make_refusal(entry, "denied", StreamHead()))
        return acks

    def fail_all(self, fault: LedgerError) -> None:
        """Answer everything that is queued with this fault."""
        failed = [*self._queue, *self._early]
        self._queue.clear()
        self._early.clear()
        for pending in failed:
            self._note_gone(pending)
            pending.answer.settle(fault)

    def _note_gone(self, pending: _Pending) -> None:
        self.outstanding -= pending.count
        self._outstanding_bytes -= pending.size_bytes

    def close(self) -> None:
        """Close the segment; everything acknowledged is durable already."""
        self._active.close()

    def _find_space_fault(self, clock_us: int) -> LedgerError | None:
        """Look at the disk once per index interval: what is zero-filled cannot run out meanwhile."""
        checked, interval_us = self._space_checked_us, INDEX_INTERVAL_MS * 1000
        if checked is not None and 0 <= clock_us - checked < interval_us and self._active.is_filled_ahead:
            return None
        free = self._world.free_bytes()
        self._space_checked_us = clock_us if free >= compute_needed_bytes(self._config) else None
        return None if self._space_checked_us is not None else make_disk_full(free, self._config)

    def _gather(self, batch: Batch, finished: list[_Pending]) -> None:
        """Decide writes in the order they came, until the batch is full; those decided entirely are finished."""
        while self._queue or self._let_in(batch):
            pending = self._queue[0]
            if pending.follows and self._is_early(pending, batch):
                self._early.append(self._queue.popleft())
                continue
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

    def _let_in(self, batch: Batch) -> bool:
        """Return whether any that waited for an entry of another writer need not any more."""
        ready = [pending for pending in self._early if not self._is_early(pending, batch)]
        if ready:
            self._early = [pending for pending in self._early if pending not in ready]
            self._queue.extend(ready)
        return bool(ready)

    def _is_early(self, pending: _Pending, batch: Batch) -> bool:
        return not all(self._stands(entry_id, batch) for entry_id in pending.follows)

    def _stands(self, submission_id: str, batch: Batch) -> bool:
        """Return whether this entry is in the record, or will be with this batch."""
        return submission_id in batch.numbers or self._tables.find_by_submission(submission_id) is not None

    def _decide(self, pending: _Pending, part: Part, batch: Batch) -> bool:
        """Return whether a write is decided to its end. What rests on others is never parted by a full batch."""
        acks, base, first = pending.acks, part.entries - part.resting, pending.first
        entries_max, bytes_max = limits.FRAME_ENTRIES_MAX, limits.FRAME_BYTES_MAX
        # Asked once: a hostile frame may hold tens of thousands of either kind.
        is_founded = not part.follows or self._stands(part.follows, batch)
        for number in range(len(acks), part.entries):
            entry = pending.entries[first + number]
            if number < base:
                if batch.count >= entries_max or batch.size_bytes >= bytes_max:
                    return False
            elif number == base:
                is_founded = is_founded and all(ack.is_first for ack in acks)
            if first + number in pending.denied:
                acks.append(make_refusal(entry, "denied", StreamHead()))
            elif is_founded:
                acks.append(self._intake.decide(entry, pending.origin, batch, pending.hashed))
            else:
                acks.append(make_refusal(entry, "unfounded", StreamHead()))
        return True

    def _check_answers(self, finished: Sequence[_Pending]) -> None:
        """Check that each entry has one ack, and none for what is not durable."""
        expected = [part.entries for pending in finished for part in pending.parts]
        outcomes = [outcome for pending in finished for outcome in pending.outcomes]
        told = [outcome for outcome in outcomes if type(outcome) is list]
        counts = [number for number, outcome in zip(expected, outcomes, strict=True) if type(outcome) is list]
        if counts != [*map(len, told)]:
            raise Untrue("every entry of an answered write has its ack")
        if max([ack.sequence for acks in told for ack in acks], default=-1) > self.head:
            raise Untrue("what is acknowledged is durable")

    def _check_frame(self, sealed: Sealed, frame: Built, places: Sequence[EntryPlace], at: int) -> None:
        """Check that what will be written is the batch, behind what stands there, at the places that are told.

        Of entries and bodies the last ones are looked at: they lie where they should if all before them do.
        """
        stored, bodies, data, chains = sealed.stored, sealed.bodies, frame.data, frame.chains
        if not len(stored) == len(chains) == len(places) == len(sealed.entries):
            raise Untrue("every entry has its chain value")
        if chains[-1] != compute_next_chain([self.chain, *chains][-2], stored[-1]):
            raise Untrue("the chain goes on")
        header, last, lengths = read_header(bytes(data[:HEADER_BYTES])), places[-1], sealed.entries[-1].body_lengths
        follows = self.head + 1, self.chain, len(stored), self._mask, len(data)
        if header is None or follows != (
            header.first_sequence, header.previous_chain, header.entry_count, header.mask, header.frame_bytes,
        ):  # fmt: skip
            raise Untrue("a frame's header tells what it holds and what it follows")
        if bytes(data[last.at - at : last.at - at + last.length]) != stored[-1]:
            raise Untrue("entries lie at their places")
        end = HEADER_BYTES + header.entries_bytes + header.bodies_bytes
        if last.bodies_at - at + sum(lengths) + BODY_HEAD_BYTES * len(lengths) != end or (
            bodies and bytes(data[end - len(bodies[-1]) : end]) != bodies[-1]
        ):
            raise Untrue("bodies lie at the places of their entries")

    def _write(self, batch: Batch) -> None:
        first, mask = batch.first_sequence, self._mask
        sealed = seal(batch, self._world.draw_salts)
        frame = build_frame(first, self.chain, sealed.stored, sealed.bodies, mask)
        if not self._active.has_room_for(len(frame.data)):
            self._active.close()
            self._active = self._open(first, end=0, create=True)
        at, segment = self._active.end, self._active.first
        require_true(first == self.head + 1, "a batch begins behind the head")
        require_true(segment == first if at == 0 else segment <= self.head, "a segment begins with its name")
        require_true(at % ALIGNMENT == 0, "a batch begins where the mask allows")
        places = list_places(sealed.stored, sealed.entries, frame.chains, segment=segment, at=at, first=first)
        self._check_frame(sealed, frame, places, at)
        end = at + len(frame.data)
        self._active.append(store_at(frame, at, mask))
        require_true(self._active.end == end, "the batch is written whole, and synced")
        self.head, self.chain = places[-1].sequence, places[-1].chain
        committed = [*map(tuple.__new__, repeat(Committed), zip(places, sealed.entries, strict=True))]
        self._tables.settle(committed, batch.heads, Position(segment, self.head, end, self.chain))
        self.commits += 1
        self.syncs += 1
        self.entries += batch.count
        self.bytes_written += end - at

    def _open(self, first: int, *, end: int, create: bool) -> ActiveSegment:
        return ActiveSegment(
            self._files.open_for_writing(first, create=create),
            first=first,
            end=end,
            limit_bytes=self._config.segment_bytes,
            chunk_bytes=own_limits.ZERO_FILL_CHUNK_BYTES,
        )
