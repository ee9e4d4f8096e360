"""The ledger's actor: messages arrive here, nowhere else. Source: spec page "The ledger", Operations on the bus.

Two long-lived tasks belong to it: one commits whatever is queued, one keeps the index close behind. When either ends with an
error the ledger is fenced: every write is answered `fenced`, `failed` is set, and the process must exit; a start recovers.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine
from uuid import UUID

from bus.dispatch import Actor, Call
from bus.errors import LedgerError
from bus.messages.base import pack
from bus.messages.ids import split_body_ref
from bus.messages.ledger import (
    Body, Entries, Found, GetBody, LedgerStats, Lookup, Query, Read, ReadLedgerStats, Tail, Write, WriteEntry, Written,
)  # fmt: skip
from bus.port import Bus, Disk
from config.schema import LedgerConfig
from ledger_service.index import Committed
from ledger_service.opening import Opened, discard_index, open_ledger
from ledger_service.pages import Pages
from ledger_service.recovery import Removed
from ledger_service.writer import Writer


class LedgerService(Actor):
    """The append-only record. `failed` gets the reason when the process must exit (with code 1)."""

    service = "ledger"

    def __init__(self, disk: Disk, config: LedgerConfig) -> None:
        self.failed: asyncio.Future[LedgerError]
        self._disk = disk
        self._config = config
        self._bus: Bus
        self._opened: Opened | None = None
        self._writer: Writer | None = None
        self._pages: Pages | None = None
        self._fault: LedgerError | None = None
        self._queued = asyncio.Event()
        self._dirty = asyncio.Event()
        self._followers: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []

    # --- life cycle

    async def start(self, bus: Bus) -> None:
        """Recovers, then accepts. Raises LedgerError (rejected, disk_full, damaged) or OSError, naming the place."""
        self._bus = bus
        self.failed = asyncio.get_running_loop().create_future()
        opened = self._opened = open_ledger(self._disk, self._config)
        try:
            for _ in opened.steps:
                await bus.sleep(0)  # a long rebuild must not look like a stuck process
            self._accept(bus, opened)
        except BaseException:
            self.stop()
            raise

    def _accept(self, bus: Bus, opened: Opened) -> None:
        """From here on the ledger writes; a recovery's record comes first."""
        writer = Writer(
            config=self._config,
            tables=opened.tables,
            files=opened.files,
            position=opened.recovered.position,
            ledger_at_us=opened.recovered.ledger_at_us,
            origin=bus.instance,
            free_bytes=self._disk.free_bytes,
            now_us=lambda: round(bus.now() * 1_000_000),
            draw_salt=lambda: UUID(bus.new_id()).bytes,
        )
        if opened.recovered.removed is not None:
            writer.submit([_recovered(bus, opened.recovered.removed)], bus.instance)
            writer.commit()
        self._pages = Pages(opened.tables, opened.index, opened.files, read_bytes_max=self._config.read_bytes_max)
        self._writer = writer
        self._tasks = [self._own(self._commit_queued()), self._own(self._keep_index())]

    async def ready(self) -> str:
        """Ready once recovered."""
        if self._fault is not None:
            return self._fault.detail
        return "" if self._writer is not None else "recovering"

    async def drain(self) -> None:
        """Commits what is queued, brings the index up to date, gives everything back."""
        if self._writer is not None and self._opened is not None and self._fault is None:
            while self._writer.has_work:
                self._writer.commit()
            self._opened.tables.flush()
        self.stop()

    def stop(self) -> None:
        """Gives files, index and lock back; nothing acknowledged depends on it."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        if self._fault is None:
            self._fault = LedgerError("unavailable", "the ledger is stopping; resubmit to the next one")
        if self._writer is not None:
            self._writer.fail_all(self._fault)
            self._writer.close()
        if self._opened is not None:
            self._opened.files.close()
            self._opened.index.close()
            self._opened.unlock()
        self._writer = self._opened = self._pages = None

    def counters(self) -> dict[str, int]:
        """For the heartbeat."""
        writer = self._writer
        return {} if writer is None else {"head": writer.head, "entries": writer.entries, "commits": writer.commits}

    # --- messages

    async def on_write(self, message: Write, call: Call) -> Written:
        """Answered when everything it says is durable. Failures: busy, disk_full, fenced, unavailable."""
        answer = self._open_writer().submit(message.entries, call.sender)
        self._queued.set()
        return Written.model_construct(acks=await answer)

    async def on_lookup(self, message: Lookup, call: Call) -> Found:
        """From the writer's table, up to the last acknowledged entry."""
        pages, tables = self._open_pages(), self._open().tables
        found = [tables.by_submission(submission_id) for submission_id in message.submission_ids]
        found += [tables.by_once(key) for key in message.once]
        return Found.model_construct(entries=pages.messages(found, with_bodies=message.with_bodies))

    async def on_read(self, message: Read, call: Call) -> Entries:
        """A page of a stream, up to the last acknowledged entry."""
        found = self._open().tables.select(
            message.stream, after=message.after, limit=message.limit + 1, newest_first=message.newest_first
        )
        return self._page(found, message.limit, with_bodies=message.with_bodies)

    async def on_query(self, message: Query, call: Call) -> Entries:
        """A page by provenance, from the index."""
        found = self._open_pages().query(
            message.where, after=message.after, limit=message.limit + 1, newest_first=message.newest_first
        )
        return self._page(found, message.limit, with_bodies=message.with_bodies)

    async def on_tail(self, message: Tail, call: Call) -> Entries:
        """Entries after a sequence; waits for the first one as long as the question allows."""
        wait_s = min(message.wait_ms / 1000, call.remaining_s(self._bus.clock.monotonic()))
        try:
            async with asyncio.timeout(wait_s):
                while not (found := self._tail(message)):
                    await self._next_commit()
        except TimeoutError:
            found = self._tail(message)
        return self._page(found, message.limit, with_bodies=message.with_bodies)

    async def on_get_body(self, message: GetBody, call: Call) -> Body:
        """One body. Failures: not_found, erased, damaged."""
        try:
            submission_id, number = split_body_ref(message.ref)
        except ValueError as error:
            raise LedgerError("not_found", str(error)) from None
        found = self._open().tables.by_submission(submission_id)
        if found is None or number >= len(found.entry.body_lengths):
            raise LedgerError("not_found", f"no body {message.ref} in the ledger")
        return Body(ref=message.ref, data=self._open().files.bodies(found.place, found.entry)[number][1])

    async def on_read_stats(self, message: ReadLedgerStats, call: Call) -> LedgerStats:
        """Counters since start, and the head."""
        writer = self._open_writer()
        return LedgerStats(
            head=writer.head,
            chain=writer.chain,
            entries=writer.entries,
            commits=writer.commits,
            syncs=writer.syncs,
            bytes_written=writer.bytes_written,
            index_behind=self._open().tables.behind,
        )

    # --- the two tasks

    async def _commit_queued(self) -> None:
        """Wakes one turn of the loop after the first write, so that all writes of one wake-up share a frame."""
        while True:
            await self._queued.wait()
            self._queued.clear()
            writer = self._open_writer()
            while writer.has_work:
                head = writer.head
                writer.commit()
                if writer.head != head:
                    self._dirty.set()
                    self._wake_followers()
                await self._bus.sleep(0)

    async def _keep_index(self) -> None:
        """Sleeps while nothing is written; then one index transaction per interval."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            await self._bus.sleep(self._config.index_interval_ms / 1000)
            self._open().tables.flush()
            self._open_writer().fill_ahead()

    def _own(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._on_task_end)
        return task

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None or self._fault is not None:
            return
        what = "its index" if isinstance(error, sqlite3.Error) else "its disk"
        what = what if isinstance(error, sqlite3.Error | OSError) else "an internal error"
        self._fault = LedgerError(
            "fenced", f"the ledger stopped because of {what} ({type(error).__name__}: {error}); it must be started anew"
        )
        if isinstance(error, sqlite3.Error) and self._opened is not None:
            self._opened.index.close()
            discard_index(self._disk)
        if self._writer is not None:
            self._writer.fail_all(self._fault)
        self._wake_followers()
        if not self.failed.done():
            self.failed.set_result(self._fault)

    # --- state

    def _open(self) -> Opened:
        if self._fault is not None:
            raise self._fault
        if self._opened is None or self._writer is None:
            raise LedgerError("unavailable", "the ledger is recovering; try again")
        return self._opened

    def _open_writer(self) -> Writer:
        self._open()
        assert self._writer is not None
        return self._writer

    def _open_pages(self) -> Pages:
        self._open()
        assert self._pages is not None
        return self._pages

    def _page(self, found: list[Committed], limit: int, *, with_bodies: bool) -> Entries:
        return self._open_pages().page(found, limit, head=self._open_writer().head, with_bodies=with_bodies)

    def _tail(self, message: Tail) -> list[Committed]:
        return self._open().tables.select(message.stream, after=message.after, limit=message.limit + 1)

    async def _next_commit(self) -> None:
        follower: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._followers.append(follower)
        try:
            await follower
        finally:
            if follower in self._followers:
                self._followers.remove(follower)

    def _wake_followers(self) -> None:
        for follower in self._followers:
            if not follower.done():
                follower.set_result(None)
        self._followers.clear()


def _recovered(bus: Bus, removed: Removed) -> WriteEntry:
    """The record of a recovery: which bytes were set aside, and where they are."""
    return WriteEntry(
        submission_id=f"RECOVERED:{bus.instance}/1",
        stream="governance",
        event_type="RECOVERED",
        reason=f"{removed.kind}_batch",
        at_us=round(bus.now() * 1_000_000),
        bodies=[pack(removed._asdict())],
    )
