"""An entry of the record: as its writer submits it, as it is stored, as it is read, and its bytes. Pure.

Its writer packs it once, and the ledger stores and hashes those very bytes with its own fields behind them:

    written   [ids, at_us, run_seq, round_seq, tenure]
    stored    [written, [schema version, origin, ledger_at_us, hashes of the bodies in a row, [their lengths]]]

`ids` is one text, a zero character between its parts: `_HEADS`, `_IDS`, the parents. Most ids name the session, many
the order and the type: behind its own place each stands as its mark, U+0001 to U+0003, so often at most as `_MARKS`
says. No prev goes with no tenure, an empty once key is none. What cannot be written so (an id with one of these
characters, say) is a list of the parts instead. Types are compared exactly (True is no int, nothing is coerced). No
free text stands in an entry; bodies lie beside it and are named by salted hashes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

from msgspec import Meta
from msgspec.msgpack import Decoder

from hobus.bus.messages.base import find_metas, pack
from hobus.bus.messages.ids import ID_MAX_CHARS

SCHEMA_VERSION = 5
HASH_BYTES = 32
INTEGER_MAX = 2**63 - 1
"""The index keeps integers as signed 64 bit; a larger one in an entry is invalid."""

Outcome = Literal["committed", "known", "lost", "refused"]
F = TypeVar("F")
T = TypeVar("T")
Packed = tuple[bytes, list[bytes]]
"""An entry on the wire and in a spool: the bytes of its fields before `bodies`, and the bodies."""


class Provenance(NamedTuple):
    """What an entry is about; empty if it does not apply."""

    agent_id: Annotated[str, Meta(description="a configured agent")] = ""
    agent_class: Annotated[str, Meta(description="class of the agent; empty: none")] = ""
    framework_id: Annotated[str, Meta(description="`FMWK-<nnn>` of the agent; empty: none")] = ""
    package_id: Annotated[str, Meta(description="package that owns the agent; empty: none")] = ""
    session_id: Annotated[str, Meta(description="full id; empty: none")] = ""
    run_seq: Annotated[int, Meta(ge=0, description="number of the run in its session, from 1; 0: none")] = 0
    round_seq: Annotated[int, Meta(ge=0, description="number of the round in its run, from 1; 0: none")] = 0
    work_order_id: Annotated[str, Meta(description="the order that this is about; empty: none")] = ""
    tier: Annotated[str, Meta(description="hot, ho2 or ho1; empty: none")] = ""


NOTHING = Provenance()


class WriteEntry(NamedTuple):
    """One entry as its writer submits it; the ledger adds origin, ledger time, body hashes, sequence and chain.

    On the wire and in a spool: the bytes of `[ids, at_us, run_seq, round_seq, tenure]`, which the ledger stores as they
    are (`bus/record/entry.py`), and the bodies.
    """

    submission_id: Annotated[
        str, Meta(min_length=1, max_length=ID_MAX_CHARS, description="the write's idempotency key")
    ]
    stream: Annotated[str, Meta(min_length=1, max_length=80, description="one of STREAMS or session/<uuid>")]
    event_type: Annotated[str, Meta(min_length=1, max_length=64, description="what happened, e.g. PROMPT_SENT")]
    at_us: Annotated[int, Meta(ge=0, description="the writer's time, microseconds since 1970 UTC")]
    decision: Annotated[str, Meta(max_length=32, description="e.g. DEGRADED, ACCEPTED, REJECTED")] = ""
    reason: Annotated[str, Meta(max_length=64, description="a reason code, never free text")] = ""
    provenance: Provenance = NOTHING
    parents: Annotated[Sequence[str], Meta(description="submission ids that caused this entry")] = ()
    trace: Annotated[str, Meta(max_length=200, description="id that ties the entries of one turn together")] = ""
    prev: Annotated[
        str | None, Meta(description="session streams: submission id of the stream's head, '' if empty")
    ] = None
    tenure: Annotated[int, Meta(ge=0, description="session streams: n of the writer's TookOver")] | None = None
    once: Annotated[str, Meta(max_length=ID_MAX_CHARS, description="only the first entry of a key commits")] | None = (
        None
    )
    bodies: Annotated[Sequence[bytes], Meta(description="body 0 is the payload")] = ()

    packed = b""  # a `PackedEntry` alone has it


class PackedEntry(WriteEntry):
    """An entry with the bytes of its fields before `bodies`, as they came or will leave; a changed copy has none."""


class Part(NamedTuple):
    """One of the independent writes that share a frame."""

    entries: Annotated[int, Meta(ge=1, description="number of its entries, after those of the previous part")]
    resting: Annotated[
        int,
        Meta(
            ge=0,
            description="number of these, at the end, that rest on the others: they commit in the same "
            "batch, and only if each of the others is committed or known; else they are "
            "unfounded",
        ),
    ] = 0
    follows: Annotated[
        str,
        Meta(
            description="submission id of any writer's entry that must come first: the write waits a "
            "moment for it, else is unfounded; empty: none"
        ),
    ] = ""


class Ack(NamedTuple):
    """The result of one entry of a Write."""

    outcome: Annotated[
        Outcome,
        Meta(
            description="committed: now durable; known: this submission id was there already, same content; lost: "
            "another entry holds the once key; refused: nothing was added"
        ),
    ]
    sequence: Annotated[int, Meta(description="of the committed, known or winning entry; -1 if refused")]
    submission_id: Annotated[str, Meta(description="of the entry named by `sequence`, else of the refused write")]
    origin: Annotated[str, Meta(description="stamped instance that wrote the entry named by `sequence`")] = ""
    event_type: Annotated[str, Meta(description="of the entry named by `sequence`")] = ""
    code: Annotated[
        str,
        Meta(
            description="refused: head_mismatch, tenure_mismatch, conflict, invalid, too_large, denied; unfounded: "
            "what it rests on in its write was not first"
        ),
    ] = ""
    head: Annotated[str, Meta(description="refused on a session stream: the current head's submission id")] = ""
    tenure: Annotated[int, Meta(description="refused on a session stream: the current tenure")] = 0

    @property
    def is_first(self) -> bool:
        """Return whether this write's own entry stands in the record, now or by an earlier delivery."""
        return self.outcome in ("committed", "known")


