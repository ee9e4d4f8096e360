"""The events of sessions for those who read them over HTTP: from a sequence on, none missing, however many read.

One long poll of all journals, without bodies, tells in which sessions something happened; of such a session that
somebody reads, the new entries are read once, for all its readers. A reader that is behind reads the record by itself
until it has caught up. So a reader needs nothing of the door that it began at: the last sequence that it saw says all.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import structlog

from hobus.bus import limits as bus_limits
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import (
    EVERY_SESSION,
    Entries,
    Entry,
    LedgerStats,
    Read,
    ReadLedgerStats,
    Tail,
    session_stream,
)
from hobus.bus.port import Bus
from hobus.bus.record import session_facts as events
from hobus.bus.record.ends import end_in, result_in
from hobus.bus.record.journal import recorded
from hobus.config.schema import AdminConfig
from hobus.launch.http import limits
from hobus.launch.sessions.history import about

_log = structlog.get_logger("http")


class ShownEvent(NamedTuple):
    """One event of a session: its place in the record, its kind, and what is shown of it as JSON."""

    sequence: int
    kind: str
    data: str


def shown(entry: Entry) -> ShownEvent:
    """Return what a client sees of an entry; texts that were erased are null."""
    document: dict[str, Any] = {"sequence": entry.sequence, "type": entry.event_type, "at_us": entry.at_us}
    taken = recorded(entry)
    if taken is not None:
        event = taken.event.event
        document["run"] = None if taken.event.run_id is None else taken.event.run_id.run_seq
        document["session_epoch"] = taken.event.session_epoch
        document["event"] = event.model_dump(mode="json")
        if taken.earlier:
            told = [one.event for one in taken.earlier]
            document["earlier"] = [{"type": one.entry_name, "event": one.model_dump(mode="json")} for one in told]
        if isinstance(event, events.HostCommandReceived):
            document["said"] = about(event.command, taken)
        if (end := end_in(event, taken)) is not None and end.became == "answered":
            result = result_in(taken, end.result_ref)
            document["result"] = None if result is None else result.model_dump(mode="json")
    return ShownEvent(entry.sequence, entry.event_type, json.dumps(document, ensure_ascii=False, separators=(",", ":")))


@dataclass(slots=True)
class _Journal:
    """The newest events of one session, and who waits for the next one."""

    covers_from: int
    """Every event behind this sequence is in `recent`, up to `known_to`."""
    known_to: int
    recent: deque[ShownEvent] = field(default_factory=deque[ShownEvent])
    news: asyncio.Event = field(default_factory=asyncio.Event)
    readers: int = 0

    def add(self, event: ShownEvent, limit: int) -> None:
        """Add the next event; skip a known one."""
        if event.sequence <= self.known_to:
            return
        self.known_to = event.sequence
        self.recent.append(event)
        if len(self.recent) > limit:
            self.covers_from = self.recent.popleft().sequence

    def tell(self) -> None:
        """Wake whoever waits."""
        self.news.set()
        self.news = asyncio.Event()


class FollowedJournals:
    """Every session that somebody reads at this door."""

    def __init__(self, bus: Bus, config: AdminConfig) -> None:
        self._bus = bus
        self._config = config
        self._page = bus_limits.PAGE_ENTRIES_MAX
        self._timeout_s = config.launcher.client_timeout_ms / 1000
        self._journals: dict[str, _Journal] = {}
        self._seen = -1  # up to here the long poll has told
        self._poll: asyncio.Task[None] | None = None

    @property
    def readers(self) -> int:
        return sum(journal.readers for journal in self._journals.values())

    def close(self) -> None:
        """Tell nobody anything any more."""
        if self._poll is not None:
            self._poll.cancel()
        for journal in self._journals.values():
            journal.tell()

    async def page(self, session_id: str, after: int) -> tuple[list[ShownEvent], Entries]:
        """Return one page of a session behind this sequence. Raises RuntimeFault."""
        question = Read(stream=session_stream(session_id), after=after, limit=self._page, with_bodies=True)
        found = await self._bus.request("ledger", question, expect=Entries, timeout_s=self._timeout_s)
        return [shown(entry) for entry in found.entries], found

    async def follow(self, session_id: str, after: int) -> AsyncGenerator[ShownEvent | None]:
        """Yield each event behind this sequence, once and in order, for ever; None after `limits.PING_MS` without one.

        Raises RuntimeFault where the record cannot be read: the reader comes again with the sequence that it has.
        """
        journal = await self._joined(session_id)
        is_behind = True  # what came while it joined may be in no page of the long poll for it
        try:
            while True:
                news = journal.news
                if is_behind or after < journal.covers_from:
                    found, page = await self.page(session_id, after)
                    for event in found:
                        yield event
                        after = event.sequence
                    is_behind = page.more
                    if not page.more:
                        after = max(after, page.head)
                    continue
                waiting = [event for event in journal.recent if event.sequence > after]
                for event in waiting:
                    yield event
                    after = event.sequence
                if waiting:
                    continue  # others may have come while these were written
                try:
                    async with asyncio.timeout(limits.PING_MS / 1000):
                        await news.wait()
                except TimeoutError:
                    yield None
        finally:
            journal.readers -= 1
            if not journal.readers and self._journals.get(session_id) is journal:
                del self._journals[session_id]

    async def _joined(self, session_id: str) -> _Journal:
        """Return the journal that all readers of this session share, with one more reader."""
        if self._poll is None or self._poll.done():
            stats = await self._bus.request("ledger", ReadLedgerStats(), expect=LedgerStats, timeout_s=self._timeout_s)
            if self._poll is None or self._poll.done():
                self._seen = stats.head
                self._poll = asyncio.get_running_loop().create_task(self._follow_the_record())
        journal = self._journals.get(session_id)
        if journal is None:
            # Everything up to what the long poll has told is the reader's own to read; the poll tells of the rest.
            journal = self._journals[session_id] = _Journal(covers_from=self._seen, known_to=self._seen)
        journal.readers += 1
        return journal

    async def _follow_the_record(self) -> None:
        """Follow until nobody reads any more."""
        wait_ms = limits.TAIL_WAIT_MS
        while self._journals:
            try:
                question = Tail(stream=EVERY_SESSION, after=self._seen, limit=self._page, wait_ms=wait_ms)
                found = await self._bus.request(
                    "ledger", question, expect=Entries, timeout_s=self._timeout_s + wait_ms / 1000
                )
                changed = {entry.stream.partition("/")[2] for entry in found.entries}
                for session_id in changed & self._journals.keys():
                    await self._fill(session_id)
                # A whole page covers what other streams have up to the head, too.
                self._seen = found.entries[-1].sequence if found.more else found.head
            except RuntimeFault as fault:
                _log.info("record_not_read", code=fault.code)
                await self._bus.sleep(fault.pause_s(bus_limits.RETRY_INTERVAL_MS / 1000, self._bus.clock.random()))

    async def _fill(self, session_id: str) -> None:
        journal = self._journals.get(session_id)
        is_more = journal is not None
        while is_more and journal is not None:
            found, page = await self.page(session_id, journal.known_to)
            for event in found:
                journal.add(event, limits.RECENT_MAX)
            is_more = page.more and bool(found)
        if journal is not None:
            journal.tell()
