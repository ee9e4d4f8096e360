"""An entry of the record: as its writer submits it, as it is stored, as it is read, and its bytes. Pure.

Its writer packs it once, as a positional MessagePack array; the ledger compares the type of each field exactly, as a
header's are (True is no int here, and nothing is coerced), adds its own fields behind them, and stores and hashes those
bytes. Most ids of an entry name its session: in the bytes it is spelled once, in the provenance, and stands as `~`
elsewhere. No free text stands in an entry; bodies lie beside it and are named by salted hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

import msgpack
from msgspec.msgpack import Decoder
from pydantic import Field

from hobus.bus.messages.base import pack
from hobus.bus.messages.ids import ID_MAX_CHARS

SCHEMA_VERSION = 3
HASH_BYTES = 32
INTEGER_MAX = 2**63 - 1
"""The index keeps integers as signed 64 bit; a larger one in an entry is invalid."""

Outcome = Literal["committed", "known", "lost", "refused"]
F = TypeVar("F")
T = TypeVar("T")
Packed = tuple[bytes, list[bytes]]
"""An entry on the wire and in a spool: the bytes of its fields before `bodies`, and the bodies."""


class Provenance(NamedTuple):
    """Who and what an entry is about; empty string where it does not apply."""

    agent_id: Annotated[str, Field(description="a configured agent")] = ""
    agent_class: Annotated[str, Field(description="class of the agent; empty: none")] = ""
    framework_id: Annotated[str, Field(description="`FMWK-<nnn>` of the agent; empty: none")] = ""
    package_id: Annotated[str, Field(description="package that owns the agent; empty: none")] = ""
    session_id: Annotated[str, Field(description="full id; empty: none")] = ""
    run_seq: Annotated[int, Field(ge=0, description="number of the run in its session, from 1; 0: none")] = 0
    round_seq: Annotated[int, Field(ge=0, description="number of the round in its run, from 1; 0: none")] = 0
    work_order_id: Annotated[str, Field(description="the order that this is about; empty: none")] = ""
    tier: Annotated[str, Field(description="hot, ho2 or ho1; empty: none")] = ""


NOTHING = Provenance()


class WriteEntry(NamedTuple):
    """One entry as its writer submits it; the ledger adds origin, ledger time, body hashes, sequence and chain.

    On the wire and in a spool: the bytes of an array of all fields before `bodies`, which the ledger stores as they
    are, and the bodies.
    """

    submission_id: Annotated[
        str, Field(min_length=1, max_length=ID_MAX_CHARS, description="the write's idempotency key")
    ]
    stream: Annotated[str, Field(min_length=1, max_length=80, description="one of STREAMS or session/<uuid>")]
    event_type: Annotated[str, Field(min_length=1, max_length=64, description="what happened, e.g. PROMPT_SENT")]
    at_us: Annotated[int, Field(ge=0, description="the writer's time, microseconds since 1970 UTC")]
    decision: Annotated[str, Field(max_length=32, description="e.g. DEGRADED, ACCEPTED, REJECTED")] = ""
    reason: Annotated[str, Field(max_length=64, description="a reason code, never free text")] = ""
    provenance: Provenance = NOTHING
    parents: Annotated[Sequence[str], Field(description="submission ids that caused this entry")] = ()
    trace: Annotated[str, Field(max_length=200, description="id that ties the entries of one turn together")] = ""
    prev: Annotated[
        str | None, Field(description="session streams: submission id of the stream's head, '' if empty")
    ] = None
    tenure: Annotated[int | None, Field(ge=0, description="session streams: n of the writer's TookOver")] = None
    once: Annotated[str | None, Field(max_length=ID_MAX_CHARS, description="only the first entry of a key commits")] = (
        None
    )
    bodies: Annotated[Sequence[bytes], Field(description="body 0 is the payload")] = ()

    packed = b""  # a `PackedEntry` alone has it


class PackedEntry(WriteEntry):
    """An entry with the bytes of its fields before `bodies`, as they came or will leave; a changed copy has none."""


class Part(NamedTuple):
    """One of the writes that share a frame: independent of the others, whatever becomes of them."""

    entries: Annotated[
        int, Field(ge=1, description="how many of the entries are its own, after those of the part before")
    ]
    resting: Annotated[
        int,
        Field(
            ge=0,
            description="how many of these, at the end, rest on those before them: they commit in the same batch, and "
            "only if each of those is first (committed or known); else they are refused as unfounded",
        ),
    ] = 0


class Ack(NamedTuple):
    """What became of one entry of a Write."""

    outcome: Annotated[
        Outcome,
        Field(
            description="committed: now durable; known: this submission id was there already, same content; lost: "
            "another entry holds the once key; refused: nothing was added"
        ),
    ]
    sequence: Annotated[int, Field(description="of the committed, known or winning entry; -1 if refused")]
    submission_id: Annotated[str, Field(description="of the entry named by `sequence`, else of the refused write")]
    origin: Annotated[str, Field(description="stamped instance that wrote the entry named by `sequence`")] = ""
    event_type: Annotated[str, Field(description="of the entry named by `sequence`")] = ""
    code: Annotated[
        str,
        Field(
            description="refused: head_mismatch, tenure_mismatch, conflict, invalid, too_large, denied; unfounded: "
            "what it rests on in its write was not first"
        ),
    ] = ""
    head: Annotated[str, Field(description="refused on a session stream: the current head's submission id")] = ""
    tenure: Annotated[int, Field(description="refused on a session stream: the current tenure")] = 0

    @property
    def is_first(self) -> bool:
        """Whether this write's own entry stands in the record (now, or by an earlier delivery of the same write)."""
        return self.outcome in ("committed", "known")


