"""The journals of sessions as an operator reads them: from a running ledger, else from the home's own directory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from hobus.bus.errors import BusError
from hobus.bus.ledger_client import read_pages
from hobus.bus.messages.ledger import Entries, Entry, Query, Read, name_session_stream
from hobus.bus.port import Bus
from hobus.launch.cluster import run_file
from hobus.launch.cluster.client import connect_bus, place_of
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.console.errors import CommandError
from hobus.launch.console.output import say_prose
from hobus.launch.sessions.named import BEGINNINGS, list_begun_sessions
from hobus.launch.sessions.summary import LAST, MORE, SessionRow, fold_standing, is_enough
from hobus.launch.sessions.which import check_prefix, choose_one, complete_session_id, make_no_such

if TYPE_CHECKING:
    from hobus.launch.sessions.journal_files import FromDirectory

PAGE_FIRST, PAGE = 64, 500
"""Entries asked for at once: first, where somebody may want the newest alone, and further on."""


class FromLedger:
    """Journals asked of the running ledger."""

    def __init__(self, bus: Bus, *, timeout_s: float) -> None:
        self.bus = bus
        self.timeout_s = timeout_s

    async def named(self, given: str) -> str:
        """Return the full id of the session that is meant; a whole one is taken as it is. Raises CommandError.

        From the index, which is some tenths of a second behind.
        """
        if (full := complete_session_id(given)) is not None:
            return full
        check_prefix(given, called="SESSION")
        return choose_one(given, await list_begun_sessions(self.bus, timeout_s=self.timeout_s), called="SESSION")

    async def read_of_type(self, event_type: str, session_id: str = "") -> AsyncGenerator[Entry]:
        """Yield entries of this type, or of this session's, newest first, with bodies; from the index."""
        where = {"event_type": event_type} | ({"session_id": session_id} if session_id else {})
        question = Query(where=where, limit=PAGE_FIRST, newest_first=True, with_bodies=True)
        is_more = True
        while is_more:
            page = await self.bus.request("ledger", question, expect=Entries, timeout_s=self.timeout_s)
            for entry in page.entries:
                yield entry
            is_more = page.more and bool(page.entries)
            if is_more:
                question = question.model_copy(update={"before": page.entries[-1].sequence, "limit": PAGE})

    async def newest(self, session_id: str, limit: int) -> tuple[list[Entry], bool]:
        """Return the last entries of a journal with bodies, oldest first; and whether there are earlier ones."""
        question = Read(stream=name_session_stream(session_id), limit=limit, with_bodies=True, newest_first=True)
        entries, has_earlier = await read_pages(self.bus, question, timeout_s=self.timeout_s)
        return entries[::-1], has_earlier

    async def whole(self, session_id: str) -> list[Entry]:
        """Return all of a journal, with bodies. Raises CommandError where there is none."""
        entries = [entry async for entry in self.behind(session_id, -1)]
        if not entries:
            raise make_no_such(session_id, called="SESSION")
        return entries

    async def beside(self, stream: str, session_id: str, limit: int) -> list[Entry]:
        """Return what a named stream has last of a session; oldest first, with bodies."""
        where = {"stream": stream, "session_id": session_id}
        question = Query(where=where, limit=limit, newest_first=True, with_bodies=True)
        return (await read_pages(self.bus, question, timeout_s=self.timeout_s))[0][::-1]

    async def behind(self, session_id: str, after: int) -> AsyncGenerator[Entry]:
        """Yield each entry of a journal behind this sequence, with bodies, page after page."""
        is_more = True
        while is_more:
            question = Read(stream=name_session_stream(session_id), after=after, limit=PAGE, with_bodies=True)
            found = await self.bus.request("ledger", question, expect=Entries, timeout_s=self.timeout_s)
            for entry in found.entries:
                yield entry
                after = entry.sequence
            is_more = found.more and bool(found.entries)


Journals: TypeAlias = "FromLedger | FromDirectory"


async def start_of(journals: Journals, session_id: str) -> Entry | None:
    """Return the one entry that a session begins with, as `starts_of` has it; None: it has not begun."""
    for event_type in BEGINNINGS:
        found = [entry async for entry in journals.read_of_type(event_type, session_id)]
        if found:
            return found[-1]
    return None


