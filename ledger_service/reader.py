"""Reads a ledger's directory without a running ledger, or safely beside one: what is whole, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from sqlite3 import DatabaseError
from typing import NamedTuple, TypeVar

from msgspec import Struct

from hobus.bus.disk import RealDisk
from hobus.bus.messages.ledger import EVERY_SESSION
from hobus.bus.record.catalog import is_session_stream
from hobus.bus.record.entry import INTEGER_MAX, Entry, to_entry
from hobus.ledger_service.frame import GENESIS, HEADER_BYTES, read_header
from hobus.ledger_service.index import Index, Position, open_for_reading, read_positions
from hobus.ledger_service.limits import PLACES, PLACES_FIRST
from hobus.ledger_service.recovery import decode_all
from hobus.ledger_service.scan import TRIES_BESIDE_WRITER, Whole, walk
from hobus.ledger_service.segment import DIRECTORY, EntryPlace, SegmentFiles, name_segment
from hobus.ledger_service.source import Damage, open_segment_file
from hobus.ledger_service.verify import list_segment_firsts

R = TypeVar("R")


class EntryFilter(Struct, frozen=True, kw_only=True):
    """Which entries; what is not given does not matter."""

    stream: str | None = None  # EVERY_SESSION: those of all sessions
    event_type: str | None = None
    session: str | None = None  # a session id or its first characters, with or without `SES-`
    run: int | None = None  # of a session

    def accepts(self, entry: Entry) -> bool:
        if self.stream == EVERY_SESSION:
            if not is_session_stream(entry.stream):
                return False
        elif self.stream is not None and entry.stream != self.stream:
            return False
        if self.event_type is not None and entry.event_type != self.event_type:
            return False
        if self.run is not None and entry.provenance.run_seq != self.run:
            return False
        return entry.provenance.session_id.startswith((self.session or "").removeprefix("SES-"))


ALL = EntryFilter()


def read_entries(  # noqa: PLR0913 - a question has these parts
    path: Path,
    wanted: EntryFilter | None = None,
    *,
    after: int = -1,
    before: int | None = None,
    limit: int | None = None,
    newest_first: bool = False,
    with_bodies: bool = False,
    by_index: bool = True,
) -> Iterator[Entry]:
    """Yield entries between two sequences, in order or newest first. Raises Damage at the first damaged one it reads.

    By the index as far as there is one: what is asked for costs what it has. All of them in order, and what is behind
    the index, is read batch by batch; without `by_index` everything, so that none is missing whatever the index says.
    """
    wanted, end = wanted or ALL, INTEGER_MAX if before is None else before
    read = _choose_entries if by_index and (newest_first or wanted != ALL) else _scan
    yield from islice(read(path, wanted, after, end, newest_first=newest_first, with_bodies=with_bodies), limit)


def find_entries(path: Path, submission_ids: Collection[str]) -> list[Entry]:
    """Return the entries that have these ids, with their bodies, in order. Raises Damage."""
    found: dict[int, Entry] = {}
    with open_for_reading(path) as opened, closing(SegmentFiles(RealDisk(path))) as files:
        index, behind = opened or (None, None)
        if index is not None:
            try:
                for name in submission_ids:
                    for place in index.find_by_submission(name):
                        entry = files.entry(place)
                        if entry.submission_id == name:
                            found[place.sequence] = _fill_entry(files, place, entry, with_bodies=True)
            except DatabaseError:  # the segments say it as well
                behind = None
        rest = _scan(path, ALL, -1, INTEGER_MAX, behind=behind, with_bodies=True)
        found |= {one.sequence: one for one in rest if one.submission_id in submission_ids}
    return [found[number] for number in sorted(found)]


def find_sessions(path: Path, prefix: str) -> set[str]:
    """Return the ids with this prefix of sessions that have an entry. Raises Damage."""
    found, tail = _ask_index(path, lambda index: index.sessions(prefix), ALL)
    return {*found, *(one.provenance.session_id for one in tail if one.provenance.session_id.startswith(prefix))}


class JournalEnd(NamedTuple):
    """The last entry of a session's journal."""

    session_id: str
    sequence: int
    event_type: str


