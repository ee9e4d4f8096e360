"""Which entry stands for each session in a list of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hobus.actors.ho2_supervisor.limits import SNAPSHOT_ENTRIES
from hobus.bus.messages.ledger import EVERY_SESSION, Entry, Provenance
from hobus.launch.sessions import journal, journal_files
from hobus.launch.sessions.journal import starts_of
from hobus.launch.sessions.journal_files import FromDirectory
from hobus.launch.sessions.listing import Wanted, list_sessions
from hobus.ledger_service import reader
from hobus.ledger_service.reader import JournalEnd


def entry(sequence: int, session: str, event_type: str) -> Entry:
    return Entry(
        sequence=sequence, submission_id=f"s{sequence}", origin="host/1@a", stream=f"session/{session}",
        event_type=event_type, decision="", reason="", provenance=Provenance(session_id=session), parents=[], trace="",
        at_us=0, ledger_at_us=0, body_hashes=[], body_lengths=[], prev=None, tenure=None, once=None, chain=b"",
    )  # fmt: skip


class _Recorded:
    def __init__(self, *entries: Entry) -> None:
        self._newest_first = sorted(entries, key=lambda one: -one.sequence)

    async def read_of_type(self, event_type, session_id=""):
        for one in self._newest_first:
            if one.event_type == event_type and session_id in ("", one.provenance.session_id):
                yield one


BEGUN = _Recorded(
    entry(2, "a", "SESSION_START"),
    entry(5, "b", "SESSION_START"),
    entry(1, "a", "TurnDegraded"),
    entry(3, "c", "TurnDegraded"),
    entry(4, "c", "TurnDegraded"),
    entry(6, "b", "TurnDegraded"),
    entry(0, "d", "TurnDegraded"),
)
"""Of them b began last, then c, a and d."""


async def test_a_list_begins_with_the_session_that_began_last():
    """Whichever way that one began."""
    assert "".join([one.provenance.session_id async for one in starts_of(BEGUN)]) == "bcad"


def test_a_list_of_a_record_without_an_index_reads_it_once_for_all_sessions(monkeypatch):
    """Besides once for their ends; not once for each session, however many there are. What stands first begins one."""
    degraded = [entry(number, f"s{number}", "TurnDegraded") for number in range(30)]
    begun = [entry(30 + number, f"s{number}", "SESSION_START") for number in range(30)]
    asked: list[str | None] = []

    def read(_path, wanted, **_options):
        asked.append(wanted.stream)
        return iter([*degraded, *begun])

    ends = [JournalEnd(f"s{number}", 30 + number, "SESSION_START") for number in range(29, -1, -1)]
    monkeypatch.setattr(journal_files, "read_entries", read)
    monkeypatch.setattr(reader, "list_journal_ends", lambda _path: ends)
    page = asyncio.run(list_sessions(FromDirectory(Path("/nowhere")), Wanted(100)))
    assert [row.session_id for row in page.rows] == [f"s{number}" for number in range(29, -1, -1)]
    assert asked == [EVERY_SESSION]


def test_of_a_long_session_its_end_is_read_and_never_the_whole(monkeypatch):
    """A second look goes further back than two snapshots are apart, as shipped."""
    asked: list[int] = []

    class Long:
        async def newest(self, _session_id: str, limit: int) -> tuple[list[Entry], bool]:
            asked.append(limit)
            return [entry(number, "a", "StepStarted") for number in range(limit)], True

        async def whole(self, _session_id: str) -> list[Entry]:
            raise AssertionError("all of it was read")

    between = SNAPSHOT_ENTRIES
    monkeypatch.setattr(journal, "is_enough", lambda entries, has_earlier: len(entries) > between)
    found = asyncio.run(journal.end_of(Long(), "a"))
    assert len(found) == asked[-1] > between and len(asked) == 2
