"""Decides writes one by one, and makes of a batch of those that commit what will stand in the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256, shake_256
from operator import add, methodcaller
from typing import Any, NamedTuple

from msgspec import Struct, field

from hobus.bus.messages.base import pack
from hobus.bus.messages.ledger import Ack, WriteEntry
from hobus.bus.record.catalog import is_session_stream
from hobus.bus.record.entry import HASH_BYTES, PAIR, SCHEMA_VERSION, Entry, pack_entry, to_stored
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import WriteConflict
from hobus.config import limits
from hobus.config.sections.record import LedgerConfig
from hobus.ledger_service.admission import Earlier, StreamHead, advance, find_bar, judge, make_refusal
from hobus.ledger_service.frame import SALT_BYTES, hash_salted
from hobus.ledger_service.index import Committed, hash_keys
from hobus.ledger_service.segment import SegmentFiles
from hobus.ledger_service.tables import Tables

_digest = methodcaller("digest")
_SALTS_AT_ONCE = 256
"""Only speed depends on it."""


def make_salts(new_id: Callable[[], str]) -> Callable[[int], list[bytes]]:
    """Return a function that gives so many fresh salts; `new_id` is the bus port's draw (two of 122 bits each).

    Nobody can guess a short text from its hash once salt and body are overwritten. Made of a secret that is drawn once
    per process and never written, so one salt tells nothing about another, and the simulation, whose draws are seeded,
    gets the same salts each time.
    """
    secret, block = f"{new_id()}{new_id()}".encode(), 0
    left: list[bytes] = []

    def draw(count: int) -> list[bytes]:
        nonlocal block, left
        while len(left) < count:
            block += 1
            found = shake_256(secret + block.to_bytes(8, "big")).digest(SALT_BYTES * _SALTS_AT_ONCE)
            left += [found[at : at + SALT_BYTES] for at in range(0, len(found), SALT_BYTES)]
        drawn, left = left[:count], left[count:]
        return drawn

    return draw


WRITE_CONFLICT = "WRITE_CONFLICT"
_NO_HEAD = StreamHead()
_OWN_BYTES, _OF_BODY_BYTES = 128, HASH_BYTES + 5
"""At most what the ledger adds to an entry: its own fields, and a hash and a length of each body."""


class Surroundings(NamedTuple):
    """What the ledger takes from outside; the simulation gives its own."""

    origin: str  # the ledger's instance: origin of its own entries
    free_bytes: Callable[[], int]
    now_us: Callable[[], int]
    draw_salts: Callable[[int], list[bytes]]


class Batch(Struct):
    """What the next frame holds, as far as it is decided; later decisions see it."""

    first_sequence: int
    now_us: int
    count: int = 0
    entries: list[tuple[WriteEntry, bytes, str]] = field(default_factory=list)  # its bytes, and who wrote it
    numbers: dict[str, int] = field(default_factory=dict)  # by submission id
    holders: dict[str, int] = field(default_factory=dict)  # by once key
    heads: dict[str, StreamHead] = field(default_factory=dict)
    size_bytes: int = 0

    def earlier(self, number: int, entry: WriteEntry | None = None) -> Earlier:
        """Return the entry of this number, and whether `entry` is the same."""
        found, _, origin = self.entries[number]
        is_same = entry is not None and _make_content(entry) == _make_content(found) and entry.bodies == found.bodies
        return Earlier(self.first_sequence + number, found.submission_id, origin, found.event_type, is_same)


class Sealed(Struct, frozen=True):
    """A batch as it will stand in the record."""

    entries: list[Entry]
    stored: list[bytes]  # the bytes of each
    bodies: list[bytes]  # salt and data of each


def seal(batch: Batch, draw_salts: Callable[[int], list[bytes]]) -> Sealed:
    """Draw a salt for each body, hash it, and add the ledger's own fields to the writers' bytes."""
    bodies = [body for entry, _, _ in batch.entries for body in entry.bodies]
    counts = [*map(len, [entry.bodies for entry, _, _ in batch.entries])]
    salted = [*map(add, draw_salts(len(bodies)), bodies)]
    hashes, lengths, now_us = [*map(_digest, map(sha256, salted))], [*map(len, bodies)], batch.now_us
    joined, at = b"".join(hashes), 0
    entries: list[Entry] = []
    own: list[tuple[Any, ...]] = []
    for (entry, _, origin), count in zip(batch.entries, counts, strict=True):
        end = at + count
        entries += (to_stored(entry, origin, now_us, hashes[at:end], lengths[at:end]),)
        own += ((SCHEMA_VERSION, origin, now_us, joined[at * HASH_BYTES : end * HASH_BYTES], lengths[at:end]),)
        at = end
    told = map(pack, own)
    stored = [PAIR + packed + behind for (_, packed, _), behind in zip(batch.entries, told, strict=True)]
    return Sealed(entries, stored, salted)


class Intake(Struct):
    """Decide writes one by one; what is taken is seen by every later decision."""

    _config: LedgerConfig
    _tables: Tables
    _files: SegmentFiles
    _world: Surroundings

    def decide(self, entry: WriteEntry, origin: str, batch: Batch, hashed: Mapping[str, int]) -> Ack:
        """Return the answer to a write, true once the batch is durable.

        Raises Damage if an earlier entry cannot be read.

        `hashed`: of its submission id and its once key.
        """
        stream, submission_id, event_type = entry.stream, entry.submission_id, entry.event_type
        once, head = entry.once, _NO_HEAD
        on_session = is_session_stream(stream)
        if on_session:
            head = batch.heads.get(stream) or self._tables.head(stream)
        known, holder = self._find_earlier(entry, origin, batch, hashed)
        ack = judge(entry, origin=origin, known=known, holder=holder, head=head)
        if ack is not None:
            if ack.code == "conflict" and known is not None:
                self._record_conflict(entry, origin, known, batch)
            return ack
        config, bodies = self._config, entry.bodies
        try:
            packed = entry.packed or pack_entry(entry)
        except (ValueError, OverflowError):
            return make_refusal(entry, "invalid", head)
        bodies_bytes, own_bytes = sum(map(len, bodies)), _OWN_BYTES + _OF_BODY_BYTES * len(bodies)
        entry_bytes = len(packed) + own_bytes
        if bodies_bytes > config.bodies_max_bytes or entry_bytes > limits.ENTRY_MAX_BYTES:
            return make_refusal(entry, "too_large", head)
        number, batch.count = batch.count, batch.count + 1
        batch.entries += ((entry, packed, origin),)
        batch.numbers[submission_id] = number
        if once is not None:
            batch.holders[once] = number
        if on_session:
            batch.heads[stream] = advance(head, entry, origin)
        batch.size_bytes += entry_bytes + bodies_bytes
        return Ack("committed", batch.first_sequence + number, submission_id, origin, event_type)

    def recall(self, entry: WriteEntry, hashed: Mapping[str, int]) -> Ack | None:
        """Return the answer to a write that adds nothing, since it, or the holder of its once key, stands; else None.

        Raises Damage if the earlier entry cannot be read.
        """
        known, holder = self._find_earlier(entry, "", Batch(0, 0), hashed)
        ack = judge(entry, origin="", known=known, holder=holder, head=_NO_HEAD)
        return ack if ack is not None and ack.outcome in ("known", "lost") else None

    def _find_earlier(
        self, entry: WriteEntry, origin: str, batch: Batch, hashed: Mapping[str, int]
    ) -> tuple[Earlier | None, Earlier | None]:
        """Return who has the entry's submission id already, and who its once key, or the one that bars it."""
        submission_id, once = entry.submission_id, entry.once
        known = holder = None
        if (number := batch.numbers.get(submission_id)) is not None:
            known = batch.earlier(number, entry)
        elif (found := self._tables.find_by_submission(submission_id, hashed[submission_id])) is not None:
            known = _make_earlier(found, is_same=self._is_same(entry, found))
        for key in (once, find_bar(entry, origin)):
            if key is None or holder is not None:
                continue
            if (number := batch.holders.get(key)) is not None:
                holder = batch.earlier(number)
            elif (found := self._tables.find_by_once(key, hashed.get(key))) is not None:
                holder = _make_earlier(found)
        return known, holder

    def _is_same(self, entry: WriteEntry, found: Committed) -> bool:
        """Return whether stream, event type, bodies, and on a session's stream predecessor and tenure, are the same."""
        stored = found.entry
        if _make_content(entry) != _make_content(stored) or [*map(len, entry.bodies)] != [*stored.body_lengths]:
            return False
        salts = [salt for salt, _ in self._files.bodies(found.place, stored)]
        return [*map(hash_salted, salts, entry.bodies)] == [*stored.body_hashes]

    def _record_conflict(self, entry: WriteEntry, writer: str, first: Earlier, batch: Batch) -> None:
        """Record once per submission id who tried to give a known id another content. Ids only."""
        submission_id = f"{WRITE_CONFLICT}:{entry.submission_id}"
        if submission_id in batch.numbers or self._tables.find_by_submission(submission_id) is not None:
            return
        facts = WriteConflict(entry.submission_id, writer, first.sequence, first.origin)
        record = WriteEntry(
            submission_id, "governance", WRITE_CONFLICT, batch.now_us, "REJECTED", "conflict", entry.provenance,
            parents=[entry.submission_id], bodies=[pack_payload(facts)],
        )  # fmt: skip
        self.decide(record, self._world.origin, batch, hash_keys([submission_id]))


def _make_content(entry: WriteEntry | Entry) -> tuple[object, ...]:
    """Return what makes entries the same, beside their bodies."""
    return entry.stream, entry.event_type, entry.prev, entry.tenure


def _make_earlier(found: Committed, *, is_same: bool = False) -> Earlier:
    entry = found.entry
    return Earlier(found.place.sequence, entry.submission_id, entry.origin, entry.event_type, is_same)
