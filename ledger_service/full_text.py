"""Search of the record by words: keeps the full-text index behind the acknowledgements, and answers from it.

Nothing waits for the index but a question about words. It is brought up in steps of a few milliseconds, between which
the ledger does everything else; what it has not reached yet a question waits for a little, and else says so. What was
committed last is still in memory then; behind a long standstill entries are read again from the segments, so that it
holds nothing while it lags. It may be thrown away at any time: an error of its file never stops the ledger.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import structlog

from hobus.bus.errors import LedgerError
from hobus.bus.messages.ledger import Hits, Search
from hobus.bus.port import Bus, Disk
from hobus.bus.record.catalog import SEARCHED_TYPES, list_searched_bodies
from hobus.bus.record.entry import Entry, to_entry
from hobus.bus.record.journal import find_start_id, read_principal
from hobus.bus.record.searched import SearchedText, list_searched_texts
from hobus.ledger_service import limits
from hobus.ledger_service.finding import Scored, choose_terms, find_hits, make_hits, make_indexed
from hobus.ledger_service.index import Committed
from hobus.ledger_service.opening import clear
from hobus.ledger_service.search_index import BODIES_MAX, FILE, FILES, IndexedText, SearchIndex, Tokens
from hobus.ledger_service.segment import SegmentFiles
from hobus.ledger_service.tables import Tables

_STEP_ENTRIES, _STEP_TEXTS, _STEP_BYTES = 4096, 64, 32_768
"""Looked at, and brought in, within a few milliseconds, as long as a full batch takes: a write may wait for either."""
_SCORED_AT_ONCE = 16
"""Of a question, about as long."""
_REST = 4
"""Between two steps there is so many times their time for everything else."""
_SESSIONS_KEPT = 4096
"""Whose they are is looked up once; only speed depends on it."""
_log = structlog.get_logger("ledger")


class FullText:
    """The search of one ledger; `close` gives its file back."""

    def __init__(self, bus: Bus, disk: Disk, tables: Tables, files: SegmentFiles) -> None:
        self._bus, self._disk = bus, disk
        self._tables, self._files = tables, files
        self._tokens = Tokens()
        self._principals: dict[str, str] = {}  # by session
        self._index: SearchIndex | None = None
        self._fault = ""  # why there is none
        self._looked = -1  # every text up to here is in the index

    # --- the index, behind the record -------------------------------------------------------------------------------

    async def keep_up(self, head: int) -> None:
        """Bring the index up to this entry, a little at a time, as far as possible."""
        clock = self._bus.clock
        while True:
            began = clock.monotonic()
            if not self._step(head):
                return
            await self._bus.sleep(_REST * (clock.monotonic() - began))

    def close(self) -> None:
        """Close everything; no file is touched any more."""
        self._fault = "the ledger has stopped"
        self._tokens.close()
        if self._index is not None:
            self._index.close()
        self._index = None

    def _step(self, head: int) -> bool:
        """Bring in one step; return whether there is more. What the file does not take is left for a later commit."""
        try:
            index = self._open()
            if index is None or self._looked >= head:
                return False
            self._bring_in(index)
        except sqlite3.Error as error:
            return self._broken(error)
        except (LedgerError, OSError) as damage:  # `hobus ledger verify` says where
            self._note_stopped(str(damage))
            return False
        return self._looked < head

    def _bring_in(self, index: SearchIndex) -> None:
        """Bring texts in. Where none is found nothing is written: who starts from the last one finds the same."""
        texts: list[IndexedText] = []
        found, looked = self._tables.list_of_types(
            SEARCHED_TYPES, after=self._looked, span=_STEP_ENTRIES, limit=_STEP_TEXTS
        )
        size = 0
        for one in found:
            for text in self._list_texts(one):
                texts.append(self._make_indexed(one.place.sequence, one.entry, text))
                size += len(texts[-1].text)
            if size >= _STEP_BYTES:
                looked = one.place.sequence
                break
        if texts:
            last = next(one for one in found if one.place.sequence == texts[-1].sequence)
            index.add(texts, sequence=last.place.sequence, chain=last.place.chain)
        self._looked = looked

    def _make_indexed(self, sequence: int, entry: Entry, text: SearchedText) -> IndexedText:
        principal = self._find_principal(entry.provenance.session_id)
        return make_indexed(sequence, entry, text, self._tokens, principal=principal)

    def _find_principal(self, session_id: str) -> str:
        """Return whose a session is, as its SESSION_START says; empty where none stands where one begins."""
        known = self._principals.get(session_id)
        if known is None:
            found = self._tables.find_by_submission(find_start_id(session_id)) if session_id else None
            known = "" if found is None else read_principal(self._read_whole(found))
            if len(self._principals) >= _SESSIONS_KEPT:
                self._principals.clear()
            if found is not None:
                self._principals[session_id] = known
        return known

    def _read_whole(self, committed: Committed) -> Entry:
        place, entry = committed
        bodies = [data for _, data in self._files.bodies(place, entry)]
        return to_entry(entry, place.sequence, place.chain, bodies)

    def _list_texts(self, committed: Committed) -> list[SearchedText]:
        if not list_searched_bodies(committed.entry.stream, committed.entry.event_type):
            return []
        return [text for text in list_searched_texts(self._read_whole(committed)) if text.number < BODIES_MAX]

    def forget(self, entry: Entry, numbers: Sequence[int]) -> None:
        """Make these bodies of an entry, still as they were, unfindable: for who erases them next."""
        if self._index is None or entry.sequence > self._looked:
            return
        texts = [one for one in list_searched_texts(entry) if one.number in numbers]
        try:
            self._index.forget([self._make_indexed(entry.sequence, entry, text) for text in texts])
        except sqlite3.Error as error:
            self._broken(error)

    # --- its file ---------------------------------------------------------------------------------------------------

    def _open(self) -> SearchIndex | None:
        if self._index is None and not self._fault:
            self._index = SearchIndex.open(self._disk.real_path(FILE))
            if not self._is_of_this_record(self._index):
                raise sqlite3.DatabaseError("the search index is of another record")
            self._looked = self._index.reached.sequence
        return self._index

    def _is_of_this_record(self, index: SearchIndex) -> bool:
        reached = index.reached
        if reached.sequence < 0:
            return True
        found = self._tables.at(reached.sequence)
        return found is not None and found.place.chain == reached.chain

    def _broken(self, error: sqlite3.Error) -> bool:
        """Throw the index away and begin anew; return False where that cannot be: no search until the next start."""
        if self._fault or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return False  # nothing of it is damaged
        _log.warning("search_index_discarded", why=str(error))
        try:
            self._discard()
            self._index = SearchIndex.open(self._disk.real_path(FILE))
        except (sqlite3.Error, OSError) as again:
            self._note_stopped(f"the search index can be neither used nor made anew ({again})")
            return False
        return True

    def _discard(self) -> None:
        if self._index is not None:
            self._index.close()
        self._index = None
        self._looked = -1
        discard(self._disk)

    def _note_stopped(self, why: str) -> None:
        _log.warning("search_stopped", why=why)
        self._fault = why

    # --- questions --------------------------------------------------------------------------------------------------

    async def answer(self, question: Search, *, streams: Sequence[str], head: int) -> Hits:
        """Return the texts of these kinds of streams that answer best. Failures: unavailable, malformed."""
        terms = choose_terms(question, self._tokens)
        question = question.model_copy(update={"streams": list(streams)})
        before = head + 1 if question.before is None else min(question.before, head + 1)
        await self._reach(before - 1)
        index = self._index
        if index is None or (self._fault and self._looked < before - 1):
            raise LedgerError("unavailable", f"the record cannot be searched: {self._fault or 'no index yet'}")
        reached = self._looked
        after = max(question.after, self._find_sequence_before(question.since_us, head))
        found: list[Scored] = []
        try:
            for one in find_hits(
                index, self._tokens, question, terms, after=after, before=before,
                text_at=self._find_text,
            ):  # fmt: skip
                found.append(one)
                if len(found) % _SCORED_AT_ONCE == 0:
                    await self._bus.sleep(0)
        except sqlite3.Error as error:
            self._broken(error)
            raise LedgerError("unavailable", f"the search index is made anew ({error}): ask again") from error
        return make_hits(found, question, terms, head=head, reached=reached)

    async def _reach(self, sequence: int) -> None:
        """Wait until the index has this entry, or the time for that is over."""
        clock = self._bus.clock
        due = clock.monotonic() + limits.INDEX_WAIT_MS / 1000
        while self._step(sequence) and clock.monotonic() < due:
            await self._bus.sleep(0)

    def _find_text(self, sequence: int, number: int) -> tuple[Entry, SearchedText] | None:
        committed = self._tables.at(sequence)
        if committed is not None:
            for text in self._list_texts(committed):
                if text.number == number:
                    return committed.entry, text
        return None  # erased behind the index's back

    def _find_sequence_before(self, since_us: int, head: int) -> int:
        """Return the last entry that is older than this; the ledger's time never goes back."""
        low, high = -1, head + 1 if since_us else 0
        while high - low > 1:
            middle = (low + high) // 2
            found = self._tables.at(middle)
            is_older = found is None or found.entry.ledger_at_us < since_us
            low, high = (middle, high) if is_older else (low, middle)
        return low


def discard(disk: Disk) -> None:
    """Remove whatever stands in the place of the search index. Raises OSError."""
    for name in FILES:
        clear(disk, name)
