"""How everybody writes to the record and reads from it.

Writes are pipelined: they leave in the order of the
calls, and a later write never takes effect before an earlier one that this client still has to deliver. When a delivery
fails in a way that may pass (the ledger restarts, is busy, its answer is overdue), everything from the first such write
on is submitted again, in order, under the same submission ids (go back N): what had committed is answered as known,
what had been refused only because its predecessor was missing now stands. No ack means unknown, not failed. A refused
or lost ack is an answer and is returned.

Writes share frames, each with its own outcome. One that nobody waits for leaves with the next one that somebody waits
for, and after `ledger.lazy_commit_ms` at the latest; at once when somebody waits for all (`flush`) or asks the ledger.
Urgent ones leave together at the end of the loop's step, and while `limits.URGENT_FRAMES_MAX` frames of such are on
their way, with the answer to one.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hobus.bus import limits
from hobus.bus.errors import LedgerError, RuntimeFault, make_fault
from hobus.bus.limits import RESUBMIT_PAUSE_MS
from hobus.bus.messages.ledger import (
    Ack,
    Body,
    Entries,
    Entry,
    Found,
    GetBody,
    Hits,
    LedgerStats,
    Lookup,
    Part,
    Query,
    Read,
    ReadLedgerStats,
    Search,
    Write,
    WriteEntry,
    Written,
)
from hobus.bus.port import Bus
from hobus.bus.promise import Promise
from hobus.bus.record.entry import estimate_wire_size, with_bytes

if TYPE_CHECKING:
    from hobus.bus.settings import LedgerClientSettings

LEDGER = "ledger"


class _Submitted(Struct, eq=False):
    """One write until it is settled."""

    entries: Sequence[WriteEntry]
    count: int
    resting: int
    trace: str
    acks: Promise[list[Ack]]
    is_urgent: bool
    follows: str = ""
    is_alone: bool = False  # it shares no frame: of one that it is in, nothing may be taken
    size_bytes: int = 0
    outcome: list[Ack] | RuntimeFault | None = None


class LedgerClient:
    """The ledger as one process sees it; bounded, in order, surviving the ledger's restarts."""

    def __init__(self, bus: Bus, settings: LedgerClientSettings) -> None:
        self._bus = bus
        self._request_timeout_s = limits.LEDGER_REQUEST_TIMEOUT_MS / 1000
        self._resubmit_pause_s = RESUBMIT_PAUSE_MS / 1000
        self._outage_wait_s = settings.outage_wait_ms / 1000
        self._outstanding_max = limits.UNACKNOWLEDGED_MAX
        self._frames_max = limits.URGENT_FRAMES_MAX
        self._lazy_s = settings.lazy_commit_ms / 1000
        self._frame_entries_max = limits.FRAME_ENTRIES_MAX
        self._frame_bytes_max = limits.FRAME_BYTES_MAX
        self._queue: deque[_Submitted] = deque()
        self.outstanding = 0  # entries submitted and not yet acknowledged
        self._held: deque[_Submitted] = deque()  # the last ones of the queue: those that are not on their way
        self._held_entries = self._held_bytes = self._held_urgent = 0
        self._frames = self._urgent_frames = 0  # on their way
        self._leaving: asyncio.Handle | None = None  # until the end of a step in which something urgent was submitted
        self._lazily: asyncio.TimerHandle | None = None  # while only writes that nobody waits for are held
        self._context = contextvars.copy_context()  # a frame is sent for this process, not for one of many callers
        self._ends: deque[tuple[float, asyncio.Future[bool]]] = deque()  # of waits for an ack, in their order
        self._end: asyncio.TimerHandle | None = None  # of the first of them that may still be open
        self._goes_back = False
        self._because: RuntimeFault | None = None  # the fault for which it goes back
        self._retry: asyncio.Task[None] | None = None

    # --- writing ----------------------------------------------------------------------------------------------------

    def submit(  # noqa: PLR0913 - how a write leaves
        self,
        entries: Sequence[WriteEntry],
        *,
        trace: str = "",
        urgent: bool = False,
        at_once: bool = False,
        resting: int = 0,
        follows: str = "",
    ) -> Promise[list[Ack]]:
        """Pipeline a write; the promise is settled with its acks once it is durable, one per entry.

        `urgent`: somebody waits for them; other writes may share frame and sync of a later one. `at_once`: nobody
        waits, but they leave now: a record of what others do next had better have them. `resting`: so many at the end
        stand if each of those before them is first, together with them; else never. `follows`: they stand behind this
        entry, which another process has on its way; where it does not come, never. It is settled with a RuntimeFault
        only if the ledger cannot take this write at all (too large, disk full, denied), and never before this returns.
        Raises LedgerError(busy) when `limits.UNACKNOWLEDGED_MAX` entries are unacknowledged.
        """
        count = len(entries)
        if self.outstanding + count > self._outstanding_max:
            raise LedgerError(
                "busy",
                f"{self.outstanding} entries are unacknowledged; the limit is {self._outstanding_max}",
                retryable=True,
            )
        acks: Promise[list[Ack]] = Promise()
        submitted = _Submitted(entries, count, resting, trace, acks, urgent, follows)
        try:
            submitted.entries = packed = [with_bytes(entry) for entry in entries]
            submitted.size_bytes = estimate_wire_size(packed)
        except OverflowError:  # its own delivery says so, in its turn
            submitted.is_alone = True
        self._queue.append(submitted)
        self.outstanding += count
        self._hold(submitted)
        if self._held_urgent:
            self._leave_soon()
        elif at_once or self._held_entries >= self._frame_entries_max or self._held_bytes >= self._frame_bytes_max:
            self._leave(at_once=True)
        elif self._lazily is None:
            self._leave_in_time()
        return acks

    async def write(self, entries: Sequence[WriteEntry], *, trace: str = "", follows: str = "") -> list[Ack]:
        """Write and wait: return the acks when everything up to this write is durable.

        Raises LedgerError(unavailable) after `ledger.outage_wait_ms`; the write stays submitted, its outcome is
        unknown.
        """
        acks = self.submit(entries, trace=trace, urgent=True, follows=follows)
        await self._wait_settled(f"the write of {entries[0].submission_id}")
        return acks.result()

    async def flush(self) -> None:
        """Wait until everything submitted is acknowledged (or refused for good). Raises LedgerError(unavailable)."""
        await self._wait_settled("")

    async def _wait_settled(self, what: str) -> None:
        """Wait for the outcome of what was submitted last. Raises LedgerError(unavailable) naming `what`."""
        if not self._queue:
            return
        last = self._queue[-1]
        if self._held and not last.is_urgent:
            last.is_urgent = True
            self._held_urgent += 1
            self._leave_soon()
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[bool] = loop.create_future()
        last.acks.then(partial(_tell, waiting, in_time=True))
        while self._ends and self._ends[0][1].done():
            self._ends.popleft()
        self._ends.append((loop.time() + self._outage_wait_s, waiting))
        if self._end is None:
            self._end = loop.call_later(self._outage_wait_s, self._end_waits)
        if not await waiting:
            what = what or f"{self.outstanding} submitted entries"
            bound = f"no acknowledgement within {self._outage_wait_s} s (ledger.outage_wait_ms)"
            raise LedgerError("unavailable", f"{what}: {bound}")

    def _end_waits(self) -> None:
        """End waits that took too long; one timer for all of them, since each may take as long."""
        loop, self._end = asyncio.get_running_loop(), None
        while self._ends and (self._ends[0][1].done() or self._ends[0][0] <= loop.time()):
            _tell(self._ends.popleft()[1])
        if self._ends:
            self._end = loop.call_at(self._ends[0][0], self._end_waits)

    # --- frames -----------------------------------------------------------------------------------------------------

    def _hold(self, submitted: _Submitted) -> None:
        self._held.append(submitted)
        self._held_entries += submitted.count
        self._held_bytes += submitted.size_bytes
        self._held_urgent += submitted.is_urgent

    def _leave_soon(self) -> None:
        """Send with whatever else is submitted in this step of the loop."""
        if self._leaving is None and not self._goes_back and self._urgent_frames < self._frames_max:
            self._leaving = asyncio.get_running_loop().call_soon(self._leave, context=self._context)

    def _leave_in_time(self) -> None:
        """Send, at the latest then, what nobody waits for."""
        loop = asyncio.get_running_loop()
        self._lazily = self._lazily or loop.call_later(self._lazy_s, self._leave_late, context=self._context)

    def _leave_late(self) -> None:
        self._lazily = None
        if not self._held_urgent:  # else they leave with that
            self._leave(at_once=True)

    def _leave(self, *, at_once: bool = False) -> None:
        """Send what may leave; `at_once`: all that is held; else what is urgent, and all before it."""
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        if self._goes_back:
            return
        while self._held and (at_once or (self._held_urgent and self._urgent_frames < self._frames_max)):
            self._send(self._take_next_frame())
        if not self._held and self._lazily is not None:
            self._lazily.cancel()
            self._lazily = None
        elif self._held and not self._held_urgent:  # what the frame of urgent ones had no room for has its bound, too
            self._leave_in_time()

    def _take_next_frame(self) -> list[_Submitted]:
        """Take the first held writes, within what one batch of the ledger takes."""
        writes: list[_Submitted] = []
        entries = size_bytes = 0
        while self._held:
            one = self._held[0]
            entries += one.count
            size_bytes += one.size_bytes
            is_full = entries > self._frame_entries_max or size_bytes > self._frame_bytes_max
            if writes and (is_full or one.is_alone or writes[0].is_alone):
                break
            writes += (self._held.popleft(),)
            self._held_entries -= one.count
            self._held_bytes -= one.size_bytes
            self._held_urgent -= one.is_urgent
        return writes

    def _send(self, writes: list[_Submitted]) -> None:
        """Send these writes in one frame. Entries were checked when made, and the ledger checks what arrives."""
        urgent = [one for one in writes if one.is_urgent]
        trace, is_urgent = (urgent or writes)[0].trace, bool(urgent)
        entries, parts = writes[0].entries, list[Part]()
        if writes[1:] or writes[0].resting or writes[0].follows:
            entries = [entry for one in writes for entry in one.entries]
            parts = [Part(one.count, one.resting, one.follows) for one in writes]
        message = Write(entries=list(entries), urgent=is_urgent, parts=parts)
        self._frames += 1
        self._urgent_frames += is_urgent
        try:
            self._bus.ask(
                LEDGER, message, expect=Written, timeout_s=self._request_timeout_s, trace=trace,
                on_outcome=partial(self._note_delivered, writes, is_urgent),
            )  # fmt: skip
        except RuntimeFault as fault:  # told later, as everything else: the caller has not got its promise yet
            asyncio.get_running_loop().call_soon(self._note_delivered, writes, is_urgent, fault)

    def _note_delivered(self, writes: Sequence[_Submitted], is_urgent: bool, outcome: Written | RuntimeFault) -> None:
        self._frames -= 1
        self._urgent_frames -= is_urgent
        if isinstance(outcome, RuntimeFault):
            _take_apart(writes, outcome)
        else:
            _hand_out(writes, outcome)
        self._settle()
        if self._held:
            self._leave()

    def _settle(self) -> None:
        """Hand out outcomes in order, up to the first write that has none yet or has to be delivered again."""
        while self._queue and not self._goes_back:
            head = self._queue[0]
            outcome = head.outcome
            if outcome is None:
                return
            if isinstance(outcome, RuntimeFault) and outcome.retryable:
                self._goes_back, self._because = True, outcome
                break
            self._queue.popleft()
            self.outstanding -= head.count
            head.acks.settle(outcome)
        if self._goes_back and self._retry is None and not self._frames:
            self._retry = asyncio.get_running_loop().create_task(self._submit_again())

    async def _submit_again(self) -> None:
        """Submit everything again, in order, once nothing is on its way any more."""
        pause_s = self._resubmit_pause_s
        if self._because is not None and self._because.retry_after_ms is not None:
            pause_s = min(self._because.pause_s(pause_s, self._bus.clock.random()), self._request_timeout_s)
        await self._bus.sleep(pause_s)
        self._goes_back, self._retry = False, None
        self._held.clear()
        self._held_entries = self._held_bytes = self._held_urgent = 0
        for submitted in self._queue:
            submitted.outcome = None
            self._hold(submitted)
        self._leave(at_once=True)

    # --- reading ----------------------------------------------------------------------------------------------------

    async def lookup(
        self, submission_ids: Sequence[str] = (), once: Sequence[str] = (), *, with_bodies: bool = False
    ) -> list[Entry | None]:
        """Return the entries of these submission ids, then of these once keys; None where nothing is."""
        question = Lookup(submission_ids=list(submission_ids), once=list(once), with_bodies=with_bodies)
        return (await self._ask(question, Found)).entries

    async def page(self, question: Read | Query) -> Entries:
        """Return a page of a stream, up to the last acknowledged entry, or of what the index finds."""
        return await self._ask(question, Entries)

    async def search(self, question: Search) -> Hits:
        """Search texts of the record by their words. Raises BusError(denied), LedgerError(unavailable).

        Where only those before an entry are looked for, what was just submitted need not be there first.
        """
        if question.before is None:
            return await self._ask(question, Hits)
        return await self._bus.request(LEDGER, question, expect=Hits, timeout_s=self._request_timeout_s)

    async def body(self, ref: str) -> bytes:
        """Return the bytes behind a ref. Raises LedgerError(erased) or BusError(not_found)."""
        return (await self._ask(GetBody(ref=ref), Body)).data

    async def stats(self) -> LedgerStats:
        """Return how far the record and its index reach."""
        return await self._ask(ReadLedgerStats(), LedgerStats)

    async def _ask(self, question: Any, expect: Any) -> Any:
        self._leave(at_once=True)  # whoever asks finds what was submitted before
        return await self._bus.request(LEDGER, question, expect=expect, timeout_s=self._request_timeout_s)


