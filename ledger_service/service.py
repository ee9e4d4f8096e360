"""The ledger's actor: messages arrive here, nowhere else.

Every request is held against `scope.py` first. A write has whatever is queued committed in the loop's next turn. Three
long-lived tasks belong to it: one keeps the index close behind, one the full text, one records what was denied. A
fourth one reads, after a start, which ids the index has.
When a commit or one of these ends with an error the ledger is fenced: all requests are answered `fenced`, `failed` gets
the reason, the process must exit.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine
from contextlib import suppress

from hobus.bus import limits
from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import BusError, LedgerError, RuntimeFault
from hobus.bus.limits import INDEX_INTERVAL_MS
from hobus.bus.messages import ledger as m
from hobus.bus.messages.failure import Failure
from hobus.bus.messages.ids import split_body_ref
from hobus.bus.port import Bus, Disk
from hobus.bus.promise import Promise
from hobus.bus.record.catalog import may_write_entry
from hobus.config.sections.record import LedgerConfig
from hobus.ledger_service.admission import ELSEWHERE
from hobus.ledger_service.full_text import FullText
from hobus.ledger_service.full_text import discard as remove_search
from hobus.ledger_service.index import Committed, NoRoom
from hobus.ledger_service.intake import Surroundings, make_salts
from hobus.ledger_service.limits import (
    DENIED_INTERVAL_MS,
    DENIED_MAX,
    FOLLOWED_MS,
    PRINCIPAL_TAILS_MAX,
    explain_shortage,
)
from hobus.ledger_service.opening import Opening, OpenLedger, discard_index, make_no_index, open_ledger
from hobus.ledger_service.scope import READS, Denials, list_searched, may_read, may_read_entry
from hobus.ledger_service.writer import Outcome


class LedgerService(Actor):
    """The append-only record. `failed` is set when the process must exit with code 1, after the answers are out."""

    service = "ledger"
    is_watched = True  # a disk fills while it runs

    def __init__(self, disk: Disk, config: LedgerConfig) -> None:
        self.failed: asyncio.Future[LedgerError]
        self._disk = disk
        self._config = config
        self._bus: Bus
        self._ledger: OpenLedger | None = None
        self._fault: LedgerError | None = None
        self._commit: asyncio.Handle | None = None  # the next one, once somebody waits for it
        self._lazily: asyncio.TimerHandle | None = None  # the one that writes wait for that nobody waits for
        self._patience: asyncio.TimerHandle | None = None  # with writes that follow an entry that is not there yet
        self._dirty = asyncio.Event()
        self._unsearched = asyncio.Event()
        self._full_text: FullText | None = None  # off, or not begun yet
        self._followers: list[asyncio.Future[None]] = []
        self._waiting: dict[str, int] = {}  # long polls of each principal
        self._denials: Denials
        self._denied = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._at_what = ""  # while it starts

    # --- life cycle

    async def start(self, bus: Bus) -> None:
        """Recover, then accept. Raises LedgerError (rejected, disk_full, damaged) or OSError, naming the place."""
        self._bus = bus
        self._denials = Denials(bus.instance, kinds_max=DENIED_MAX)
        self.failed = asyncio.get_running_loop().create_future()
        world = Surroundings(
            origin=bus.instance,
            free_bytes=self._disk.free_bytes,
            now_us=self._read_clock_us,
            draw_salts=make_salts(bus.new_id),
        )
        try:
            opening = await self._catch_up(bus)
        except sqlite3.DatabaseError:
            discard_index(self._disk)
            try:
                opening = await self._catch_up(bus)
            except sqlite3.Error as error:
                raise make_no_index(self._disk, error) from error
        try:
            self._ledger = opening.accept(self._config, world)
        except BaseException:
            opening.close()
            raise
        opening.db.on_broken = lambda error: asyncio.get_running_loop().call_soon(self._fail, error)
        self._full_text = self._begin_search(opening)
        works = (
            self._keep_index(), self._keep_search(), self._record_denials(), self._learn_known(),
        )  # fmt: skip
        self._tasks = [self._own_task(work) for work in works]

    def _begin_search(self, opening: Opening) -> FullText | None:
        """Open the search; what an earlier start left unsearched comes in while writes are taken already."""
        if not self._config.search.enabled:
            with suppress(
                OSError
            ):  # what could not be removed is told apart by its chain value, should it be used again
                remove_search(self._disk)
            return None
        self._unsearched.set()
        return FullText(self._bus, self._disk, opening.tables, opening.files)

    async def _catch_up(self, bus: Bus) -> Opening:
        opening = open_ledger(self._disk, self._config)
        done = opening.indexed.last if opening.indexed is not None else -1
        missing = opening.recovered.position.last - done
        what = "makes its index anew" if opening.indexed is None else "brings its index up"
        try:
            for reached in opening.catch_up():
                self._at_what = f"{what}: {reached - done:,} of {missing:,} entries" if missing else ""
                await bus.sleep(0)  # a long rebuild must not look like a stuck process
        except BaseException:
            opening.close()
            raise
        return opening

    def starting(self) -> str:
        """Return how far the index is, where a start has to make it or bring it up."""
        return self._at_what

    async def ready(self) -> str:
        """Report ready once recovered, while there is space to write to, and never again after a fault."""
        if self._fault is not None:
            return self._fault.detail
        return "recovering" if self._ledger is None else explain_shortage(self._disk.free_bytes(), self._config)

    async def drain(self) -> None:
        """Commit what is queued, bring the index up to date, give everything back."""
        if self._ledger is not None and self._fault is None:
            denied = self._denials.records(self._read_clock_us())
            with suppress(BusError):  # a full queue: what was denied last is not worth more than what waits there
                if denied:
                    self._ledger.writer.submit(denied, self._bus.instance)
            while self._ledger.writer.has_work:
                self._ledger.writer.commit()
            with suppress(NoRoom):  # the next start catches up
                self._ledger.tables.flush()
        self.stop()

    def stop(self) -> None:
        """Give files, index and lock back at once, as an exit would."""
        self._forget_commit()
        if self._patience is not None:
            self._patience.cancel()
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self._fault = self._fault or LedgerError("unavailable", "the ledger has stopped; resubmit to the next one")
        if self._full_text is not None:
            self._full_text.close()
        if self._ledger is not None:
            self._ledger.writer.fail_all(self._fault)
            self._ledger.close()
        self._ledger = None

    def counters(self) -> dict[str, int]:
        if self._ledger is None:
            return {}
        writer = self._ledger.writer
        return {
            "head": writer.head,
            "entries": writer.entries,
            "commits": writer.commits,
            "denied": self._denials.total,
        }

    # --- messages

    def on_write(self, message: m.Write, call: Call) -> Promise[m.Written]:
        """Answer when everything said is durable. Failures: busy, disk_full, fenced, unavailable.

        An entry that its sender is not the writer of, whose id or once key is not its to give, or that comes late to an
        order that has no end, is refused as `denied`; the others keep their order.
        """
        ledger = self._open()
        denied = {
            number: entry
            for number, entry in enumerate(message.entries)
            if not may_write_entry(
                call.role, entry, call.sender, lambda once: ledger.tables.find_by_once(once) is not None
            )
        }
        for entry in denied.values():
            self._note_denied(call, m.Write.TYPE, entry.stream, entry.event_type)
        answer: Promise[m.Written] = Promise()
        decided = ledger.writer.submit(message.entries, call.sender, parts=message.parts, denied=denied)
        decided.then(lambda outcomes: answer.settle(_make_written(outcomes)))
        self._commit_soon(urgent=message.urgent)
        return answer

    def on_import(self, message: m.Import, call: Call) -> Promise[m.Written]:  # noqa: ARG002 - operators alone ask
        """Write whatever another cell's record has of a session. Failures: as of a write."""
        answer: Promise[m.Written] = Promise()
        decided = self._open().writer.submit(message.entries, ELSEWHERE, parts=message.parts)
        decided.then(lambda outcomes: answer.settle(_make_written(outcomes)))
        self._commit_soon(urgent=True)
        return answer

    async def append(self, entries: list[m.WriteEntry], origin: str, *, urgent: bool = True) -> list[m.Ack]:
        """Return the acks of entries that this origin may write, once they are durable."""
        answer = self._open().writer.submit(entries, origin)
        self._commit_soon(urgent=urgent)
        (acks,) = await answer
        if isinstance(acks, RuntimeFault):
            raise acks
        return acks

    def _commit_soon(self, *, urgent: bool) -> None:
        """See to it that what was submitted is committed.

        Without `urgent` that may wait `ledger.lazy_commit_ms` for a write that somebody waits for, or for a full batch:
        the order of arrival stays, so what is acknowledged later still implies what came earlier.
        """
        if self._commit is not None:
            return
        loop = asyncio.get_running_loop()
        if urgent or self._open().writer.outstanding >= limits.FRAME_ENTRIES_MAX:
            self._commit = loop.call_soon(self._commit_queued)
        elif self._lazily is None:
            self._lazily = loop.call_later(self._config.lazy_commit_ms / 1000, self._commit_queued)

    async def on_lookup(self, message: m.Lookup, call: Call) -> m.Found:
        """Answer from the writer's table, up to the last acknowledged entry. Failures: denied, for one or all."""
        self._demand(call.role in READS, call, message.TYPE)  # else it is not told what there is
        ledger = await self._bring_up_to_date()
        found = [ledger.tables.find_by_submission(submission_id) for submission_id in message.submission_ids]
        found += [ledger.tables.find_by_once(key) for key in message.once]
        for one in found:
            if one is not None:
                self._demand_entry(call, message.TYPE, one, with_bodies=message.with_bodies)
        return m.Found(entries=ledger.messages(found, with_bodies=message.with_bodies))

    async def on_read(self, message: m.Read, call: Call) -> m.Entries:
        """Answer a page of a stream, up to the last acknowledged entry. Failures: denied."""
        self._demand_stream(call, message.TYPE, message.stream, with_bodies=message.with_bodies)
        ledger = await self._bring_up_to_date()
        found = ledger.tables.select(
            message.stream,
            after=message.after,
            before=message.before,
            limit=self._bound_limit(message.limit) + 1,
            newest_first=message.newest_first,
        )
        return self._make_page(found, message.limit, with_bodies=message.with_bodies)

    async def on_query(self, message: m.Query, call: Call) -> m.Entries:
        """Answer a page by provenance, from the index. Failures: denied, malformed."""
        stream, event_type = message.where.get("stream"), message.where.get("event_type")
        wanted, only = stream if isinstance(stream, str) else None, event_type if isinstance(event_type, str) else ""
        may = may_read(call.role, wanted, with_bodies=message.with_bodies, event_type=only)
        self._demand(may, call, message.TYPE, wanted or "", only)
        found = self._open().query(
            message.where,
            after=message.after,
            before=message.before,
            limit=self._bound_limit(message.limit) + 1,
            newest_first=message.newest_first,
        )
        return self._make_page(found, message.limit, with_bodies=message.with_bodies)

    async def on_tail(self, message: m.Tail, call: Call) -> m.Entries:
        """Answer entries after a sequence; wait for the first as long as is asked. Failures: denied, busy."""
        self._demand_stream(call, message.TYPE, message.stream, with_bodies=message.with_bodies)
        wait_s = min(message.wait_ms / 1000, call.remaining_s(self._bus.clock.monotonic()))
        found = self._tail(message)
        if not found and wait_s > 0:
            found = await self._tail_later(message, wait_s)
        return self._make_page(found, message.limit, with_bodies=message.with_bodies)

    async def on_search(self, message: m.Search, call: Call) -> m.Hits:
        """Answer texts by their words, from the full-text index. Failures: denied, malformed, unavailable, rejected."""
        names_one = bool(message.session_id or message.agent_id)
        streams = list_searched(call.role, message.streams, names_one=names_one)
        self._demand(bool(streams), call, message.TYPE, " ".join(message.streams))
        # What waits to be committed comes behind every entry that there is.
        ledger = await self._bring_up_to_date() if message.before is None else self._open()
        if self._full_text is None:
            raise BusError("rejected", "search is switched off: set ledger.search.enabled, and start anew")
        return await self._full_text.answer(message, streams=sorted(streams), head=ledger.writer.head)

    async def on_get_body(self, message: m.GetBody, call: Call) -> m.Body:
        """Answer one body. Failures: denied, not_found, damaged."""
        self._demand(call.role in READS, call, message.TYPE)  # else it is not told what there is
        ledger = await self._bring_up_to_date()
        try:
            submission_id, number = split_body_ref(message.ref)
        except ValueError as error:
            raise LedgerError("not_found", str(error)) from None
        found = ledger.tables.find_by_submission(submission_id)
        if found is not None:
            self._demand_entry(call, message.TYPE, found, with_bodies=True)
        if found is None or number >= len(found.entry.body_lengths):
            raise LedgerError("not_found", f"there is no body {message.ref} in the ledger")
        return m.Body(ref=message.ref, data=ledger.files.bodies(found.place, found.entry)[number][1])

    async def on_read_stats(self, _message: m.ReadLedgerStats, _call: Call) -> m.LedgerStats:
        """Answer counters since start, and the head."""
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

    async def _bring_up_to_date(self) -> OpenLedger:
        """Commit what has arrived before anybody is told what there is, so that a waiting write hides from nobody."""
        if self._lazily is not None:
            self._commit_soon(urgent=True)
            await self._schedule_commit()
        return self._open()

    def _bound_limit(self, limit: int) -> int:
        return min(limit, limits.PAGE_ENTRIES_MAX)

    def _make_page(self, found: list[Committed], limit: int, *, with_bodies: bool) -> m.Entries:
        ledger = self._open()
        return ledger.page(found, self._bound_limit(limit), head=ledger.writer.head, with_bodies=with_bodies)

    def _read_clock_us(self) -> int:
        return int(self._bus.now() * 1_000_000 + 0.5)

    # --- scope

    def _demand(self, is_allowed: bool, call: Call, type_name: str, stream: str = "", event_type: str = "") -> None:
        if not is_allowed:
            self._note_denied(call, type_name, stream, event_type)
            where = f"stream {stream[:80]}" if stream else "all streams"
            what = f"{type_name}: role {call.role} may not read {where} (docs/ledger.md, who may read)"
            raise BusError("denied", what)

    def _demand_stream(self, call: Call, type_name: str, stream: str | None, *, with_bodies: bool) -> None:
        self._demand(may_read(call.role, stream, with_bodies=with_bodies), call, type_name, stream or "")

    def _demand_entry(self, call: Call, type_name: str, found: Committed, *, with_bodies: bool) -> None:
        stream, event_type = found.entry.stream, found.entry.event_type
        may = may_read_entry(call.role, stream, event_type, with_bodies=with_bodies)
        self._demand(may, call, type_name, stream, event_type)

    def _note_denied(self, call: Call, type_name: str, stream: str, event_type: str) -> None:
        self._denials.note(call.sender, type_name, stream, event_type, now_us=self._read_clock_us())
        self._denied.set()

    # --- those who follow

    def _tail(self, message: m.Tail) -> list[Committed]:
        return self._open().tables.select(
            message.stream, after=message.after, limit=self._bound_limit(message.limit) + 1
        )

    async def _tail_later(self, message: m.Tail, wait_s: float) -> list[Committed]:
        """Wait for entries; each principal has a bounded number of such polls, so that they crowd out nobody."""
        principal = self._bus.principal
        waiting = self._waiting.get(principal, 0)
        if waiting >= PRINCIPAL_TAILS_MAX:
            raise BusError("busy", f"{waiting} long polls of {principal} wait; no more are held")
        self._waiting[principal] = waiting + 1
        try:
            async with asyncio.timeout(wait_s):
                while not (found := self._tail(message)):
                    await self._schedule_commit()
                return found
        except TimeoutError:
            return self._tail(message)
        finally:
            self._waiting[principal] -= 1
            if not self._waiting[principal]:
                del self._waiting[principal]

    async def _schedule_commit(self) -> None:
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

    # --- the tasks

    def _commit_queued(self) -> None:
        """Commit one turn of the loop after the first write, so that all writes of one wake-up share a frame."""
        self._forget_commit()
        try:
            writer = self._open().writer
            commits = writer.commits
            writer.commit()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is final: never sync twice hoping for better
            self._fail(error)
            return
        if writer.commits > commits:
            self._dirty.set()
            self._unsearched.set()
        self._wake_followers()
        if writer.has_work:  # what arrives meanwhile joins the next frame
            self._commit_soon(urgent=True)
        if writer.has_early and self._patience is None:
            self._patience = asyncio.get_running_loop().call_later(FOLLOWED_MS / 1000, self._give_up_early)

    def _give_up_early(self) -> None:
        """Decide writes that follow what never came, each after one or two such times."""
        self._patience = None
        if self._ledger is not None and self._ledger.writer.has_early:
            self._ledger.writer.give_up_early()
            self._commit_soon(urgent=True)

    def _forget_commit(self) -> None:
        for one in (self._commit, self._lazily):
            if one is not None:
                one.cancel()
        self._commit = self._lazily = None

    async def _keep_index(self) -> None:
        """Bring the index up once per interval, in steps between commits; sleep while nothing is written.

        What finds no room there stays in memory, as much as it is: nothing else is written then, and all can be read.
        """
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            await self._bus.sleep(INDEX_INTERVAL_MS / 1000)
            try:
                await self._index_up_to(self._open().writer.head)
            except NoRoom:
                self._dirty.set()
            self._open().writer.fill_ahead()

    async def _index_up_to(self, sequence: int) -> None:
        """Index in steps; behind each there is as much time as it took for what was queued meanwhile."""
        tables, clock = self._open().tables, self._bus.clock
        while True:
            began = clock.monotonic()
            tables.index_some()
            if tables.indexed >= sequence:
                return
            await self._bus.sleep(clock.monotonic() - began)

    async def _keep_search(self) -> None:
        """Keep the search index like the other one, after half its interval: then most entries are still in memory."""
        while self._full_text is not None:
            await self._unsearched.wait()
            self._unsearched.clear()
            await self._bus.sleep(INDEX_INTERVAL_MS / 2000)
            await self._full_text.keep_up(self._open().writer.head)

    async def _learn_known(self) -> None:
        """Learn ids until the index need not be asked about new ones any more; writes are taken meanwhile."""
        for _ in self._open().tables.learn():
            await self._bus.sleep(0)

    async def _record_denials(self) -> None:
        """Write at most one batch of records per interval, however much is denied."""
        while True:
            await self._denied.wait()
            await self._bus.sleep(DENIED_INTERVAL_MS / 1000)
            self._denied.clear()
            try:
                await self.append(self._denials.records(self._read_clock_us()), self._bus.instance)
            except RuntimeFault:
                if self._fault is not None:
                    return
                self._denied.set()  # busy, no space: again after the next interval, under the same ids
                continue
            self._denials.durable()

    def _own_task(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._on_task_end)
        return task

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        """Treat an error of any of these tasks as final: never sync twice hoping for better."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._fault is not None or self._ledger is None:
            return
        where = {True: "its disk", False: "an internal error"}[isinstance(error, OSError)]
        if isinstance(error, sqlite3.Error):
            where = "its index, which the next start rebuilds"
            self._ledger.db.close()
            with suppress(LedgerError):  # the next start meets the same, and says so
                discard_index(self._disk)
        self._fault = LedgerError("fenced", f"the ledger stopped because of {where} ({type(error).__name__}: {error})")
        self._ledger.writer.fail_all(self._fault)
        self._wake_followers()
        if not self.failed.done():
            self.failed.set_result(self._fault)


def _make_written(outcomes: list[Outcome] | RuntimeFault) -> m.Written | RuntimeFault:
    """Return the answer to a frame of writes: the fault, where all that came has one."""
    if isinstance(outcomes, RuntimeFault):
        return outcomes
    if len(outcomes) == 1:
        (outcome,) = outcomes
        return outcome if isinstance(outcome, RuntimeFault) else m.Written(acks=outcome, failures={})
    acks: list[m.Ack] = []
    failures: dict[int, Failure] = {}
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, RuntimeFault):
            failures[number] = outcome.as_failure()
        else:
            acks += outcome
    return m.Written(acks=acks, failures=failures)