class Entry(NamedTuple):
    """One committed entry; the ledger adds the last fields."""

    submission_id: Annotated[str, Meta(description="the key under which its writer submitted it")]
    stream: Annotated[str, Meta(description="named stream or `session/<id>`")]
    event_type: Annotated[str, Meta(description="what happened, e.g. PROMPT_SENT")]
    at_us: Annotated[int, Meta(description="the writer's time, microseconds since 1970 UTC")]
    decision: Annotated[str, Meta(description="e.g. DEGRADED; empty: none")]
    reason: Annotated[str, Meta(description="a reason code; empty: none")]
    provenance: Provenance
    parents: Annotated[Sequence[str], Meta(description="submission ids that caused this entry")]
    trace: Annotated[str, Meta(description="id that ties the entries of one turn together")]
    prev: Annotated[str | None, Meta(description="session streams: submission id of the stream's head before it")]
    tenure: Annotated[int | None, Meta(description="session streams: tenure of the writer; None elsewhere")]
    once: Annotated[str | None, Meta(description="once key: only its first entry commits")]
    origin: Annotated[str, Meta(description="stamped instance that wrote it")]
    ledger_at_us: Annotated[int, Meta(description="the ledger's time, microseconds since 1970 UTC")]
    body_hashes: Annotated[Sequence[bytes], Meta(description="SHA-256 of salt + body, one per body")]
    body_lengths: Annotated[Sequence[int], Meta(description="bytes of each body")]
    sequence: Annotated[int, Meta(description="position in the ledger, from 0")] = -1
    chain: Annotated[bytes, Meta(description="SHA-256 chain value after this entry")] = b""
    bodies: Annotated[Sequence[bytes | None], Meta(description="empty unless asked for; None where erased")] = ()