class Entry(NamedTuple):
    """One committed entry as readers get it: the fields that are stored, in that order, and where it stands."""

    submission_id: Annotated[str, Field(description="the key under which its writer submitted it")]
    stream: Annotated[str, Field(description="named stream or `session/<id>`")]
    event_type: Annotated[str, Field(description="what happened, e.g. PROMPT_SENT")]
    at_us: Annotated[int, Field(description="the writer's time, microseconds since 1970 UTC")]
    decision: Annotated[str, Field(description="e.g. DEGRADED; empty: none")]
    reason: Annotated[str, Field(description="a reason code; empty: none")]
    provenance: Provenance
    parents: Annotated[Sequence[str], Field(description="submission ids that caused this entry")]
    trace: Annotated[str, Field(description="id that ties the entries of one turn together")]
    prev: Annotated[str | None, Field(description="session streams: submission id of the stream's head before it")]
    tenure: Annotated[int | None, Field(description="session streams: tenure of the writer; None elsewhere")]
    once: Annotated[str | None, Field(description="key of which only the first entry commits")]
    origin: Annotated[str, Field(description="stamped instance that wrote it")]
    ledger_at_us: Annotated[int, Field(description="the ledger's time, microseconds since 1970 UTC")]
    body_hashes: Annotated[Sequence[bytes], Field(description="SHA-256 of salt + body, one per body")]
    body_lengths: Annotated[Sequence[int], Field(description="bytes of each body")]
    sequence: Annotated[int, Field(description="position in the ledger, from 0")] = -1
    chain: Annotated[bytes, Field(description="SHA-256 chain value after this entry")] = b""
    bodies: Annotated[Sequence[bytes | None], Field(description="empty unless asked for; None where erased")] = ()


class StoredEntry(Entry):
    """An entry as the ledger holds it, the fields that are stored alone; its place is told beside it."""

    __slots__ = ()


# --- bytes ------------------------------------------------------------------------------------------------------------

_WRITTEN_FIELDS = WriteEntry._fields.index("bodies")
_STORED_FIELDS, _NO_PLACE = Entry._fields.index("sequence"), (-1, b"", ())
_WIRE_BYTES = 16
"""More than MessagePack's heads of a value and of the arrays that it begins."""
_SHORT_ARRAY = 0x90  # MessagePack's head of an array of up to fifteen items, and their number
_HEAD = bytes([_SHORT_ARRAY + _WRITTEN_FIELDS])
_STORED_HEAD = b"\xdc" + (1 + _STORED_FIELDS).to_bytes(2) + pack(SCHEMA_VERSION)

