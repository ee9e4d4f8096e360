"""How everybody writes to the record and reads from it.

Source: spec page "The ledger", sections "Write rules" and Outages. Writes are pipelined: frames leave in the order of
the calls, and a later write never takes effect before an earlier one that this client still has to deliver. When a
delivery fails in a way that may pass (the ledger restarts, is busy, its answer is overdue), everything from the first
such write on is submitted again, in order, under the same submission ids (go back N): what had committed is answered
as known, what had been refused only because its predecessor was missing now stands. No ack means unknown, not failed.
A refused or lost ack is an answer and is returned.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from bus.errors import LedgerError, RuntimeFault
from bus.messages.ledger import (
    Ack,
    Body,
    Entries,
    Entry,
    Found,
    GetBody,
    Lookup,
    Part,
    Query,
    Read,
    Write,
    WriteEntry,
    Written,
)
from bus.port import Bus

LEDGER = "ledger"


@dataclass(slots=True, eq=False)
class _Submitted:
    """One write until it is settled."""

    write: Write
    trace: str
    future: asyncio.Future[list[Ack]]
    waiting: list[asyncio.Future[None]] = field(default_factory=list[asyncio.Future[None]])
    is_sent: bool = False  # and its outcome not known
    outcome: list[Ack] | RuntimeFault | None = None


class LedgerSettings(Protocol):
    """What a client goes by: of section `ledger` of the configuration."""

    @property
    def request_timeout_ms(self) -> int:
        """A read or write unanswered this long is sent again."""
        ...

    @property
    def outage_wait_ms(self) -> int:
        """How long a barrier waits for a restart of the ledger."""
        ...

    @property
    def resubmit_pause_ms(self) -> int:
        """Pause before writes that the ledger did not take are handed over again."""
        ...

    @property
    def client_outstanding_max(self) -> int:
        """Unacknowledged entries kept."""
        ...


class LedgerClient:
    """The ledger as one process sees it; bounded, in order, surviving the ledger's restarts."""

    def __init__(self, bus: Bus, settings: LedgerSettings) -> None:
        self._bus = bus
        self._request_timeout_s = settings.request_timeout_ms / 1000
        self._resubmit_pause_s = settings.resubmit_pause_ms / 1000
        self._outage_wait_s = settings.outage_wait_ms / 1000
        self._outstanding_max = settings.client_outstanding_max
        self._queue: deque[_Submitted] = deque()
        self._outstanding = 0
        self._goes_back = False
        self._because: RuntimeFault | None = None  # the fault for which it goes back
        self._retry: asyncio.Task[None] | None = None

    @property
    def outstanding(self) -> int:
        """Entries submitted and not yet acknowledged."""
        return self._outstanding

    # --- writing ----------------------------------------------------------------------------------------------------

    def submit(
        self, entries: Sequence[WriteEntry], *, trace: str = "", urgent: bool = False, resting: int = 0
    ) -> asyncio.Future[list[Ack]]:
        """Pipelines a write; the future holds its acks once it is durable, one per entry.

        `urgent`: somebody waits for them; other writes may share the sync of a later one.
        `resting`: so many at the end stand if each of those before them is first, together with them; else never.
        The future fails with a RuntimeFault only if the ledger cannot take this write at all (too large, disk full,
        denied). Raises LedgerError(busy) when `ledger.client_outstanding_max` entries are unacknowledged.
        """
        if self._outstanding + len(entries) > self._outstanding_max:
            raise LedgerError(
                "busy",
                f"{self._outstanding} entries are unacknowledged; the limit is {self._outstanding_max} "
                "(ledger.client_outstanding_max)",
                retryable=True,
            )
        future: asyncio.Future[list[Ack]] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_seen)
        # The entries were checked when they were made, and the ledger checks what arrives.
        parts = [Part(len(entries), resting)] if resting else []
        write = Write.model_construct(entries=list(entries), urgent=urgent, parts=parts)
        submitted = _Submitted(write, trace, future)
        self._queue.append(submitted)
        self._outstanding += len(entries)
        if not self._goes_back:
            self._send(submitted)
        return future

    async def write(self, entries: Sequence[WriteEntry], *, trace: str = "") -> list[Ack]:
        """A barrier: the acks, when everything up to this write is durable.

        Raises LedgerError(unavailable) after `ledger.outage_wait_ms`; the write stays submitted, its outcome is
        unknown.
        """
        future = self.submit(entries, trace=trace, urgent=True)
        await self._settled(f"the write of {entries[0].submission_id}")
        return future.result()

    async def flush(self) -> None:
        """Everything submitted so far is acknowledged (or was refused for good). Raises LedgerError(unavailable)."""
        await self._settled("")

    async def _settled(self, what: str) -> None:
        """What was submitted last has its outcome. Raises LedgerError(unavailable) naming `what`."""
        if not self._queue:
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue[-1].waiting.append(waiting)
        try:
            async with asyncio.timeout(self._outage_wait_s):
                await waiting
        except TimeoutError:
            raise self._unavailable(what or f"{self._outstanding} submitted entries") from None

    def _unavailable(self, what: str) -> LedgerError:
        return LedgerError(
            "unavailable", f"{what}: no acknowledgement within {self._outage_wait_s} s (ledger.outage_wait_ms)"
        )

    def _send(self, submitted: _Submitted) -> None:
        submitted.outcome, submitted.is_sent = None, True
        try:
            self._bus.ask(
                LEDGER, submitted.write, expect=Written, timeout_s=self._request_timeout_s, trace=submitted.trace,
                on_outcome=partial(self._delivered, submitted),
            )  # fmt: skip
        except RuntimeFault as fault:  # told later, as everything else: the caller has not got its future yet
            asyncio.get_running_loop().call_soon(self._delivered, submitted, fault)

    def _delivered(self, submitted: _Submitted, outcome: Written | RuntimeFault) -> None:
        submitted.outcome = _acks_of(submitted, outcome)
        submitted.is_sent = False
        self._settle()

    def _settle(self) -> None:
        """Hands out outcomes in order, up to the first write that has none yet or has to be delivered again."""
        while self._queue and not self._goes_back:
            head = self._queue[0]
            if head.outcome is None:
                return
            if isinstance(head.outcome, RuntimeFault) and head.outcome.retryable:
                self._goes_back, self._because = True, head.outcome
                break
            self._queue.popleft()
            self._outstanding -= len(head.write.entries)
            _resolve(head)
        if self._goes_back and self._retry is None and not any(one.is_sent for one in self._queue):
            self._retry = asyncio.get_running_loop().create_task(self._submit_again())

    async def _submit_again(self) -> None:
        """Once nothing is on its way any more: everything again, in order."""
        pause_s = self._resubmit_pause_s
        if self._because is not None and self._because.retry_after_ms is not None:
            pause_s = min(self._because.pause_s(pause_s, self._bus.clock.random()), self._request_timeout_s)
        await self._bus.sleep(pause_s)
        self._goes_back, self._retry = False, None
        for submitted in self._queue:
            self._send(submitted)

    # --- reading ----------------------------------------------------------------------------------------------------

    async def lookup(
        self, submission_ids: Sequence[str] = (), once: Sequence[str] = (), *, with_bodies: bool = False
    ) -> list[Entry | None]:
        """The entries of these submission ids, then of these once keys; None where nothing is."""
        question = Lookup(submission_ids=list(submission_ids), once=list(once), with_bodies=with_bodies)
        return (await self._ask(question, Found)).entries

    async def read(  # noqa: PLR0913 - which entries, and how much of them
        self,
        stream: str,
        *,
        after: int = -1,
        before: int | None = None,
        limit: int,
        with_bodies: bool = False,
        newest_first: bool = False,
    ) -> Entries:
        """A page of one stream, up to the last acknowledged entry."""
        question = Read(
            stream=stream, after=after, before=before, limit=limit, with_bodies=with_bodies, newest_first=newest_first
        )
        return await self._ask(question, Entries)

    async def query(
        self,
        where: dict[str, Any],
        *,
        after: int = -1,
        limit: int,
        newest_first: bool = False,
        with_bodies: bool = False,
    ) -> Entries:
        """A page of entries by provenance, event type, decision …, from the index."""
        question = Query(where=where, after=after, limit=limit, newest_first=newest_first, with_bodies=with_bodies)
        return await self._ask(question, Entries)

    async def body(self, ref: str) -> bytes:
        """The bytes behind a ref. Raises LedgerError(erased) or BusError(not_found)."""
        return (await self._ask(GetBody(ref=ref), Body)).data

    async def _ask(self, question: Any, expect: Any) -> Any:
        return await self._bus.request(LEDGER, question, expect=expect, timeout_s=self._request_timeout_s)