# --- bytes ------------------------------------------------------------------------------------------------------------

_WRITTEN_FIELDS = WriteEntry._fields.index("bodies")
_STORED_FIELDS = Entry._fields.index("sequence")
_WIRE_BYTES = 16
"""More than MessagePack's heads of a value and of the arrays that it begins."""
PAIR = b"\x92"
"""MessagePack's head of an array of two: in front of a writer's bytes, behind which the ledger's own fields follow."""
_HEADS = "session_id", "work_order_id", "event_type"
_IDS = (
    "submission_id", "stream", "decision", "reason", "trace", "once",
    "prev", "agent_id", "agent_class", "framework_id", "package_id", "tier",
)  # fmt: skip
_ONCE, _PREV = _IDS.index("once"), _IDS.index("prev")
_BETWEEN = "\0"
_MARKS = _SESSION, _ORDER, _TYPE = ("\1", 8), ("\2", 6), ("\3", 1)
"""Each with its most, as often as an entry of the product names it; what is beyond is spelled out."""
_MARKED = re.compile(f"[{''.join(mark for mark, _ in _MARKS)}]")

_Number = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
_Written = tuple[str | list[str | None], _Number, _Number, _Number, _Number | None]
_WRITTEN = Decoder(_Written)
_STORED = Decoder(tuple[_Written, tuple[int, str, _Number, bytes, list[_Number]]])
_PACKED = Decoder(Packed)


def _find_bounds() -> dict[str, tuple[int, int]]:
    """Return least and greatest length of each bounded text, in order; of a session and an order as of an id."""
    found: dict[str, tuple[int, int]] = dict.fromkeys(_HEADS, (0, ID_MAX_CHARS))
    hints = get_type_hints(WriteEntry, include_extras=True)
    for name in (_HEADS[-1], *_IDS[: _ONCE + 1]):
        found[name] = next(
            (meta.min_length or 0, meta.max_length) for meta in find_metas(hints[name]) if meta.max_length is not None
        )
    return found


_BOUNDS = _find_bounds()
_BOUNDED = re.compile(_BETWEEN.join(f"[^{_BETWEEN}]{{{least},{most}}}" for least, most in _BOUNDS.values()) + _BETWEEN)
"""Matches the beginning of ids of which no part is too short or too long."""


def pack_entry(entry: WriteEntry) -> bytes:
    """Return the bytes that an entry's writer makes. Raises ValueError or OverflowError if it cannot be packed."""
    return entry.packed or _pack(entry)


def with_bytes(entry: WriteEntry) -> WriteEntry:
    """Return the entry packed once, however often it is sent. Raises ValueError or OverflowError as `pack_entry`."""
    if entry.packed:
        return entry
    found: PackedEntry = tuple.__new__(PackedEntry, entry)  # `_make` counts the fields again, in Python
    found.packed = _pack(entry)
    return found


def estimate_wire_size(entries: Iterable[WriteEntry]) -> int:
    """Return at least as many bytes as these entries, packed, take in a frame."""
    parts: list[bytes] = []
    for entry in entries:
        parts += entry.packed, *entry.bodies
    return sum(map(len, parts)) + _WIRE_BYTES * len(parts)


def read_spooled_entry(payload: bytes) -> WriteEntry:
    """Return an entry as a spool holds it. Raises ValueError as `read_written_entry`."""
    return read_written_entry(_PACKED.decode(payload))


def read_written_entry(pair: Packed) -> WriteEntry:
    """Return an entry from its bytes and its bodies. Raises ValueError, naming what is not as it should be."""
    packed, bodies = pair
    try:
        written = _WRITTEN.decode(packed)
    except ValueError as fault:
        raise ValueError(f"not [ids, at_us, run_seq, round_seq, tenure]: {fault}") from None
    entry: PackedEntry = tuple.__new__(PackedEntry, (*_spell(*written, is_bounded=True), bodies))
    entry.packed = packed
    return entry