_WRITTEN = (str, str, str, int, str, str, tuple, tuple, str)
_TYPES = frozenset(
    (*_WRITTEN, prev, tenure, once)
    for prev in (str, type(None)) for tenure in (int, type(None)) for once in (str, type(None))
)  # fmt: skip
_PROVENANCE = (str, str, str, str, str, int, int, str, str)
_ABRIDGED = (str, str, str, str, bytes, int, int, str, str)  # the session in bytes: elsewhere it stands as `~`
_MARK, _BETWEEN = "~", "\0"
_SESSION_MAX_BYTES, _MARKS_MAX = 36, 12
"""A UUID, and more ids than an entry of the product names it in; what is beyond is spelled out."""
_ADDED = (str, int, tuple, tuple)
_TEXT_ALONE, _BYTES_ALONE, _NUMBERS_ALONE = frozenset((str,)), frozenset((bytes,)), frozenset((int,))
_HASHES_ALONE = frozenset((HASH_BYTES,))
_PACKED = Decoder(Packed)


def _lengths() -> tuple[tuple[int, str, int, int], ...]:
    """Position, name, least and greatest length of each text that has bounds."""
    found: list[tuple[int, str, int, int]] = []
    for number, (name, annotation) in enumerate(get_type_hints(WriteEntry, include_extras=True).items()):
        for field in getattr(annotation, "__metadata__", ()):
            bounds = {type(bound).__name__: bound for bound in field.metadata}
            if "MaxLen" in bounds:
                least = bounds["MinLen"].min_length if "MinLen" in bounds else 0
                found.append((number, name, least, bounds["MaxLen"].max_length))
    return tuple(found)


_LENGTHS = _lengths()


def packed_entry(entry: WriteEntry) -> bytes:
    """The bytes of the fields before `bodies`. Raises ValueError or OverflowError for what MessagePack cannot hold."""
    return entry.packed or pack(_abridged(entry))


def with_bytes(entry: WriteEntry) -> WriteEntry:
    """The same entry, packed once, however often it is sent. Raises ValueError or OverflowError as `packed_entry`."""
    if entry.packed:
        return entry
    found: PackedEntry = tuple.__new__(PackedEntry, entry)  # `_make` counts the fields again, in Python
    found.packed = pack(_abridged(entry))
    return found


def wire_size(entries: Iterable[WriteEntry]) -> int:
    """At least as many bytes as these entries, packed, take in a frame."""
    parts: list[bytes] = []
    for entry in entries:
        parts += entry.packed, *entry.bodies
    return sum(map(len, parts)) + _WIRE_BYTES * len(parts)


def spooled_entry(payload: bytes) -> WriteEntry:
    """An entry as a spool holds it. Raises ValueError as `written_entry`."""
    return written_entry(_PACKED.decode(payload))


def written_entry(pair: Packed) -> WriteEntry:
    """An entry from its bytes and its bodies. Raises ValueError, naming the first field that is not as it should be."""
    packed, bodies = pair
    if packed[:1] != _HEAD:
        raise ValueError(f"not an array of {_WRITTEN_FIELDS} fields")
    fields = _written_in(unpack_frozen(packed))
    for number, name, least, most in _LENGTHS:
        text = fields[number]
        if text is not None and not least <= len(text) <= most:
            raise ValueError(f"{name}: {len(text)} characters, not {least} to {most}")
    entry: PackedEntry = tuple.__new__(PackedEntry, (*fields[:7], list(fields[7]), *fields[8:], bodies))
    entry.packed = packed
    return entry


def checked(entry: WriteEntry) -> WriteEntry:
    """The same entry, if the ledger would take its fields: for one that is made of what a stranger said.

    Raises ValueError, naming the first field that is not as it should be.
    """
    written_entry((packed_entry(entry), []))
    return entry


