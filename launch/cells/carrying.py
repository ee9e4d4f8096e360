"""What a move does in one cell, as its operator: sessions leave, are read, written, and arrive. Each may be done again.

The journal itself says where its session is: SessionLeft is its last entry where it left, and fences everybody out
there; what is carried is every entry of the session, in every stream, under its own id; SessionArrived opens it where
it came to. Whatever was done already is known to the record there, and adds nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import TypeVar

from hobus.bus.errors import BusError, LedgerError, RuntimeFault
from hobus.bus.limits import FRAME_BYTES_MAX, INDEX_INTERVAL_MS, RETRY_INTERVAL_MS
from hobus.bus.messages.base import Message
from hobus.bus.messages.ids import KEY_PREFIX, derive_snapshot_id, format_iso_us, parse_iso_us
from hobus.bus.messages.ledger import (
    Entries,
    Entry,
    Found,
    Import,
    LedgerStats,
    Lookup,
    Query,
    Read,
    ReadLedgerStats,
    WriteEntry,
    Written,
    name_session_stream,
)
from hobus.bus.messages.memory import LogSignals, Signal, SignalsLogged
from hobus.bus.messages.session import LeaveSession, SessionView
from hobus.bus.port import Bus
from hobus.bus.record.catalog import read_body
from hobus.bus.record.entry import estimate_wire_size
from hobus.bus.record.journal import pack_event, read_recorded
from hobus.bus.record.payloads.memory import ConsolidationFailed, OverlayChange, OverlayWritten, SignalLogged
from hobus.bus.record.session_facts import RunRequested, SessionArrived, SessionLeft, SessionStarted
from hobus.launch.sessions.journal import FromLedger, starts_of

_PAGE = 64
_MEMORY = ("signals", "overlays")
_WRITTEN = WriteEntry._fields.index("bodies")
R = TypeVar("R", bound=Message)


class CellSide:
    """One cell, asked over its own bus by an operator."""

    def __init__(self, bus: Bus, *, timeout_s: float) -> None:
        self._bus = bus
        self._timeout_s = timeout_s
        self._people: dict[str, list[str]] = {}
        self._seen = -1  # sequence of the newest session that is known there

    async def people(self) -> dict[str, list[str]]:
        """Return the sessions of each person who came by a door of this home: `<key>` or `<key>/<user>`.

        Asked again, it reads those that have begun since.
        """
        await self._wait_indexed()
        newest, news = self._seen, list[tuple[str, str]]()
        async with aclosing(starts_of(FromLedger(self._bus, timeout_s=self._timeout_s))) as starts:
            async for entry in starts:
                if entry.sequence <= self._seen:
                    break
                newest = max(newest, entry.sequence)
                begun = (said := read_recorded(entry)) and said.event.event
                if isinstance(begun, SessionStarted) and begun.principal.startswith(KEY_PREFIX):
                    news.append((begun.principal.removeprefix(KEY_PREFIX), entry.provenance.session_id))
        self._seen = newest  # all that is new, or nothing
        for person, session_id in news:
            self._people.setdefault(person, []).append(session_id)
        return self._people

    async def leave(self, session_id: str, person: str, cell: str, *, wait_s: float) -> bool:
        """Have the session leave for that cell: its journal takes nothing here any more.

        False: it left for another before. Waits for a run that is active. Raises SessionFault(run_active) if that is
        not over in time, RuntimeFault.
        """
        question = LeaveSession(session_id=session_id, principal=f"{KEY_PREFIX}{person}", cell=cell)
        deadline = self._bus.clock.monotonic() + wait_s
        while True:
            try:
                await self._bus.request(
                    "ho2", question, expect=SessionView, timeout_s=self._timeout_s, key=session_id, trace=session_id
                )
            except RuntimeFault as fault:
                if fault.code == "session_left":
                    return False
                may_pass = fault.retryable or fault.code == "run_active"
                if not may_pass or self._bus.clock.monotonic() >= deadline:
                    raise
                await self._bus.sleep(RETRY_INTERVAL_MS / 1000)
            else:
                return True

    async def entries(self, session_id: str) -> AsyncGenerator[list[Entry]]:
        """Yield everything that the record has of a session, its runs' configurations first; in pages.

        Raises LedgerError(erased) for a text that is not there: what is carried would not be what was recorded.
        """
        await self._wait_indexed()
        digests: set[str] = set()
        question = Query(where={"session_id": session_id}, limit=_PAGE, with_bodies=True)
        async with aclosing(self._read_pages(question)) as pages:
            async for page in pages:
                begun = (read_recorded(entry) for entry in page if entry.event_type == RunRequested.entry_name)
                runs = (one.event.event for one in begun if one is not None)
                news = {run.config_digest for run in runs if isinstance(run, RunRequested)} - digests
                digests |= news
                of_session = [entry for entry in page if entry.stream not in _MEMORY]
                yield [*await self._read_configurations(sorted(news)), *of_session]

    async def memory(self, person: str) -> AsyncGenerator[list[Entry]]:
        """Yield what HO3 has logged of this person: signals, lines, and whatever became of those; in pages."""
        principal, lines = f"{KEY_PREFIX}{person}", set[str]()
        for stream in _MEMORY:
            async with aclosing(self._read_pages(Read(stream=stream, limit=_PAGE, with_bodies=True))) as pages:
                async for page in pages:
                    yield [entry for entry in page if is_of(principal, entry, lines)]

    async def remember(self, person: str) -> None:
        """Have HO3 here use what was brought of this person, at the latest when it starts again."""
        newest = None
        async for page in self.memory(person):
            newest = next((entry for entry in reversed(page) if entry.event_type == "HO3_SIGNAL"), newest)
        if newest is None or not isinstance(said := read_body(newest), SignalLogged):
            return
        event_id = newest.submission_id.partition("/")[2]
        again = Signal(event_id=event_id, session_id=newest.provenance.session_id, **said._asdict())
        question = LogSignals(agent_id=newest.provenance.agent_id, signals=[again])
        # Of what the record knows already and it does not, it reads on both streams.
        with suppress(BusError):
            await self._bus.request("ho3", question, expect=SignalsLogged, timeout_s=self._timeout_s)

    async def _read_pages(self, question: Query | Read) -> AsyncGenerator[list[Entry]]:
        is_more = True
        while is_more:
            page = await self._ask(question, Entries)
            yield page.entries
            if is_more := page.more and bool(page.entries):
                question = question.model_copy(update={"after": page.entries[-1].sequence})

    async def _read_configurations(self, digests: Sequence[str]) -> list[Entry]:
        found: list[Entry] = []
        for digest in digests:  # one may be as large as a page
            answer = await self._ask(Lookup(submission_ids=[derive_snapshot_id(digest)], with_bodies=True), Found)
            found += [entry for entry in answer.entries if entry is not None]
        return found

    async def _ask(self, question: Message, expect: type[R]) -> R:
        return await self._bus.request("ledger", question, expect=expect, timeout_s=self._timeout_s)

    async def _wait_indexed(self) -> None:
        """Wait until the index, by which a session's entries are found, shows what was acknowledged until now."""
        first = stats = await self._ask(ReadLedgerStats(), LedgerStats)
        while stats.head - stats.index_behind < first.head:
            await self._bus.sleep(INDEX_INTERVAL_MS / 1000)
            stats = await self._ask(ReadLedgerStats(), LedgerStats)

    async def bring(self, entries: Sequence[Entry]) -> None:
        """Write these entries here, too. Raises LedgerError where one cannot be: only earlier ones may be written."""
        frame: list[WriteEntry] = []
        for entry in map(_as_written, entries):
            if frame and estimate_wire_size([*frame, entry]) > FRAME_BYTES_MAX:
                await self._import(frame)
                frame = []
            frame.append(entry)
        if frame:
            await self._import(frame)

    async def _import(self, frame: list[WriteEntry]) -> None:
        while True:
            try:
                answer = await self._ask(Import(entries=frame), Written)
                break
            except RuntimeFault as fault:
                if fault.code != "busy":
                    raise
                await self._bus.sleep(RETRY_INTERVAL_MS / 1000)
        for ack in answer.acks:
            if not ack.is_first:
                said = f"{ack.outcome} {ack.code}, its journal ends at {ack.head}"
                raise LedgerError("conflict", f"{ack.submission_id} is not taken there: {said}")

    async def arrive(self, session_id: str, cell: str, *, here: str) -> None:
        """Let the session go on here, if it left for that cell and is whole here."""
        question = Read(stream=name_session_stream(session_id), limit=1, newest_first=True, with_bodies=True)
        last = next(iter((await self._ask(question, Entries)).entries), None)
        said = last and read_recorded(last)
        if last is None or said is None or not isinstance(left := said.event.event, SessionLeft) or left.cell != cell:
            return
        at_us = parse_iso_us(format_iso_us(round(self._bus.now() * 1_000_000)))
        # Derived from where it left: whoever does it again writes the same id, and adds nothing.
        submission_id = last.submission_id.replace("SessionLeft:", "SessionArrived:", 1)
        event = said.event._replace(event=SessionArrived(cell=here, at=format_iso_us(at_us)))
        arrived = WriteEntry(
            submission_id, last.stream, "SessionArrived", at_us, provenance=last.provenance,
            prev=last.submission_id, tenure=last.tenure, bodies=[pack_event(event, submission_id, at_us)],
        )  # fmt: skip
        await self._import([arrived])


def is_of(principal: str, entry: Entry, lines: set[str]) -> bool:
    """Return whether an entry of memory is this person's; `lines`: ids of theirs that came before, to be added to."""
    match read_body(entry):
        case OverlayWritten(artifact_id=artifact_id, principal=whose):
            if whose == principal:
                lines.add(artifact_id)
            return whose == principal
        case OverlayChange(artifact_id=artifact_id):
            return artifact_id in lines
        case SignalLogged(principal=whose) | ConsolidationFailed(principal=whose):
            return whose == principal
        case _:
            return False


def _as_written(entry: Entry) -> WriteEntry:
    bodies = [body for body in entry.bodies if body is not None]
    if len(bodies) != len(entry.body_lengths):
        raise LedgerError("erased", f"{entry.submission_id} lacks a text: a session with an erased one stays")
    return WriteEntry._make((*entry[:_WRITTEN], bodies))