def list_journal_ends(path: Path) -> list[JournalEnd]:
    """Return where each session's journal ends, the one that changed last first. Raises Damage."""
    indexed, tail = _ask_index(path, Index.ends_of_journals, EntryFilter(stream=EVERY_SESSION))
    found = {stream: (sequence, event_type) for stream, sequence, event_type in indexed}
    found |= {one.stream: (one.sequence, one.event_type) for one in tail}
    ends = [JournalEnd(stream.partition("/")[2], *end) for stream, end in found.items()]
    return sorted(ends, key=lambda one: -one.sequence)


def list_runs_with(path: Path, event_type: str) -> list[tuple[str, int, str]]:
    """Return session, run and order (empty: none) of each entry of this type, in order. Raises Damage."""
    indexed, tail = _ask_index(path, lambda index: index.runs_with(event_type), EntryFilter(event_type=event_type))
    abouts = [one.provenance for one in tail]
    return indexed + [(one.session_id, one.run_seq, one.work_order_id) for one in abouts if one.session_id]


def _ask_index(path: Path, ask: Callable[[Index], list[R]], wanted: EntryFilter) -> tuple[list[R], list[Entry]]:
    """Return what the index says, and the entries behind it; all of them where there is none, or it is damaged."""
    found, behind = list[R](), None
    with open_for_reading(path) as opened, suppress(DatabaseError):  # the segments say it as well
        if opened is not None:
            found, behind = ask(opened[0]), opened[1]
    return found, list(_scan(path, wanted, -1, INTEGER_MAX, behind=behind, with_bodies=False))


def _choose_entries(  # noqa: PLR0913 - a question has these parts
    path: Path, wanted: EntryFilter, after: int, before: int, *, newest_first: bool, with_bodies: bool
) -> Iterator[Entry]:
    with ExitStack() as held:
        opened = held.enter_context(open_for_reading(path))
        where = None if opened is None else _make_conditions(wanted, opened[0])
        if opened is None or where is None:
            yield from _scan(path, wanted, after, before, newest_first=newest_first, with_bodies=with_bodies)
            return
        index, behind = opened
        files = held.enter_context(closing(SegmentFiles(RealDisk(path))))
        tail = partial(_scan, path, wanted, behind=behind, newest_first=newest_first, with_bodies=with_bodies)
        if newest_first:
            yield from tail(after, before)
        low, high, count = after, min(before, behind.last + 1), PLACES_FIRST
        while True:
            try:
                places = index.select(where, after=low, before=high, limit=count, newest_first=newest_first)
            except DatabaseError:  # the segments say it as well
                yield from _scan(path, wanted, low, high, newest_first=newest_first, with_bodies=with_bodies)
                break
            for place in places:
                entry = files.entry(place)
                if wanted.accepts(entry):
                    yield _fill_entry(files, place, entry, with_bodies=with_bodies)
            if len(places) < count:
                break
            low, high = (low, places[-1].sequence) if newest_first else (places[-1].sequence, high)
            count = min(PLACES, 4 * count)  # most readers want some hundred
        if not newest_first:
            yield from tail(after, before)


def _make_conditions(wanted: EntryFilter, index: Index) -> dict[str, str | int] | None:
    """Return the filter as the index is asked; None: it cannot be asked so."""
    named = {"stream": wanted.stream, "event_type": wanted.event_type, "run_seq": wanted.run}
    where: dict[str, str | int] = {name: value for name, value in named.items() if value is not None}
    prefix = (wanted.session or "").removeprefix("SES-")
    if not prefix:
        return where
    try:
        found = index.sessions(prefix)
    except DatabaseError:
        return None
    return None if len(found) > 1 else where | {"session_id": found[0] if found else prefix}


def _fill_entry(files: SegmentFiles, place: EntryPlace, entry: Entry, *, with_bodies: bool) -> Entry:
    bodies = [data for _, data in files.bodies(place, entry)] if with_bodies else []
    return to_entry(entry, place.sequence, place.chain, bodies)