def check_entry(entry: WriteEntry) -> WriteEntry:
    """Return the entry if the ledger would take its fields: for one that is made of what a stranger said.

    Raises ValueError, naming the first field that is not as it should be.
    """
    read_written_entry((pack_entry(entry), []))
    return entry


def to_stored(
    entry: WriteEntry, origin: str, ledger_at_us: int, body_hashes: Sequence[bytes], body_lengths: Sequence[int]
) -> Entry:
    """Return the entry as it stands in the record, with the ledger's own fields; without its place."""
    fields = (*entry[:_WRITTEN_FIELDS], origin, ledger_at_us, body_hashes, body_lengths, -1, b"", ())
    stored: Entry = tuple.__new__(Entry, fields)
    return stored


def encode_stored(stored: Entry) -> bytes:
    """Return the stored bytes. Raises ValueError or OverflowError for a value that MessagePack cannot hold."""
    own = SCHEMA_VERSION, stored.origin, stored.ledger_at_us, b"".join(stored.body_hashes), stored.body_lengths
    return PAIR + _pack(stored) + pack(own)


def estimate_spelled_bytes(stored: Entry, length: int) -> int:
    """Return at least as many bytes as an entry of `length` stored bytes has for its readers."""
    heads = stored.provenance.session_id, stored.provenance.work_order_id, stored.event_type
    spelled = length + sum(len(head.encode()) * most for head, (_, most) in zip(heads, _MARKS, strict=True))
    return spelled + spelled // 32  # what is longer than 31 bytes has a head of more than one


def to_entry(stored: Entry, sequence: int, chain: bytes, bodies: Sequence[bytes | None]) -> Entry:
    fields = (*stored[:7], [*stored.parents], *stored[8:_STORED_FIELDS], sequence, chain, bodies)
    entry: Entry = tuple.__new__(Entry, fields)
    return entry


def decode_stored(data: bytes) -> Entry:
    """Return the entry behind stored bytes, without its place. Raises ValueError, naming what is wrong."""
    try:
        written, (version, origin, ledger_at_us, joined, lengths) = _STORED.decode(data)
    except ValueError as fault:
        raise ValueError(f"not an entry of schema version {SCHEMA_VERSION}: {fault}") from None
    if version != SCHEMA_VERSION or len(joined) != HASH_BYTES * len(lengths):
        raise ValueError(f"not an entry of schema version {SCHEMA_VERSION}: hashes, or its version")
    hashes = [joined[at : at + HASH_BYTES] for at in range(0, len(joined), HASH_BYTES)]
    fields = (*_spell(*written, is_bounded=False), origin, ledger_at_us, hashes, lengths, -1, b"", ())
    stored: Entry = tuple.__new__(Entry, fields)
    return stored


def check_part(part: Part) -> Part:
    """Return the part if its numbers can be. Raises ValueError, naming the field that is not as it should be."""
    if part.resting >= part.entries:
        raise _refuse_absent("resting")
    return part


def read_each(name: str, read: Callable[[F], T], items: Sequence[F]) -> list[T]:
    """Return what `read` makes of each item. Raises ValueError that names the item."""
    found: list[T] = []
    try:
        found.extend(map(read, items))  # those before one that raises are kept
    except ValueError as fault:
        raise ValueError(f"{name}.{len(found)}.{fault}") from None
    return found


