"""Reads a ledger's directory without a running ledger, or safely beside one: whole batches only, nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from hobus.bus.messages.ledger import EVERY_SESSION, session_stream
from hobus.bus.record.catalog import is_session_stream
from hobus.bus.record.entry import Entry, to_entry
from hobus.ledger_service.frame import GENESIS, HEADER_BYTES, read_header
from hobus.ledger_service.recovery import decode_all
from hobus.ledger_service.scan import TRIES_BESIDE_WRITER, Whole, walk
from hobus.ledger_service.segment import DIRECTORY, segment_name
from hobus.ledger_service.source import segment_file
from hobus.ledger_service.verify import segment_firsts


class EntryFilter(Struct, frozen=True, kw_only=True):
    """Which entries; what is not given does not matter."""

    stream: str | None = None  # EVERY_SESSION: those of all sessions
    event_type: str | None = None
    session: str | None = None  # a session id or its first characters, with or without `SES-`

    def accepts(self, entry: Entry) -> bool:
        if self.stream == EVERY_SESSION:
            if not is_session_stream(entry.stream):
                return False
        elif self.stream is not None and entry.stream != self.stream:
            return False
        if self.event_type is not None and entry.event_type != self.event_type:
            return False
        prefix = (self.session or "").removeprefix("SES-")
        return entry.provenance.session_id.startswith(prefix) or entry.stream.startswith(session_stream(prefix))


def read_entries(  # noqa: PLR0913 - a question has these parts
    path: Path,
    wanted: EntryFilter | None = None,
    *,
    after: int = -1,
    limit: int | None = None,
    newest_first: bool = False,
    with_bodies: bool = False,
) -> Iterator[Entry]:
    """Entries with a sequence beyond `after`, in order or newest first. Raises Damage at the first damaged batch.

    Newest first reads one segment at a time from the end, so the last entries of a large ledger cost one segment.
    """
    wanted = wanted or EntryFilter()
    found = _batches(path, after, newest_first=newest_first)
    count = 0
    for name, whole in found:
        entries = _messages(name, whole, wanted, after=after, with_bodies=with_bodies)
        for entry in reversed(entries) if newest_first else entries:
            if limit is not None and count >= limit:
                return
            count += 1
            yield entry


def head_of(path: Path) -> int:
    """Sequence of the last whole entry, -1 if there is none. Raises Damage."""
    return next((entry.sequence for entry in read_entries(path, limit=1, newest_first=True)), -1)


def entries_of(name: str, whole: Whole) -> list[Entry]:
    """The entries of one batch with their bodies; `name` is the segment's, for faults. Raises Damage."""
    return _messages(name, whole, EntryFilter(), after=-1, with_bodies=True)


def _batches(path: Path, after: int, *, newest_first: bool) -> Iterator[tuple[str, Whole]]:
    firsts = segment_firsts(path)
    start = max((number for number, first in enumerate(firsts) if first <= after + 1), default=0)
    firsts = firsts[start:]
    for first in reversed(firsts) if newest_first else firsts:
        with segment_file(path / DIRECTORY / segment_name(first)) as source:
            header = read_header(source.get(0, HEADER_BYTES))  # of what stands before it that is believed
            chain = GENESIS if header is None else header.previous_chain
            found = walk(source, first, chain, tries=TRIES_BESIDE_WRITER)
            walked = (whole for whole in found if isinstance(whole, Whole))
            for whole in reversed(list(walked)) if newest_first else walked:
                yield source.name, whole


def _messages(name: str, found: Whole, wanted: EntryFilter, *, after: int, with_bodies: bool) -> list[Entry]:
    bodies = iter([body.data for body in found.frame.bodies])
    messages: list[Entry] = []
    for number, entry in enumerate(decode_all(found, name)):
        own: list[bytes | None] = [next(bodies, None) for _ in entry.body_lengths]
        sequence = found.frame.header.first_sequence + number
        if sequence > after and wanted.accepts(entry):
            messages.append(to_entry(entry, sequence, found.chains[number], own if with_bodies else []))
    return messages
