"""The ledger's actor: messages arrive here, nowhere else. Source: spec page "The ledger", Operations on the bus.

Two long-lived tasks belong to it: one commits whatever is queued, one keeps the index close behind. When either ends
with an error the ledger is fenced: all requests are answered `fenced`, `failed` gets the reason, the process must exit.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine

from bus.dispatch import Actor, Call
from bus.errors import LedgerError
from bus.messages import ledger as m
from bus.messages.ids import split_body_ref
from bus.port import Bus, Disk
from config.schema import LedgerConfig
from ledger_service.index import Committed
from ledger_service.intake import World
from ledger_service.opening import OpenLedger, discard_index, open_ledger
from ledger_service.salt import salts


class LedgerService(Actor):
    """The append-only record. `failed` is set when the process must exit with code 1, after the answers are out."""

    service = "ledger"

    def __init__(self, disk: Disk, config: LedgerConfig) -> None:
        self.failed: asyncio.Future[LedgerError]
        self._disk = disk
        self._config = config
        self._bus: Bus
        self._ledger: OpenLedger | None = None
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
        world = World(
            origin=bus.instance,
            free_bytes=self._disk.free_bytes,
            now_us=lambda: int(bus.now() * 1_000_000 + 0.5),
            draw_salt=salts(bus.new_id),
        )
        opening = open_ledger(self._disk, self._config)
        try:
            for _ in opening.catch_up():
                await bus.sleep(0)  # a long rebuild must not look like a stuck process
            self._ledger = opening.accept(self._config, world)
        except BaseException:
            opening.close()
            raise
        self._tasks = [self._own(self._commit_queued()), self._own(self._keep_index())]

    async def ready(self) -> str:
        """Ready once recovered, and never again after a fault."""
        if self._fault is not None:
            return self._fault.detail
        return "recovering" if self._ledger is None else ""

    async def drain(self) -> None:
        """Commits what is queued, brings the index up to date, gives everything back."""
        if self._ledger is not None and self._fault is None:
            while self._ledger.writer.has_work:
                self._ledger.writer.commit()
            self._ledger.tables.flush()
        self.stop()

    def stop(self) -> None:
        """Gives files, index and lock back at once, as an exit would."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self._fault = self._fault or LedgerError("unavailable", "the ledger has stopped; resubmit to the next one")
        if self._ledger is not None:
            self._ledger.writer.fail_all(self._fault)
            self._ledger.close()
        self._ledger = None

    def counters(self) -> dict[str, int]:
        """For the heartbeat."""
        if self._ledger is None:
            return {}
        writer = self._ledger.writer
        return {"head": writer.head, "entries": writer.entries, "commits": writer.commits}

    # --- messages

    async def on_write(self, message: m.Write, call: Call) -> m.Written:
        """Answered when everything it says is durable. Failures: busy, disk_full, fenced, unavailable."""
        answer = self._open().writer.submit(message.entries, call.sender)
        self._queued.set()
        return m.Written(acks=await answer)

    async def on_lookup(self, message: m.Lookup, _call: Call) -> m.Found:
        """From the writer's table, up to the last acknowledged entry."""
        ledger = self._open()
        found = [ledger.tables.by_submission(submission_id) for submission_id in message.submission_ids]
        found += [ledger.tables.by_once(key) for key in message.once]
        return m.Found.model_construct(entries=ledger.pages.messages(found, with_bodies=message.with_bodies))

    async def on_read(self, message: m.Read, _call: Call) -> m.Entries:
        """A page of a stream, up to the last acknowledged entry."""
        found = self._open().tables.select(
            message.stream, after=message.after, limit=message.limit + 1, newest_first=message.newest_first
        )
        return self._page(found, message.limit, with_bodies=message.with_bodies)

    async def on_query(self, message: m.Query, _call: Call) -> m.Entries:
        """A page by provenance, from the index."""
        found = self._open().pages.query(
            message.where, after=message.after, limit=message.limit + 1, newest_first=message.newest_first
        )
        return self._page(found, message.limit, with_bodies=message.with_bodies)

    async def on_tail(self, message: m.Tail, call: Call) -> m.Entries:
        """Entries after a sequence; waits for the first one as long as the question allows."""
        wait_s = min(message.wait_ms / 1000, call.remaining_s(self._bus.clock.monotonic()))
        try:
            async with asyncio.timeout(wait_s):
                while not (found := self._tail(message)):
                    await self._next_commit()
        except TimeoutError:
            found = self._tail(message)
        return self._page(found, message.limit, with_bodies=message.with_bodies)

    async def on_get_body(self, message: m.GetBody, _call: Call) -> m.Body:
        """One body. Failures: not_found, damaged."""
        ledger = self._open()
        try:
            submission_id, number = split_body_ref(message.ref)
        except ValueError as error:
            raise LedgerError("not_found", str(error)) from None
        found = ledger.tables.by_submission(submission_id)
        if found is None or number >= len(found.entry.body_lengths):
            raise LedgerError("not_found", f"there is no body {message.ref} in the ledger")
        return m.Body(ref=message.ref, data=ledger.files.bodies(found.place, found.entry)[number][1])

    async def on_read_stats(self, _message: m.ReadLedgerStats, _call: Call) -> m.LedgerStats:
        """Counters since start, and the head."""
        writer, tables = self._open().writer, self._open().tables
        return m.LedgerStats(
            head=writer.head,
            chain=writer.chain,
            entries=writer.entries,
            commits=writer.commits,
            syncs=writer.syncs,
            bytes_written=writer.bytes_written,
            index_behind=tables.behind,
        )

    def _open(self) -> OpenLedger:
        if self._fault is not None:
            raise self._fault
        if self._ledger is None:
            raise LedgerError("unavailable", "the ledger is recovering; try again")
        return self._ledger

    def _page(self, found: list[Committed], limit: int, *, with_bodies: bool) -> m.Entries:
        ledger = self._open()
        return ledger.pages.page(found, limit, head=ledger.writer.head, with_bodies=with_bodies)

    # --- those who follow

    def _tail(self, message: m.Tail) -> list[Committed]:
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

    # --- the two tasks

    async def _commit_queued(self) -> None:
        """Runs one turn of the loop after the first write, so that all writes of one wake-up share a frame."""
        while True:
            await self._queued.wait()
            self._queued.clear()
            writer = self._open().writer
            while writer.has_work:
                commits = writer.commits
                writer.commit()
                if writer.commits > commits:
                    self._dirty.set()
                    self._wake_followers()
                if writer.has_work:
                    await self._bus.sleep(0)  # what arrived meanwhile joins the next frame

    async def _keep_index(self) -> None:
        """Sleeps while nothing is written; then one index transaction per interval."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            await self._bus.sleep(self._config.index_interval_ms / 1000)
            self._open().tables.flush()
            self._open().writer.fill_ahead()

    def _own(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._on_task_end)
        return task

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        """An error of either task is final: it never syncs twice hoping for better."""
        error = None if task.cancelled() else task.exception()
        if error is None or self._fault is not None or self._ledger is None:
            return
        where = {True: "its disk", False: "an internal error"}[isinstance(error, OSError)]
        if isinstance(error, sqlite3.Error):
            where = "its index, which the next start rebuilds"
            self._ledger.opening.db.close()
            discard_index(self._disk)
        self._fault = LedgerError("fenced", f"the ledger stopped because of {where} ({type(error).__name__}: {error})")
        self._ledger.writer.fail_all(self._fault)
        self._wake_followers()
        if not self.failed.done():
            self.failed.set_result(self._fault)