def _scan(  # noqa: PLR0913 - a question has these parts
    path: Path, wanted: EntryFilter, after: int, before: int, *, newest_first: bool = False, with_bodies: bool,
    behind: Position | None = None,
) -> Iterator[Entry]:  # fmt: skip
    """Yield by the segments alone, and behind this place; newest first a segment at a time."""
    low = after if behind is None else max(after, behind.last)
    for name, whole in _read_batches(path, low, behind, newest_first=newest_first):
        first = whole.frame.header.first_sequence
        if first >= before:
            if newest_first:
                continue
            return
        entries = _make_messages(name, whole, wanted, after=low, before=before, with_bodies=with_bodies)
        yield from reversed(entries) if newest_first else entries


def find_head(path: Path) -> int:
    """Return the sequence of the last whole entry, -1 if there is none. Raises Damage."""
    return next((entry.sequence for entry in read_entries(path, limit=1, newest_first=True)), -1)


def read_batch_entries(name: str, whole: Whole) -> list[Entry]:
    """Return the entries of one batch with their bodies; `name` is the segment's, for faults. Raises Damage."""
    return _make_messages(name, whole, ALL, after=-1, before=INTEGER_MAX, with_bodies=True)


def _read_batches(
    path: Path, after: int, behind: Position | None, *, newest_first: bool
) -> Iterator[tuple[str, Whole]]:
    """Yield the batches from the one with entry `after + 1` on. Raises Damage also where entries are gone.

    Each segment leads to the next one, and the last one to all that the index knows, which was asked before they were
    listed: a running writer's index is never ahead of them.
    """
    known = [behind] if behind is not None else read_positions(path) or []
    firsts = list_segment_firsts(path)
    start = max((number for number, first in enumerate(firsts) if first <= after + 1), default=0)
    firsts = firsts[start:]
    end = max(firsts[-1:] + [one.last + 1 for one in known[-1:]], default=0)
    _demand_reach(after + 1, firsts[0] if firsts else end)
    segments = list(zip(firsts, [*firsts[1:], end], strict=True))
    for first, following in reversed(segments) if newest_first else segments:
        with open_segment_file(path / DIRECTORY / name_segment(first)) as source:
            header = read_header(source.get(0, HEADER_BYTES))  # of what stands before it that is believed
            sequence, chain, at = first, GENESIS if header is None else header.previous_chain, 0
            if behind is not None and first == behind.first:
                sequence, chain, at = behind.last + 1, behind.chain, behind.end
            found = walk(source, sequence, chain, at=at, tries=TRIES_BESIDE_WRITER)
            walked = (whole for whole in found if isinstance(whole, Whole))
            for whole in reversed(list(walked)) if newest_first else walked:
                sequence = max(sequence, whole.frame.header.first_sequence + whole.frame.header.entry_count)
                yield source.name, whole
        _demand_reach(sequence, following)


def _demand_reach(sequence: int, following: int) -> None:
    """Demand that nothing is missing between the next entry to come, and one that must be reached."""
    if sequence < following:
        what = f"entries {sequence}..{following - 1} are gone: a segment is missing, or was cut"
        fix = "restore it from a copy; `hobus ledger verify` says which one"
        raise Damage(DIRECTORY, 0, what, sequence=sequence, fix=fix)


def _make_messages(  # noqa: PLR0913 - of which batch, and what of it
    name: str, found: Whole, wanted: EntryFilter, *, after: int, before: int, with_bodies: bool
) -> list[Entry]:
    bodies = iter([body.data for body in found.frame.bodies])
    messages: list[Entry] = []
    for number, entry in enumerate(decode_all(found, name)):
        own: list[bytes | None] = [next(bodies, None) for _ in entry.body_lengths]
        sequence = found.frame.header.first_sequence + number
        if after < sequence < before and wanted.accepts(entry):
            messages.append(to_entry(entry, sequence, found.chains[number], own if with_bodies else []))
    return messages
