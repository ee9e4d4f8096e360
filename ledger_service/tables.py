"""What the index may hold, as a Bloom filter: whoever brings a new id or once key is not looked up on disk for it.

"Not here" is exact as soon as every hash of the index was added; "perhaps here" is for the index to answer. Two bits of
a key's own 64-bit hash stand for it, so the filter never grows: fuller, it answers less often.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice, repeat
from typing import Any, TypeVar

from msgspec import Struct

from hobus.bus.messages.ledger import EVERY_SESSION
from hobus.bus.record.catalog import is_session_stream
from hobus.bus.record.entry import INTEGER_MAX, Entry
from hobus.ledger_service.admission import StreamHead
from hobus.ledger_service.index import Committed, Index, Position, hash_key
from hobus.ledger_service.segment import EntryPlace, SegmentFiles


class Known:
    """A filter of at most every key that was added, and a few others."""

    knows_all = True
    """Whether every key was added: before that anything may be held."""

    def __init__(self, size_bytes: int) -> None:
        # Of the machine's own pages: what no key came to is neither zeroed nor held.
        self._bits = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE)
        self._size = size_bytes * 8

    def add(self, hashes: Iterable[int]) -> None:
        bits, size = self._bits, self._size
        for value in hashes:
            one, other = value % size, (value >> 32) % size
            bits[one >> 3] |= 1 << (one & 7)
            bits[other >> 3] |= 1 << (other & 7)

    def is_new(self, value: int) -> bool:
        if not self.knows_all:
            return False
        one, other = value % self._size, (value >> 32) % self._size
        bits = self._bits
        return not (bits[one >> 3] >> (one & 7) & 1 and bits[other >> 3] >> (other & 7) & 1)


Key = TypeVar("Key", int, str)

_HEADS_KEPT = 10_000
"""Sessions whose head is remembered although the index has it; only speed depends on it."""
_STEP_ENTRIES = 512
"""Brought into the index in six milliseconds, as long as a full batch takes: a write may have to wait for either."""


class _Batch(Struct, frozen=True):
    """A batch that is durable and not in the index yet."""

    position: Position  # behind it
    heads: dict[str, StreamHead]  # of the journals that go on in it


class Tables:
    """Memory over index. `indexed` is where the index stands; everything after it is in memory."""

    def __init__(self, index: Index, files: SegmentFiles, *, indexed: int, known_filter_bytes: int) -> None:
        self.indexed = indexed
        """Sequence of the last entry in the index."""
        self._index = index
        self._files = files
        self._recent: dict[int, Committed] = {}
        self._submissions: dict[str, Committed] = {}
        self._once: dict[str, Committed] = {}
        self._heads: dict[str, StreamHead] = {}
        self._heads_indexed: dict[str, StreamHead] = {}
        self._known = Known(known_filter_bytes)
        self._known.knows_all = indexed < 0
        self._is_new = self._known.is_new
        self._batches: deque[_Batch] = deque()

    @property
    def behind(self) -> int:
        """Return how many entries the index does not hold yet."""
        return len(self._recent)

    def find_by_submission(self, submission_id: str, hashed: int | None = None) -> Committed | None:
        """Return the entry with this submission id; `hashed`: its `key_hash`, where that is known already."""
        found = self._submissions.get(submission_id)
        if found is not None or self._is_new(hash_key(submission_id) if hashed is None else hashed):
            return found
        places = self._index.find_by_submission(submission_id)
        return self._find_meant(places, lambda entry: entry.submission_id == submission_id)

    def find_by_once(self, key: str, hashed: int | None = None) -> Committed | None:
        """Return the entry that holds this once key; `hashed` as for an id."""
        found = self._once.get(key)
        if found is not None or self._is_new(hash_key(key) if hashed is None else hashed):
            return found
        return self._find_meant(self._index.find_by_once(key), lambda entry: entry.once == key)

    def head(self, stream: str) -> StreamHead:
        head = self._heads.get(stream) or self._heads_indexed.get(stream)
        if head is None:
            head = self._index.head(stream)
            self._keep_heads({stream: head})
        return head

    def settle(self, batch: list[Committed], heads: dict[str, StreamHead], position: Position) -> None:
        """Take in durable entries that lead up to `position`, and where their sessions' streams stand after them."""
        self._recent |= {one.place.sequence: one for one in batch}
        self._submissions |= {one.entry.submission_id: one for one in batch}
        self._once |= {one.entry.once: one for one in batch if one.entry.once is not None}
        self._heads |= heads
        self._batches.append(_Batch(position, heads))

    def select(
        self, stream: str | None, *, after: int, limit: int, newest_first: bool = False, before: int | None = None
    ) -> list[Committed]:
        """Return entries of one stream beyond `after` and below `before` (None: up to the one written last).

        Stream EVERY_SESSION: of all journals; None: of all streams.
        """
        where = {} if stream is None else {"stream": stream}
        end = INTEGER_MAX if before is None else before
        recent = (
            committed
            for committed in (reversed(self._recent.values()) if newest_first else self._recent.values())
            if after < committed.place.sequence < end and (stream is None or _is_of(committed.entry, stream))
        )
        if newest_first:
            found = list(islice(recent, limit))
            return found + self._select(where, after=after, before=end, limit=limit - len(found), newest_first=True)
        found = self._select(where, after=after, before=end, limit=limit, newest_first=False)
        return found + list(islice(recent, limit - len(found)))

    def at(self, sequence: int) -> Committed | None:
        """Return the entry with this sequence; None before the first one and behind the one written last."""
        if sequence > self.indexed:
            return self._recent.get(sequence)
        found = self._select({}, after=sequence - 1, before=sequence + 1, limit=1, newest_first=False)
        return found[0] if found else None

    def list_of_types(
        self, event_types: Collection[str], *, after: int, span: int, limit: int
    ) -> tuple[list[Committed], int]:
        """Return entries of these types among the next `span`, at most `limit`; and up to where there is no other."""
        end = after + span + 1
        found: list[Committed] = []
        if after < self.indexed:
            end = min(end, self.indexed + 1)
            places = self._index.list_of_types(event_types, after=after, before=end, limit=limit)
            found = [Committed(place, self._files.entry(place)) for place in places]
            return found, found[-1].place.sequence if len(found) == limit else end - 1
        last = after
        for last in range(after + 1, min(end, self.indexed + 1 + len(self._recent))):
            committed = self._recent[last]
            if committed.entry.event_type in event_types:
                found.append(committed)
                if len(found) == limit:
                    break
        return found, last

    def flush(self) -> None:
        """Bring the index up to the entry written last. Raises sqlite3.Error; after NoRoom it is where it was."""
        self._index_batches(self.behind)

    def index_some(self) -> None:
        """Bring the index a few batches further, if it lags. Raises as `flush`."""
        self._index_batches(min(self.behind, _STEP_ENTRIES))

    def _index_batches(self, entries_min: int) -> None:
        """Index the oldest batches, as many as hold so many entries, in one transaction."""
        if not entries_min:
            return
        heads: dict[str, StreamHead] = {}
        positions: dict[int, Position] = {}
        last, taken = self.indexed, 0
        for batch in self._batches:
            if last - self.indexed >= entries_min:
                break
            heads |= batch.heads
            positions[batch.position.first] = batch.position
            last, taken = batch.position.last, taken + 1
        entries = list(islice(self._recent.values(), last - self.indexed))
        ids = [entry.submission_id for _, entry in entries]
        once = [entry.once for _, entry in entries if entry.once is not None]
        self._known.add(self._index.apply(entries, heads, positions.values()))
        _drop(self._recent, range(self.indexed + 1, last + 1))
        _drop(self._submissions, ids)
        _drop(self._once, once)
        for _ in range(taken):
            self._batches.popleft()
        self.indexed = last
        self._forget_heads(heads)

    def _forget_heads(self, indexed: dict[str, StreamHead]) -> None:
        for stream, head in indexed.items():
            if self._heads[stream] is head:  # no batch that is not in the index goes on with it
                del self._heads[stream]
        self._keep_heads(indexed)

    def learn(self) -> Iterator[None]:
        """Yield steps after which no new id is looked up in the index any more; all answers are right before, too."""
        if self._known.knows_all:
            return
        for hashes in self._index.hashes():
            self._known.add(hashes)
            yield
        self._known.knows_all = True

    def _keep_heads(self, heads: dict[str, StreamHead]) -> None:
        if len(self._heads_indexed) + len(heads) > _HEADS_KEPT:
            self._heads_indexed.clear()
        self._heads_indexed.update(heads)

    def _select(
        self, where: dict[str, str], *, after: int, before: int, limit: int, newest_first: bool
    ) -> list[Committed]:
        if limit <= 0 or after >= self.indexed:
            return []
        places = self._index.select(where, after=after, before=before, limit=limit, newest_first=newest_first)
        expected = range(after + 1, min(before, self.indexed + 1))
        if not where and [place.sequence for place in places] != list(expected[:: -1 if newest_first else 1][:limit]):
            raise self._index.broken()
        return [Committed(place, self._files.entry(place)) for place in places]

    def _find_meant(self, places: Iterator[EntryPlace], is_meant: Callable[[Entry], bool]) -> Committed | None:
        for place in places:
            entry = self._files.entry(place)
            if is_meant(entry):
                return Committed(place, entry)
        return None


def _drop(held: dict[Key, Any], keys: Iterable[Key]) -> None:
    deque(map(held.pop, keys, repeat(None)), maxlen=0)  # a record that was forged may have an id twice


def _is_of(entry: Entry, stream: str) -> bool:
    return is_session_stream(entry.stream) if stream == EVERY_SESSION else entry.stream == stream