def _acks_of(submitted: _Submitted, outcome: Written | RuntimeFault) -> list[Ack] | RuntimeFault:
    """What was answered about these very entries; an answer about others is none."""
    if isinstance(outcome, RuntimeFault):
        return outcome
    entries = submitted.write.entries
    if len(outcome.acks) != len(entries) or not all(map(_is_about, outcome.acks, entries)):
        return LedgerError("unavailable", "the answer to a write was about other entries", retryable=True)
    return outcome.acks


def _is_about(ack: Ack, entry: WriteEntry) -> bool:
    """An entry that lost its once key is answered with the one that has it."""
    return ack.submission_id == entry.submission_id or (entry.once is not None and ack.outcome == "lost")


def _resolve(submitted: _Submitted) -> None:
    """Whoever looks at the acks themselves hears of them before those who only wait for the end."""
    if not submitted.future.done():
        if isinstance(submitted.outcome, RuntimeFault):
            submitted.future.set_exception(submitted.outcome)
        else:
            submitted.future.set_result(submitted.outcome or [])
    for waiting in submitted.waiting:
        if not waiting.done():
            waiting.set_result(None)


def _seen(future: asyncio.Future[list[Ack]]) -> None:
    """A pipelined write's fault may be of interest to nobody; asyncio need not complain."""
    if not future.cancelled():
        future.exception()


async def every_page(bus: Bus, question: Read | Query, *, timeout_s: float) -> tuple[list[Entry], bool]:
    """Up to `question.limit` entries, page after page as the ledger gives them; whether there are further ones.

    A page holds no more than `ledger.read_entries_max` and `ledger.read_bytes_max` allow. A query goes forward alone.
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
