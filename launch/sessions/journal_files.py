"""The journals of sessions as they lie in a home's own directory: where nobody runs who could be asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import islice
from pathlib import Path

from hobus.bus.messages.ledger import EVERY_SESSION, Entry, name_session_stream
from hobus.launch.sessions.named import BEGINNINGS
from hobus.launch.sessions.summary import SessionRow, SessionStanding
from hobus.launch.sessions.which import check_prefix, choose_one, complete_session_id, make_no_such
from hobus.ledger_service.index import read_positions
from hobus.ledger_service.reader import EntryFilter, find_sessions, read_entries


class FromDirectory:
    """Journals read from the record's files: while nobody writes them, or safely beside who does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def named(self, given: str) -> str:
        return find_session(self.path, given, called="SESSION")

    async def read_of_type(self, event_type: str, session_id: str = "") -> AsyncGenerator[Entry]:
        """Yield entries of this type, or of this session's, newest first, with bodies."""
        wanted = EntryFilter(event_type=event_type, session=session_id)
        for entry in read_entries(self.path, wanted, newest_first=True, with_bodies=True):
            yield entry

    async def newest(self, session_id: str, limit: int) -> tuple[list[Entry], bool]:
        wanted = EntryFilter(stream=name_session_stream(session_id))
        found = list(islice(read_entries(self.path, wanted, newest_first=True, with_bodies=True), limit + 1))
        return found[:limit][::-1], len(found) > limit

    async def whole(self, session_id: str) -> list[Entry]:
        found = list(read_entries(self.path, EntryFilter(stream=name_session_stream(session_id)), with_bodies=True))
        if not found:
            raise make_no_such(session_id, called="SESSION")
        return found

    async def beside(self, stream: str, session_id: str, limit: int) -> list[Entry]:
        wanted = EntryFilter(stream=stream, session=session_id)
        return list(read_entries(self.path, wanted, limit=limit, newest_first=True, with_bodies=True))[::-1]

    def map_rows(self) -> dict[str, SessionRow]:
        """Map each session to its row, by one pass over a record without an index; empty: there is one."""
        starts, standings = dict[str, Entry](), dict[str, SessionStanding]()
        if read_positions(self.path):
            return {}
        for entry in read_entries(self.path, EntryFilter(stream=EVERY_SESSION), with_bodies=True):
            session_id = entry.provenance.session_id
            if starts.setdefault(session_id, entry).event_type != BEGINNINGS[0] == entry.event_type:
                starts[session_id] = entry
            standings.setdefault(session_id, SessionStanding()).take(entry)
        return {one: SessionRow.of(starts[one], standing) for one, standing in standings.items()}


def find_session(record: Path, given: str, *, called: str) -> str:
    """Return the full id of the session that is meant; a whole one is taken as it is. Raises UsageFault."""
    full = complete_session_id(given)
    if full is not None:
        return full
    return choose_one(given, find_sessions(record, check_prefix(given, called=called)), called=called)