def _pack(entry: WriteEntry | Entry) -> bytes:
    fields: tuple[Any, ...] = entry[:_WRITTEN_FIELDS]
    submission_id, stream, event_type, at_us, decision, reason, about, parents, trace, prev, tenure, once = fields
    agent_id, agent_class, framework_id, package_id, session_id, run_seq, round_seq, order_id, tier = about
    parts = (
        submission_id, stream, decision, reason, trace, once or "",
        prev or "", agent_id, agent_class, framework_id, package_id, tier, *parents,
    )  # fmt: skip
    heads = session_id, order_id, event_type
    ids: Any = _BETWEEN.join(parts)
    told = "".join((*heads, *parts))
    is_plain = event_type and _BETWEEN not in told and _MARKED.search(told) is None
    if not is_plain or once == "" or (prev is None) != (tenure is None):
        ids = [*heads, *parts[:_ONCE], once, prev, *parts[_PREV + 1 :]]
    else:
        ids = ids.replace(order_id, *_ORDER) if order_id else ids
        ids = f"{order_id}{_BETWEEN}{event_type}{_BETWEEN}{ids.replace(event_type, *_TYPE)}"
        ids = ids.replace(session_id, *_SESSION) if session_id else ids
        ids = f"{session_id}{_BETWEEN}{ids}"
    return pack((ids, at_us, run_seq, round_seq, tenure))


def _spell(  # noqa: PLR0913 - as they stand in the bytes
    ids: str | list[str | None], at_us: int, run_seq: int, round_seq: int, tenure: int | None, *, is_bounded: bool
) -> tuple[Any, ...]:
    """Return a writer's fields of what `_packed` made of them. Raises ValueError, naming the first that is wrong.

    The ledger's own entries about others may have an id that is longer than any that it takes (not `is_bounded`).
    """
    parts: list[Any]
    if type(ids) is str:
        whole = _spell_marks(ids)
        parts = whole.split(_BETWEEN)
        if _MARKED.search(whole) or (is_bounded and _BOUNDED.match(whole) is None):
            raise ValueError(_find_fault(parts, is_bounded=True) or "ids: a mark too many")
    elif fault := _find_fault(parts := [*ids], is_bounded=is_bounded):
        raise ValueError(fault)
    try:
        (
            session_id, order_id, event_type, submission_id, stream, decision, reason, trace, once,
            prev, agent_id, agent_class, framework_id, package_id, tier, *parents,
        ) = parts  # fmt: skip
    except ValueError:
        raise _refuse_absent("ids") from None
    if type(ids) is str:
        once, prev = once or None, None if tenure is None else prev
    about = (agent_id, agent_class, framework_id, package_id, session_id, run_seq, round_seq, order_id, tier)
    provenance: Provenance = tuple.__new__(Provenance, about)
    return (
        submission_id, stream, event_type, at_us, decision, reason, provenance, parents, trace, prev, tenure, once,
    )  # fmt: skip


def _spell_marks(ids: str) -> str:
    """Return the ids with what their marks stand for, in the order opposite to that of `_pack`."""
    session_id, _, rest = ids.partition(_BETWEEN)
    if session_id:
        rest = rest.replace(_SESSION[0], session_id, _SESSION[1])
    order_id, _, rest = rest.partition(_BETWEEN)
    event_type, _, rest = rest.partition(_BETWEEN)
    if event_type:
        rest = rest.replace(_TYPE[0], event_type, _TYPE[1])
    if order_id:
        rest = rest.replace(_ORDER[0], order_id, _ORDER[1])
    return _BETWEEN.join((session_id, order_id, event_type, rest))


def _find_fault(parts: Sequence[str | None], *, is_bounded: bool) -> str:
    """Return which part of an entry's ids is too short, too long, or not there; empty: none."""
    for (name, (least, most)), part in zip(_BOUNDS.items(), parts, strict=False):
        if part is None and name != "once":
            return f"{name}: not a text"
        if is_bounded and part is not None and not least <= len(part) <= most:
            return f"{name}: {len(part)} characters, not {least} to {most}"
    return "ids: not a text" if None in parts[len(_BOUNDS) + 1 :] else ""  # `prev` alone may be none there


def _refuse_absent(field: str) -> ValueError:
    return ValueError(f"{field}: not what an entry has there")
