"""The journals of sessions as they lie in a home's own directory: where nobody runs who could be asked."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from hobus.bus.messages.ledger import EVERY_SESSION, Entry, session_stream
from hobus.launch.sessions.journal import first_of_each
from hobus.launch.sessions.named import BEGINNINGS
from hobus.launch.sessions.provenance import SNAPSHOT, Configuration, configuration_in
from hobus.launch.sessions.summary import SessionStanding
from hobus.launch.sessions.which import full_session_id, no_such, the_one
from hobus.ledger_service.reader import EntryFilter, read_entries


class FromDirectory:
    """Read from the record's files: while nobody writes them, or safely beside who does."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def named(self, given: str) -> str:
        return session_in(self._path, given, called="SESSION")

    async def starts(self) -> list[Entry]:
        """One pass over the record for each kind of beginning."""
        kinds = (EntryFilter(event_type=kind) for kind in BEGINNINGS)
        return first_of_each([one for kind in kinds for one in read_entries(self._path, kind, with_bodies=True)])

    async def newest(self, session_id: str, limit: int) -> tuple[list[Entry], bool]:
        """From the end backwards."""
        wanted = EntryFilter(stream=session_stream(session_id))
        found = list(islice(read_entries(self._path, wanted, newest_first=True, with_bodies=True), limit + 1))
        return found[:limit][::-1], len(found) > limit

    async def whole(self, session_id: str) -> list[Entry]:
        """One pass over the record."""
        found = list(read_entries(self._path, EntryFilter(stream=session_stream(session_id)), with_bodies=True))
        if not found:
            raise no_such(session_id, called="SESSION")
        return found

    async def beside(self, stream: str, session_id: str, limit: int) -> list[Entry]:
        """From the end backwards."""
        wanted = EntryFilter(stream=stream, session=session_id)
        return list(read_entries(self._path, wanted, limit=limit, newest_first=True, with_bodies=True))[::-1]

    async def configurations(self, digests: Iterable[str]) -> dict[str, Configuration]:
        """One pass over the record."""
        snapshots = read_entries(self._path, EntryFilter(event_type=SNAPSHOT), with_bodies=True)
        found = map(configuration_in, snapshots)
        return {one.digest: one for one in found if one.digest in set(digests)}

    def standings(self) -> dict[str, SessionStanding]:
        """Stream of each session -> where it stands, by one pass over the record."""
        found: dict[str, SessionStanding] = {}
        for entry in read_entries(self._path, EntryFilter(stream=EVERY_SESSION), with_bodies=True):
            found.setdefault(entry.stream, SessionStanding()).take(entry)
        return found


def session_in(record: Path, given: str, *, called: str) -> str:
    """The full id of the session that is meant; a whole one is taken as it is. Raises UsageFault."""
    full = full_session_id(given)
    if full is not None:
        return full
    begun = [one for kind in BEGINNINGS for one in read_entries(record, EntryFilter(event_type=kind))]
    return the_one(given, [one.provenance.session_id for one in begun], called=called)
