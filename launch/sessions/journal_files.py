"""The journals of sessions as they lie in a home's own directory: where nobody runs who could be asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import islice
from pathlib import Path

from hobus.bus.messages.ledger import EVERY_SESSION, Entry, session_stream
from hobus.launch.sessions.summary import SessionStanding
from hobus.launch.sessions.which import check_prefix, full_session_id, no_such, the_one
from hobus.ledger_service.index import read_positions
from hobus.ledger_service.reader import EntryFilter, read_entries, sessions_with


class FromDirectory:
    """Journals read from the record's files: while nobody writes them, or safely beside who does."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def named(self, given: str) -> str:
        return session_in(self._path, given, called="SESSION")

    async def of_type(
        self, event_type: str, session_id: str = "", *, before: int | None = None
    ) -> AsyncGenerator[Entry]:
        """Yield entries of this type, or of this session's, newest first, with bodies."""
        wanted = EntryFilter(event_type=event_type, session=session_id)
        for entry in read_entries(self._path, wanted, before=before, newest_first=True, with_bodies=True):
            yield entry

    async def newest(self, session_id: str, limit: int) -> tuple[list[Entry], bool]:
        wanted = EntryFilter(stream=session_stream(session_id))
        found = list(islice(read_entries(self._path, wanted, newest_first=True, with_bodies=True), limit + 1))
        return found[:limit][::-1], len(found) > limit

    async def whole(self, session_id: str) -> list[Entry]:
        found = list(read_entries(self._path, EntryFilter(stream=session_stream(session_id)), with_bodies=True))
        if not found:
            raise no_such(session_id, called="SESSION")
        return found

    async def beside(self, stream: str, session_id: str, limit: int) -> list[Entry]:
        wanted = EntryFilter(stream=stream, session=session_id)
        return list(read_entries(self._path, wanted, limit=limit, newest_first=True, with_bodies=True))[::-1]

    def standings(self) -> dict[str, SessionStanding]:
        """Map the stream of each session to where it stands, by one pass over a record without an index."""
        found: dict[str, SessionStanding] = {}
        if read_positions(self._path):
            return found
        for entry in read_entries(self._path, EntryFilter(stream=EVERY_SESSION), with_bodies=True):
            found.setdefault(entry.stream, SessionStanding()).take(entry)
        return found


def session_in(record: Path, given: str, *, called: str) -> str:
    """Return the full id of the session that is meant; a whole one is taken as it is. Raises UsageFault."""
    full = full_session_id(given)
    if full is not None:
        return full
    return the_one(given, sessions_with(record, check_prefix(given, called=called)), called=called)
