"""The events of sessions for those who read them over HTTP: from a sequence on, none missing, however many read.

One long poll of all journals, without bodies, tells in which sessions something happened; who reads such a session
reads on. So a reader needs nothing of the door that it began at: the last sequence that it saw says all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
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
    name_session_stream,
)
from hobus.bus.port import Bus
from hobus.bus.record import session_facts as events
from hobus.bus.record.ends import end_in, read_result
from hobus.bus.record.journal import read_recorded
from hobus.config.schema import AdminConfig
from hobus.launch.http import limits
from hobus.launch.sessions.history import describe_command

_log = structlog.get_logger("http")


class ShownEvent(NamedTuple):
    """One event of a session: its place in the record, its kind, and what is shown of it as JSON."""

    sequence: int
    kind: str
    data: str


def show_entry(entry: Entry) -> ShownEvent:
    """Return what a client sees of an entry; texts that were erased are null."""
    document: dict[str, Any] = {"sequence": entry.sequence, "type": entry.event_type, "at_us": entry.at_us}
    taken = read_recorded(entry)
    if taken is not None:
        event = taken.event.event
        document["run"] = None if taken.event.run_id is None else taken.event.run_id.run_seq
        document["session_epoch"] = taken.event.session_epoch
        document["event"] = event.model_dump(mode="json")
        if taken.earlier:
            told = [one.event for one in taken.earlier]
            document["earlier"] = [{"type": one.entry_name, "event": one.model_dump(mode="json")} for one in told]
        if isinstance(event, events.HostCommandReceived):
            document["said"] = describe_command(event.command, taken)
        if (end := end_in(event, taken)) is not None and end.became == "answered":
            result = read_result(taken, end.result_ref)
            document["result"] = None if result is None else result.model_dump(mode="json")
    return ShownEvent(entry.sequence, entry.event_type, json.dumps(document, ensure_ascii=False, separators=(",", ":")))


class FollowedJournals:
    """Every session that somebody reads at this door."""

    def __init__(self, bus: Bus, config: AdminConfig) -> None:
        self._bus = bus
        self._timeout_s = config.launcher.client_timeout_ms / 1000
        self._news: dict[asyncio.Event, str] = {}
        """Of each reader, set when something may have happened in its session."""
        self._seen = -1  # up to here the long poll has told
        self._poll: asyncio.Task[None] | None = None

    @property
    def readers(self) -> int:
        return len(self._news)

    def close(self) -> None:
        """Tell nobody anything any more."""
        if self._poll is not None:
            self._poll.cancel()
        for news in self._news:
            news.set()

    async def page(self, session_id: str, after: int) -> tuple[list[ShownEvent], Entries]:
        """Return one page of a session behind this sequence. Raises RuntimeFault."""
        stream = name_session_stream(session_id)
        question = Read(stream=stream, after=after, limit=bus_limits.PAGE_ENTRIES_MAX, with_bodies=True)
        found = await self._bus.request("ledger", question, expect=Entries, timeout_s=self._timeout_s)
        return [show_entry(entry) for entry in found.entries], found

    async def follow(self, session_id: str, after: int) -> AsyncGenerator[ShownEvent | None]:
        """Yield each event behind this sequence, once and in order, for ever; None where there is none for a while.

        Raises RuntimeFault where the record cannot be read: the reader comes again with the sequence that it has.
        """
        await self._begin_poll()
        news = asyncio.Event()
        self._news[news] = session_id
        is_more = True  # what came before it was there
        try:
            while True:
                if not is_more:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(limits.PING_MS / 1000):
                            await news.wait()
                    if not news.is_set():
                        yield None
                        continue
                news.clear()
                found, page = await self.page(session_id, after)
                is_more = page.more
                if not found:
                    yield None
                for event in found:
                    yield event
                    after = event.sequence
        finally:
            del self._news[news]

    async def _begin_poll(self) -> None:
        if self._poll is None or self._poll.done():
            stats = await self._bus.request("ledger", ReadLedgerStats(), expect=LedgerStats, timeout_s=self._timeout_s)
            if self._poll is None or self._poll.done():
                self._seen = stats.head
                self._poll = asyncio.get_running_loop().create_task(self._follow_the_record())

    async def _follow_the_record(self) -> None:
        """Follow until nobody reads any more."""
        wait_ms, most = limits.TAIL_WAIT_MS, bus_limits.PAGE_ENTRIES_MAX
        while self._news:
            try:
                question = Tail(stream=EVERY_SESSION, after=self._seen, limit=most, wait_ms=wait_ms)
                found = await self._bus.request(
                    "ledger", question, expect=Entries, timeout_s=self._timeout_s + wait_ms / 1000
                )
            except RuntimeFault as fault:
                _log.info("record_not_read", code=fault.code)
                await self._bus.sleep(fault.pause_s(bus_limits.RETRY_INTERVAL_MS / 1000, self._bus.clock.random()))
                continue
            changed = {entry.stream.partition("/")[2] for entry in found.entries}
            for news, session_id in self._news.items():
                if session_id in changed:
                    news.set()
            # A whole page covers what other streams have up to the head, too.
            self._seen = found.entries[-1].sequence if found.more else found.head