async def starts_of(journals: Journals) -> AsyncGenerator[Entry]:
    """Yield the entry that each session begins with, newest first: its SESSION_START, else its first degraded turn."""
    by_host: dict[str, Entry] = {}
    async for entry in journals.read_of_type(BEGINNINGS[1]):
        by_host[entry.provenance.session_id] = entry
    waiting = sorted(by_host.values(), key=lambda one: one.sequence)

    async def read_until(sequence: int) -> AsyncGenerator[Entry]:
        while waiting and waiting[-1].sequence > sequence:
            entry = waiting.pop()
            async with aclosing(journals.read_of_type(BEGINNINGS[0], entry.provenance.session_id)) as begun_later:
                if await anext(begun_later, None) is None:
                    yield entry

    async with aclosing(journals.read_of_type(BEGINNINGS[0])) as found:
        async for start in found:
            async for entry in read_until(start.sequence):
                yield entry
            yield start
    async for entry in read_until(-1):
        yield entry


async def end_of(journals: Journals, session_id: str) -> list[Entry]:
    """Return the last entries of a journal, enough to tell where its run stands; none before the session has begun."""
    for limit in (LAST, MORE):
        entries, has_earlier = await journals.newest(session_id, limit)
        if is_enough(entries, has_earlier=has_earlier):
            return entries
    return await journals.whole(session_id)


async def list_rows(
    journals: FromLedger, limit: int, *, is_all: bool, is_meant: Callable[[str], bool] = lambda _: True,
    is_shown: Callable[[SessionRow], bool] = lambda _: True,
) -> list[SessionRow]:  # fmt: skip
    """Return sessions of the running ledger, those that began last first: the open ones, unless all are wanted.

    `is_meant` is asked before a session is looked at; `is_shown` of what was seen then.
    """
    rows: list[SessionRow] = []
    async with aclosing(starts_of(journals)) as begun_so:
        async for start in begun_so:
            session_id = start.provenance.session_id
            if not is_meant(session_id):
                continue
            row = SessionRow.of(start, fold_standing(await end_of(journals, session_id)))
            if (is_all or (row.status == "open" and not row.cell)) and is_shown(row):
                rows.append(row)
            if len(rows) >= limit:
                break
    return rows


async def find_begun(journals: Journals, given: str, *, called: str) -> str:
    """Return the full id of the session that is meant, which has an entry. Raises CommandError where there is none."""
    session_id = await journals.named(given)
    if not (await journals.newest(session_id, 1))[0]:
        raise make_no_such(session_id, called=called)
    return session_id


async def find_sessions(home: Home, given: Iterable[str], *, called: str) -> list[str]:
    """Return the full ids of the sessions that are meant. Raises CommandError where one is not there."""
    async with open_journals(home) as journals:
        return [await find_begun(journals, one, called=called) for one in given]


@asynccontextmanager
async def open_journals(home: Home) -> AsyncGenerator[Journals]:
    """Open the journals of this home: of its running ledger, else of its files, and then say so on stderr.

    Raises CommandError where there is no record.
    """
    run = run_file.read(home.run_file)
    if run is None or find_holder(home) is None:
        yield _open_files(home, f"no cluster runs in {home.root}")
        return
    try:
        place = place_of(home, run)
    except CommandError as error:
        yield _open_files(home, error.message)
        return
    async with AsyncExitStack() as stack:
        try:
            bus = await stack.enter_async_context(connect_bus(place, "operator"))
        except BusError as fault:
            yield _open_files(home, f"the broker does not answer ({fault.code})")
            return
        yield FromLedger(bus, timeout_s=place.client_timeout_s)


def _open_files(home: Home, why: str) -> FromDirectory:
    files = open_files(home)
    say_prose("", f"{why}: this is what its record says", to_stderr=True)
    return files


def open_files(home: Home) -> FromDirectory:
    """Return the journals in the home's files. Raises CommandError where there is no record."""
    from hobus.launch.cluster.record import demand_record  # noqa: PLC0415 - reads segments
    from hobus.launch.sessions.journal_files import FromDirectory  # noqa: PLC0415

    demand_record(home)
    return FromDirectory(home.ledger)
