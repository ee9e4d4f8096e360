"""Memory's part of the record and what it adds up to.

Theory of operation. The record is the truth: a write counts when the ledger has acknowledged it, and the derived state
follows in sequence order. `applied_seq` is the watermark: every entry of the two streams up to it is here, and a
question counts nothing beyond it. Only this process writes the streams, so an acknowledged write moves the watermark;
should the ledger know an entry that is not here (an earlier incarnation wrote it, and its answer went with it), the
streams are read on from where they were last read before anything is answered. A checkpoint reads them on, too, so
that it never rests on acknowledgements alone; what was acknowledged is not sent again, only named. Questions are
answered without the ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import structlog

from hobus.actors.ho3_memory import limits
from hobus.actors.ho3_memory.agent_memory import AgentMemory
from hobus.actors.ho3_memory.checkpoint import CheckpointFile, RecordPosition
from hobus.actors.ho3_memory.database import Database, DatabaseFailed, Databases
from hobus.actors.ho3_memory.records import NO_SEQUENCE, STREAMS, Fact, read_fact
from hobus.bus.errors import IN_DOUBT, LedgerError, MessageTooLarge, RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ledger import Ack, Entry, Read, WriteEntry
from hobus.bus.port import Bus
from hobus.config.sections.record import Ho3Config

_log = structlog.get_logger("memory")
_SEQUENCE = attrgetter("seq")


class Logged(NamedTuple):
    """What became of entries: their acks, and which of them were not here before."""

    acks: list[Ack]
    is_new: list[bool]


class Store:
    """Every agent's memory, and the two ways in which it grows: what is logged here, and what the record has."""

    def __init__(
        self, bus: Bus, ledger: LedgerClient, file: CheckpointFile, databases: Databases, config: Ho3Config
    ) -> None:
        self._bus = bus
        self._ledger = ledger
        self._file = file
        self._databases = databases
        self._config = config
        self._page = limits.REBUILD_PAGE
        self._agents: dict[str, AgentMemory] = {}
        self._acknowledged_seq = -1
        self._is_behind = False
        self._read_to: dict[str, int] = dict.fromkeys(
            STREAMS, -1
        )  # up to here each stream was read, not only acknowledged
        self._since_checkpoint: list[Fact] = []
        self._due_count = limits.CHECKPOINT_ENTRIES
        self._is_writing = False  # many log at once: one of them writes the checkpoint that is due
        self._is_opening = False
        self.at_what = ""
        """How far a start is; empty: it has nothing to say."""
        self.applied_seq = -1
        """Every entry of the two streams up to this sequence of the ledger is here."""
        self.checkpoint_seq = -1
        """Sequence of the newest checkpoint; -1: none."""

    def memory(self, agent_id: str) -> AgentMemory:
        """Return an agent's memory; an empty one if it has none."""
        return self._agents.get(agent_id) or AgentMemory(agent_id, self._config, self._nothing)

    @cached_property
    def _nothing(self) -> Database:
        """Return the shared store of agents without a memory: one for each question would cost 170 KB."""
        return Databases().open()

    def demand_whole(self) -> None:
        """Raise DatabaseFailed when a part of the state is lost: nothing can be answered or written from the rest."""
        if self._databases.fault is not None:
            raise self._databases.fault

    # --- start ------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Read everything in the record. Raises RuntimeFault while the ledger is away: to be called again then.

        A checkpoint counts only if the ledger has its very entry, at its sequence, with its chain hash.
        """
        self._is_opening = True
        if self.applied_seq < 0:
            await self._load()
        await self._catch_up(writes=True)
        for memory in self._agents.values():
            memory.settle()
        self._is_opening, self.at_what = False, ""

    async def _load(self) -> None:
        position: RecordPosition | None = None
        for frame in self._file.load():
            position = frame.position
            self._apply(frame.facts)
            await self._bus.sleep(0)  # a long one must not look like a stuck process
        if position is None:
            return
        (entry,) = await self._ledger.lookup([position.submission_id])
        if entry is None or (entry.sequence, entry.chain) != (position.sequence, position.chain):
            _log.warning("checkpoint_discarded", sequence=position.sequence, reason="not of this record")
            self._file.discard()
            self._agents.clear()
            return
        self.applied_seq = self.checkpoint_seq = position.sequence
        self._read_to.update(dict.fromkeys(STREAMS, position.sequence))

    async def _catch_up(self, *, writes: bool = False) -> None:
        """Read both streams on, and set the watermark to where both were read, or to what was acknowledged here since.

        The stream that is behind is read on first, so that both are whole up to some place all the time; `writes`: of
        what is whole, a checkpoint is written whenever one is due.
        """
        unread, bare = set[str](STREAMS), set[str](STREAMS if self._since_checkpoint else ())
        while unread:
            stream = min(sorted(unread), key=self._read_to.__getitem__)
            if not await self._read_page(stream, bare):
                unread.discard(stream)
            if writes and self.is_checkpoint_due:
                await self._write_due()
        self._is_behind = False
        self.applied_seq = max(self.applied_seq, self._complete_seq, self._acknowledged_seq)

    @property
    def _complete_seq(self) -> int:
        """Return up to where both streams were read."""
        return min(self._read_to.values())

    async def _read_page(self, stream: str, bare: set[str]) -> bool:
        """Read and apply a stream's next page; return whether the stream goes on behind it.

        What was logged here is only looked over: the ledger sends bodies for a page that holds anything else. `bare`:
        streams whose pages come without them, so far.
        """
        try:
            after = self._read_to[stream]
            question = Read(stream=stream, after=after, limit=self._page, with_bodies=stream not in bare)
            found = await self._ledger.page(question)
        except MessageTooLarge:
            if self._page == 1:
                raise
            self._page = max(1, self._page // 2)
            return True
        here = {fact.seq for fact in self._since_checkpoint}
        missing = [entry for entry in found.entries if entry.sequence not in here]
        if missing and stream in bare:
            bare.discard(stream)
            return True
        self._take(missing)
        read_to = [self._read_to[stream], *(entry.sequence for entry in found.entries)]
        self._read_to[stream] = max(read_to if found.more else [*read_to, found.head])
        if self._is_opening:
            self.at_what = f"reads what was learned: entry {self._complete_seq:,} of {found.head:,}"
        return found.more

    def _take(self, entries: Iterable[Entry]) -> None:
        facts = [fact for entry in entries if (fact := _read_or_none(entry)) is not None]
        self._since_checkpoint += [fact for fact, is_new in zip(facts, self._apply(facts), strict=True) if is_new]

    def _apply(self, facts: Iterable[Fact]) -> list[bool]:
        """Apply facts, those of one agent that come together in one transaction; return of each whether it was new."""
        is_new: list[bool] = []
        for agent_id, together in groupby(facts, attrgetter("agent_id")):
            memory = self._agents.get(agent_id)
            if memory is None:
                memory = self._agents[agent_id] = AgentMemory(agent_id, self._config, self._databases.open())
            is_new += memory.apply_all(together, settles=not self._is_opening)
        return is_new

    # --- logging ----------------------------------------------------------------------------------------------------

    async def log(self, entries: Sequence[WriteEntry], *, timeout_s: float, said: Sequence[Fact] = ()) -> Logged:
        """Write entries; return their acks, once they are durable and count here. `said`: what each says, if known.

        Raises LedgerError(unavailable) when that is not so in time: the outcome is unknown, and what becomes durable
        later counts from then on.
        """
        facts = said or [read_fact(NO_SEQUENCE, entry) for entry in entries]
        submitted = self._ledger.submit(entries, trace=entries[0].trace, urgent=True)
        # The state follows the acknowledgements in their order, whether anybody still waits for this one or not.
        is_new: list[bool] = []
        submitted.then(lambda outcome: is_new.extend(self._on_acknowledged(facts, outcome)))
        try:
            async with asyncio.timeout(timeout_s):
                acks = await submitted
                self.demand_whole()
                if self._is_behind:
                    await self._catch_up()
        except TimeoutError:
            raise LedgerError(
                "unavailable",
                f"{entries[0].submission_id}: the ledger did not acknowledge it within {timeout_s:.3f} s; {IN_DOUBT}",
            ) from None
        return Logged(acks, is_new)

    def _on_acknowledged(self, facts: Sequence[Fact | None], acks: list[Ack] | RuntimeFault) -> list[bool]:
        if isinstance(acks, RuntimeFault) or self._databases.fault is not None:
            return []
        placed = [
            fact.at(ack.sequence) if fact is not None and ack.is_first else None
            for fact, ack in zip(facts, acks, strict=True)
        ]
        try:
            applied = iter(self._apply([fact for fact in placed if fact is not None]))
        except DatabaseFailed:
            return []  # this process ends, and says so to whoever asked
        is_new = [self._count(fact, ack, applied) for fact, ack in zip(placed, acks, strict=True)]
        if not self._is_behind:
            self.applied_seq = max(self.applied_seq, self._acknowledged_seq)
        return is_new

    def _count(self, fact: Fact | None, ack: Ack, applied: Iterator[bool]) -> bool:
        """Count an acknowledged entry; return whether it was new here. `applied`: of each fact whether it was."""
        if not ack.is_first:
            self._is_behind = True  # what stands under its id may be somebody else's
            return False
        is_new = fact is not None and next(applied)
        if fact is not None and is_new:
            self._since_checkpoint.append(fact)
        if ack.origin == self._bus.instance:
            self._acknowledged_seq = max(self._acknowledged_seq, ack.sequence)
        elif is_new:
            self._is_behind = True  # an earlier incarnation's, and perhaps not its only one
        return is_new

    # --- checkpoints ------------------------------------------------------------------------------------------------

    @property
    def is_checkpoint_due(self) -> bool:
        """Return whether enough was applied since the last checkpoint, or failed one, and nobody is writing it."""
        return len(self._since_checkpoint) >= self._due_count and not self._is_writing

    async def write_checkpoint(self) -> None:
        """Write what was applied to the file, if ledger and disk allow; else the next start reads more."""
        self._is_writing = True
        try:
            await self._catch_up()
            await self._write_due()
        except RuntimeFault as fault:
            self._note_unwritten(fault)
        finally:
            self._is_writing = False

    async def _write_due(self) -> None:
        try:
            while facts := self._take_next_facts():
                (entry,) = await self._ledger.lookup([facts[-1].submission_id])
                self._write_checkpoint(facts, entry)
            self._due_count = limits.CHECKPOINT_ENTRIES
        except (RuntimeFault, OSError) as error:
            self._note_unwritten(error)

    def _note_unwritten(self, error: Exception) -> None:
        _log.warning("checkpoint_not_written", error=str(error))
        self._due_count = len(self._since_checkpoint) + limits.CHECKPOINT_ENTRIES

    def _take_next_facts(self) -> list[Fact]:
        """Return the oldest facts that no frame holds, as many as one frame takes; the record was read beyond them."""
        counted = [fact for fact in self._since_checkpoint if fact.seq <= self._complete_seq]
        return sorted(counted, key=_SEQUENCE)[: limits.CHECKPOINT_ENTRIES]

    def _write_checkpoint(self, facts: list[Fact], entry: Entry | None) -> None:
        """Write one frame, without facts that another call wrote while this one asked the ledger."""
        self.demand_whole()
        last = facts[-1]
        if entry is None or entry.sequence != last.seq:
            raise LedgerError("damaged", f"{last.submission_id} is not at sequence {last.seq} of the record")
        missing = [fact for fact in facts if fact.seq > self.checkpoint_seq]
        if not missing:
            return
        self._file.append(missing, RecordPosition(last.seq, last.submission_id, entry.chain))
        self.checkpoint_seq = last.seq
        self._since_checkpoint = [fact for fact in self._since_checkpoint if fact.seq > last.seq]


def _read_or_none(entry: Entry) -> Fact | None:
    """Return what an entry says; None for an unreadable one, which must not keep memory from opening."""
    try:
        return read_fact(entry.sequence, entry)
    except (ValueError, TypeError, LookupError, RuntimeFault) as error:
        _log.error("record_unreadable", submission_id=entry.submission_id, error=type(error).__name__)
        return None