def _take_apart(writes: Sequence[_Submitted], fault: RuntimeFault) -> None:
    """Give a frame's fault to its one write; of several, which one is at fault is unknown: send them one by one."""
    is_of_one = len(writes) == 1
    if not is_of_one and not fault.retryable:
        fault = LedgerError("unavailable", f"a frame of several writes was not taken: {fault}", retryable=True)
        for one in writes:
            one.is_alone = True
    for one in writes:
        one.outcome = fault


def _hand_out(writes: Sequence[_Submitted], written: Written) -> None:
    """Give each write what was answered about its very entries; an answer about others is none."""
    at = 0
    for number, one in enumerate(writes):
        if number in written.failures:
            one.outcome = make_fault(written.failures[number])
            continue
        end = at + one.count
        acks = written.acks[at:end]
        at = end
        is_ours = [ack.submission_id for ack in acks] == [entry.submission_id for entry in one.entries]
        one.outcome = acks if is_ours or _are_about(acks, one.entries) else _refuse_second_writer()
    if written.acks[at:]:
        for one in writes:
            one.outcome = _refuse_second_writer()


def _refuse_second_writer() -> LedgerError:
    return LedgerError("unavailable", "the answer to a write was about other entries", retryable=True)


def _are_about(acks: Sequence[Ack], entries: Sequence[WriteEntry]) -> bool:
    """Return whether these acks are about these entries; one that lost its once key names the one that has it."""
    return len(acks) == len(entries) and all(
        ack.submission_id == entry.submission_id or (entry.once is not None and ack.outcome == "lost")
        for ack, entry in zip(acks, entries, strict=True)
    )


def _tell(waiting: asyncio.Future[bool], _outcome: object = None, *, in_time: bool = False) -> None:
    if not waiting.done():
        waiting.set_result(in_time)


async def read_pages(bus: Bus, question: Read | Query, *, timeout_s: float) -> tuple[list[Entry], bool]:
    """Return up to `question.limit` entries, page after page, and whether there are further ones.

    A page holds no more than `limits.PAGE_ENTRIES_MAX` and the ledger's bound of bytes allow.
    """
    found: list[Entry] = []
    while True:
        page = await bus.request("ledger", question, expect=Entries, timeout_s=timeout_s)
        found += page.entries
        left = question.limit - len(page.entries)
        if not page.more or not page.entries or left <= 0:
            return found, page.more
        edge = "before" if question.newest_first else "after"
        question = question.model_copy(update={edge: page.entries[-1].sequence, "limit": left})