def to_stored(
    entry: WriteEntry, origin: str, ledger_at_us: int, body_hashes: tuple[bytes, ...], body_lengths: tuple[int, ...]
) -> StoredEntry:
    """The entry as it stands in the record, with the ledger's own fields."""
    own = (origin, ledger_at_us, body_hashes, body_lengths)
    fields = (*entry[:7], tuple(entry.parents), *entry[8:_WRITTEN_FIELDS], *own, *_NO_PLACE)
    stored: StoredEntry = tuple.__new__(StoredEntry, fields)
    return stored


def encode_stored(stored: StoredEntry, packed: bytes = b"") -> bytes:
    """The stored bytes: its writer's (`packed`, as they came, where they are known), then the ledger's own.

    Raises ValueError or OverflowError for a value that MessagePack cannot hold.
    """
    written = packed or pack(_abridged(stored))
    return _STORED_HEAD + written[1:] + pack(stored[_WRITTEN_FIELDS:_STORED_FIELDS])[1:]


def spelled_more_bytes(stored: StoredEntry) -> int:
    """At most so much longer than its bytes is the entry as its readers get it."""
    return min(len(stored.provenance.session_id), _SESSION_MAX_BYTES) * _MARKS_MAX


def to_entry(stored: StoredEntry, sequence: int, chain: bytes, bodies: Sequence[bytes | None]) -> Entry:
    """The entry as readers get it."""
    fields = stored[:_STORED_FIELDS]
    parents, hashes, lengths = list(stored.parents), list(stored.body_hashes), list(stored.body_lengths)
    whole = (*fields[:7], parents, *fields[8:14], hashes, lengths, sequence, chain, list(bodies))
    entry: Entry = tuple.__new__(Entry, whole)
    return entry


def decode_stored(data: bytes) -> StoredEntry:
    """The entry behind stored bytes. Raises ValueError, naming the first field that is not what an entry has there."""
    fields = unpack_frozen(data)
    if type(fields) is not tuple or len(fields) != 1 + _STORED_FIELDS or fields[0] != SCHEMA_VERSION:
        raise ValueError(f"not an entry of schema version {SCHEMA_VERSION}")
    stored: StoredEntry = tuple.__new__(StoredEntry, (*_stored(fields[1:]), *_NO_PLACE))
    return stored


def checked_part(part: Part) -> Part:
    """The same, if its numbers can be. Raises ValueError, naming the field that is not as it should be."""
    if part.entries < 1:
        raise _not_there("entries")
    if not 0 <= part.resting < part.entries:
        raise _not_there("resting")
    return part


def each(name: str, read: Callable[[F], T], items: Sequence[F]) -> list[T]:
    """What `read` makes of each item. Raises ValueError that names the item."""
    found: list[T] = []
    try:
        found.extend(map(read, items))  # those before one that raises are kept
    except ValueError as fault:
        raise ValueError(f"{name}.{len(found)}.{fault}") from None
    return found


def unpack_frozen(data: bytes) -> Any:
    """The value behind these bytes, arrays as tuples. Raises ValueError for anything that is not one whole value."""
    try:
        return msgpack.unpackb(data, raw=False, use_list=False)
    except Exception as error:  # msgpack raises a family without a common base, and some of it without a word
        raise ValueError(f"not MessagePack: {type(error).__name__}") from error


