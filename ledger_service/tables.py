"""The writer's own table: what is known by submission id, once key and stream, up to the entry written last.

Entries that the index does not hold yet stand in memory; both together are complete, so no decision rests on an index
that lags.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from ledger_service.admission import StreamHead
from ledger_service.entry import StoredEntry
from ledger_service.index import Committed, Index, Position
from ledger_service.segment import Place, SegmentFiles


class Tables:
    """Memory over index. `index_position` is where the index stands; everything after it is in memory."""

    def __init__(self, index: Index, files: SegmentFiles, *, indexed: int) -> None:
        self.indexed = indexed
        """Sequence of the last entry in the index."""
        self._index = index
        self._files = files
        self._recent: dict[int, Committed] = {}
        self._submissions: dict[str, Committed] = {}
        self._once: dict[str, Committed] = {}
        self._heads: dict[str, StreamHead] = {}
        self._positions: dict[int, Position] = {}

    @property
    def behind(self) -> int:
        """Entries that the index does not hold yet."""
        return len(self._recent)

    def by_submission(self, submission_id: str) -> Committed | None:
        """The entry with this submission id."""
        found = self._submissions.get(submission_id)
        if found is not None:
            return found
        return self._compared(
            self._index.by_submission(submission_id), lambda entry: entry.submission_id == submission_id
        )

    def by_once(self, key: str) -> Committed | None:
        """The entry that holds this once key."""
        found = self._once.get(key)
        if found is not None:
            return found
        return self._compared(self._index.by_once(key), lambda entry: entry.once == key)

    def head(self, stream: str) -> StreamHead:
        """Where a session's stream stands."""
        head = self._heads.get(stream)
        return self._index.head(stream) if head is None else head

    def stage(self, committed: Committed, head: StreamHead | None) -> None:
        """Let later decisions of the same batch see this entry; `head` is its session's stream after it."""
        entry = committed.entry
        self._recent[committed.place.sequence] = committed
        self._submissions[entry.submission_id] = committed
        if entry.once is not None:
            self._once[entry.once] = committed
        if head is not None:
            self._heads[entry.stream] = head

    def settle(self, places: list[Place], position: Position) -> None:
        """The staged entries are durable and lie at these places."""
        for place in places:
            committed = Committed(place, self._recent[place.sequence].entry)
            self._recent[place.sequence] = committed
            self._submissions[committed.entry.submission_id] = committed
            if committed.entry.once is not None:
                self._once[committed.entry.once] = committed
        self._positions[position.first] = position

    def select(self, stream: str | None, *, after: int, limit: int, newest_first: bool = False) -> list[Committed]:
        """Entries of one stream (None: of all) beyond `after`, up to the entry written last."""
        where = {} if stream is None else {"stream": stream}
        recent = (
            committed
            for committed in (reversed(self._recent.values()) if newest_first else self._recent.values())
            if committed.place.sequence > after and (stream is None or committed.entry.stream == stream)
        )
        if newest_first:
            found = list(islice(recent, limit))
            return found + self._select(where, after=after, limit=limit - len(found), newest_first=True)
        found = self._select(where, after=after, limit=limit, newest_first=False)
        return found + list(islice(recent, limit - len(found)))

    def flush(self) -> None:
        """Bring the index up to the entry written last. Raises sqlite3.Error."""
        if not self._recent:
            return
        self._index.apply(self._recent.values(), self._heads, self._positions.values())
        self.indexed = next(reversed(self._recent))
        self._recent.clear()
        self._submissions.clear()
        self._once.clear()
        self._heads.clear()
        self._positions.clear()

    def _select(self, where: dict[str, str], *, after: int, limit: int, newest_first: bool) -> list[Committed]:
        if limit <= 0 or after >= self.indexed:
            return []
        places = self._index.select(where, after=after, limit=limit, newest_first=newest_first)
        return [Committed(place, self._files.entry(place)) for place in places]

    def _compared(self, places: list[Place], is_meant: Callable[[StoredEntry], bool]) -> Committed | None:
        for place in places:
            entry = self._files.entry(place)
            if is_meant(entry):
                return Committed(place, entry)
        return None
