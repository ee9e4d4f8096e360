"""The journals of sessions as an operator reads them: from a running ledger, else from the home's own directory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from hobus.bus.errors import BusError
from hobus.bus.ledger_client import every_page
from hobus.bus.messages.ids import snapshot_id
from hobus.bus.messages.ledger import Entries, Entry, Found, Lookup, Query, Read, session_stream
from hobus.bus.port import Bus
from hobus.launch.cluster import run_file
from hobus.launch.cluster.client import connected, place_of
from hobus.launch.cluster.home import Home, holder
from hobus.launch.console.errors import CommandError
from hobus.launch.console.output import say_prose
from hobus.launch.sessions.named import BEGINNINGS, STARTS_MAX, session_of
from hobus.launch.sessions.summary import LAST, MORE, SessionRow, is_enough, standing_of
from hobus.launch.sessions.which import no_such

if TYPE_CHECKING:
    from hobus.launch.sessions.journal_files import FromDirectory
    from hobus.launch.sessions.provenance import Configuration

PAGE = 500
"""Entries asked for at once."""


class FromLedger:
    """Asked of the running ledger."""

    def __init__(self, bus: Bus, *, timeout_s: float) -> None:
        self.bus = bus
        self.timeout_s = timeout_s

    async def named(self, given: str) -> str:
        """The full id of the session that is meant; a whole one is taken as it is. Raises CommandError.

        From the index, which is some tenths of a second behind.
        """
        return await session_of(self.bus, given, timeout_s=self.timeout_s, called="SESSION")

    async def starts(self) -> list[Entry]:
        """The first entry of each session, the newest first; from the index."""
        found: list[Entry] = []
        for event_type in BEGINNINGS:
            where = {"event_type": event_type}
            question = Query(where=where, limit=STARTS_MAX, newest_first=True, with_bodies=True)
            found += (await every_page(self.bus, question, timeout_s=self.timeout_s))[0]
        return first_of_each(found)

    async def newest(self, session_id: str, limit: int) -> tuple[list[Entry], bool]:
        """The last entries of a journal with their bodies, oldest of them first; whether there are earlier ones."""
        question = Read(stream=session_stream(session_id), limit=limit, with_bodies=True, newest_first=True)
        entries, has_earlier = await every_page(self.bus, question, timeout_s=self.timeout_s)
        return entries[::-1], has_earlier

    async def whole(self, session_id: str) -> list[Entry]:
        """All of a journal, with bodies. Raises CommandError where there is none."""
        entries = [entry async for entry in self.behind(session_id, -1)]
        if not entries:
            raise no_such(session_id, called="SESSION")
        return entries

    async def beside(self, stream: str, session_id: str, limit: int) -> list[Entry]:
        """What a named stream has last of a session; oldest first, with bodies."""
        where = {"stream": stream, "session_id": session_id}
        question = Query(where=where, limit=limit, newest_first=True, with_bodies=True)
        return (await every_page(self.bus, question, timeout_s=self.timeout_s))[0][::-1]

    async def configurations(self, digests: Iterable[str]) -> dict[str, Configuration]:
        question = Lookup(submission_ids=[snapshot_id(one) for one in digests], with_bodies=True)
        found = await self.bus.request("ledger", question, expect=Found, timeout_s=self.timeout_s)
        from hobus.launch.sessions.provenance import configuration_in  # noqa: PLC0415 - reads every payload

        return {one.digest: one for one in (configuration_in(entry) for entry in found.entries if entry is not None)}

    async def behind(self, session_id: str, after: int) -> AsyncGenerator[Entry]:
        """Each entry of a journal behind this sequence, with its bodies, page after page."""
        is_more = True
        while is_more:
            question = Read(stream=session_stream(session_id), after=after, limit=PAGE, with_bodies=True)
            found = await self.bus.request("ledger", question, expect=Entries, timeout_s=self.timeout_s)
            for entry in found.entries:
                yield entry
                after = entry.sequence
            is_more = found.more and bool(found.entries)


Journals: TypeAlias = "FromLedger | FromDirectory"


def first_of_each(beginnings: Iterable[Entry]) -> list[Entry]:
    """The one that stands for each session, the newest first: its SESSION_START, else its first degraded turn."""
    found: dict[str, Entry] = {}
    for one in sorted(beginnings, key=lambda one: (one.event_type != BEGINNINGS[0], one.sequence)):
        found.setdefault(one.provenance.session_id, one)
    return sorted(found.values(), key=lambda one: -one.sequence)


async def end_of(journals: Journals, session_id: str) -> list[Entry]:
    """The last entries of a journal, as many as say where its run stands; none before the session has begun."""
    for limit in (LAST, MORE):
        entries, has_earlier = await journals.newest(session_id, limit)
        if is_enough(entries, has_earlier=has_earlier):
            return entries
    return await journals.whole(session_id)


async def rows_of(
    journals: Journals, limit: int, *, is_all: bool, is_meant: Callable[[str], bool] = lambda _: True,
    is_shown: Callable[[SessionRow], bool] = lambda _: True,
) -> list[SessionRow]:  # fmt: skip
    """Sessions, the newest first: those that are open, unless all are wanted.

    `is_meant` is asked before a session is looked at, one after the other; `is_shown` of what was seen then.
    """
    rows: list[SessionRow] = []
    folded = {} if isinstance(journals, FromLedger) else journals.standings()
    for start in await journals.starts():
        session_id = start.provenance.session_id
        if not is_meant(session_id):
            continue
        standing = folded.get(session_stream(session_id)) or standing_of(await end_of(journals, session_id))
        if (is_all or standing.state.status == "open") and is_shown(row := SessionRow.of(start, standing)):
            rows.append(row)
        if len(rows) >= limit:
            break
    return rows


async def begun(journals: Journals, given: str, *, called: str) -> str:
    """The full id of the session that is meant, which has an entry. Raises CommandError where there is none."""
    session_id = await journals.named(given)
    if not (await journals.newest(session_id, 1))[0]:
        raise no_such(session_id, called=called)
    return session_id


async def sessions_meant(home: Home, given: Iterable[str], *, called: str) -> list[str]:
    """The full ids of the sessions that are meant. Raises CommandError where one is not there."""
    async with journals_of(home) as journals:
        return [await begun(journals, one, called=called) for one in given]


@asynccontextmanager
async def journals_of(home: Home) -> AsyncGenerator[Journals]:
    """The journals of this home: of its running ledger, else of its files, and then that is said on stderr.

    Raises CommandError where there is no record.
    """
    run = run_file.read(home.run_file)
    if run is None or holder(home) is None:
        yield _of_files(home, f"no cluster runs in {home.root}")
        return
    try:
        place = place_of(home, run)
    except CommandError as error:
        yield _of_files(home, error.message)
        return
    async with AsyncExitStack() as stack:
        try:
            bus = await stack.enter_async_context(connected(place, "operator"))
        except BusError as fault:
            yield _of_files(home, f"the broker does not answer ({fault.code})")
            return
        yield FromLedger(bus, timeout_s=place.client_timeout_s)


def _of_files(home: Home, why: str) -> FromDirectory:
    from hobus.launch.cluster.record import demand_record  # noqa: PLC0415 - reads segments
    from hobus.launch.sessions.journal_files import FromDirectory  # noqa: PLC0415

    demand_record(home)
    say_prose("", f"{why}: this is what its record says", to_stderr=True)
    return FromDirectory(home.ledger)