def _stored(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """The checked fields of a committed entry behind its version."""
    added = fields[_WRITTEN_FIELDS:]
    if tuple(map(type, added)) != _ADDED:
        raise _not_there("origin, ledger_at_us, body_hashes or body_lengths")
    _origin, ledger_at_us, hashes, lengths = added
    if not 0 <= ledger_at_us <= INTEGER_MAX:
        raise _not_there("ledger_at_us")
    if not (_BYTES_ALONE.issuperset(map(type, hashes)) and _HASHES_ALONE.issuperset(map(len, hashes))):
        raise _not_there("body_hashes")
    if len(lengths) != len(hashes) or not _NUMBERS_ALONE.issuperset(map(type, lengths)):
        raise _not_there("body_lengths")
    return (*_written_in(fields[:_WRITTEN_FIELDS]), *added)


def _abridged(entry: Sequence[Any]) -> tuple[Any, ...]:
    """A writer's fields as they are packed: its session is spelled in the provenance, in bytes, and is `~` elsewhere.

    As they are, where that could not be undone: an id that holds `~` itself, a session id longer than any is.
    """
    fields = tuple(entry[:_WRITTEN_FIELDS])
    provenance, prev, once = fields[6], fields[9], fields[11]
    *who, session, run_seq, round_seq, order, tier = provenance
    if not session or len(session) > _SESSION_MAX_BYTES or not session.isascii() or _BETWEEN in session:
        return fields
    texts = (fields[0], fields[1], fields[8], prev or "", once or "", order, *fields[7])
    joined = _BETWEEN.join(texts)
    parts = joined.split(session)  # `replace` looks for so long a text twice
    ids = _MARK.join(parts).split(_BETWEEN)
    if _MARK in joined or len(ids) != len(texts) or len(parts) > 1 + _MARKS_MAX:
        return fields
    told = (*who, session.encode(), run_seq, round_seq, ids[5], tier)
    return ids[0], ids[1], *fields[2:6], told, ids[6:], ids[2], prev and ids[3], fields[10], once and ids[4]


def _spelled(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `_abridged` was given, of fields of the right types. Raises ValueError for what it does not make."""
    provenance, prev, once = fields[6], fields[9], fields[11]
    *who, named, run_seq, round_seq, order, tier = provenance
    if not 0 < len(named) <= _SESSION_MAX_BYTES or not named.isascii():
        raise _not_there("provenance: its session")
    session = named.decode()
    texts = (fields[0], fields[1], fields[8], prev or "", once or "", order, *fields[7])
    joined = _BETWEEN.join(texts)
    if joined.count(_MARK) > _MARKS_MAX:
        raise _not_there(f"more than {_MARKS_MAX} `~` in ids")
    ids = joined.replace(_MARK, session).split(_BETWEEN)
    if len(ids) != len(texts):
        raise _not_there("an id with a zero byte in it")
    whole: Provenance = tuple.__new__(Provenance, (*who, session, run_seq, round_seq, ids[5], tier))
    return ids[0], ids[1], *fields[2:6], whole, tuple(ids[6:]), ids[2], prev and ids[3], fields[10], once and ids[4]


def _written_in(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """A writer's fields, checked, the session spelled out. Raises ValueError, naming the first that is wrong."""
    types = tuple(map(type, fields))
    if types not in _TYPES:
        named = zip(WriteEntry._fields, types, _WRITTEN, strict=False)
        raise _not_there(next((name for name, kind, meant in named if kind is not meant), "prev, tenure or once"))
    provenance, parents = fields[6], fields[7]
    kinds = tuple(map(type, provenance))
    if kinds != _PROVENANCE and kinds != _ABRIDGED:  # noqa: PLR1714 - a set would hash them
        raise _not_there("provenance")
    if not _TEXT_ALONE.issuperset(map(type, parents)):
        raise _not_there("parents")
    at_us, tenure, run_seq, round_seq = numbers = (fields[3], fields[10] or 0, provenance[5], provenance[6])
    if not 0 <= at_us | tenure | run_seq | round_seq <= INTEGER_MAX:  # one that is negative or too large makes it so
        named = zip(("at_us", "tenure", "run_seq", "round_seq"), numbers, strict=True)
        raise _not_there(next(name for name, number in named if not 0 <= number <= INTEGER_MAX))
    if kinds == _ABRIDGED:
        return _spelled(fields)
    plain: Provenance = tuple.__new__(Provenance, provenance)
    return (*fields[:6], plain, *fields[7:])


def _not_there(field: str) -> ValueError:
    return ValueError(f"{field}: not what an entry has there")
