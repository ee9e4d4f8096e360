"""One entry as it is stored: a positional MessagePack array whose exact bytes are hashed. Pure.

Source: spec page "The ledger", What is stored. No free text stands in an entry; bodies lie beside it and are named by
salted hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bus.messages.base import pack, unpack
from bus.messages.ledger import Entry, Provenance

SCHEMA_VERSION = 1
HASH_BYTES = 32
INTEGER_MAX = 2**63 - 1
"""The index keeps integers as signed 64 bit; a larger one in an entry is invalid."""


class StoredEntry(NamedTuple):
    """The fields in stored order."""

    version: int
    submission_id: str
    origin: str
    stream: str
    event_type: str
    decision: str
    reason: str
    provenance: tuple[str, str, str, str, str, int, int, str, str]
    parents: tuple[str, ...]
    trace: str
    at_us: int
    ledger_at_us: int
    body_hashes: tuple[bytes, ...]
    body_lengths: tuple[int, ...]
    prev: str | None
    tenure: int | None
    once: str | None

    @property
    def session_id(self) -> str:
        """Of the provenance."""
        return self.provenance[4]


_Provenance = tuple[str, str, str, str, str, int, int, str, str]
_TEXT = (1, 2, 3, 4, 5, 6, 9)
_PROVENANCE_TYPES = (str, str, str, str, str, int, int, str, str)


def encode_entry(entry: StoredEntry) -> bytes:
    """The stored bytes. Raises ValueError or OverflowError for a value that MessagePack cannot hold."""
    return pack(entry)


def decode_entry(data: bytes) -> StoredEntry:
    """The entry behind the bytes. Raises ValueError, naming the first field that is not what an entry has there."""
    fields = unpack(data)
    if not isinstance(fields, list) or len(fields) != len(StoredEntry._fields) or fields[0] != SCHEMA_VERSION:
        raise ValueError("not an entry of schema version 1")
    for number in _TEXT:
        _demand(type(fields[number]) is str, StoredEntry._fields[number])
    provenance, parents, hashes, lengths = fields[7], fields[8], fields[12], fields[13]
    _demand(_has_types(provenance, _PROVENANCE_TYPES), "provenance")
    _demand(_all_of(parents, str), "parents")
    _demand(_is_count(fields[10]) and _is_count(fields[11]), "times")
    _demand(_all_of(hashes, bytes) and all(len(value) == HASH_BYTES for value in hashes), "body_hashes")
    _demand(_all_of(lengths, int) and len(lengths) == len(hashes), "body_lengths")
    _demand(fields[14] is None or type(fields[14]) is str, "prev")
    _demand(fields[15] is None or _is_count(fields[15]), "tenure")
    _demand(fields[16] is None or type(fields[16]) is str, "once")
    for number in (7, 8, 12, 13):
        fields[number] = tuple(fields[number])
    return StoredEntry(*fields)


def to_message(sequence: int, entry: StoredEntry, chain: bytes, bodies: Sequence[bytes | None]) -> Entry:
    """The entry as readers get it; its fields were checked when they were decoded."""
    return Entry.model_construct(
        sequence=sequence,
        submission_id=entry.submission_id,
        origin=entry.origin,
        stream=entry.stream,
        event_type=entry.event_type,
        decision=entry.decision,
        reason=entry.reason,
        provenance=_provenance(entry.provenance),
        parents=list(entry.parents),
        trace=entry.trace,
        at_us=entry.at_us,
        ledger_at_us=entry.ledger_at_us,
        body_hashes=list(entry.body_hashes),
        body_lengths=list(entry.body_lengths),
        prev=entry.prev,
        tenure=entry.tenure,
        once=entry.once,
        chain=chain,
        bodies=list(bodies),
    )


def provenance_fields(provenance: Provenance) -> _Provenance:
    """Provenance in stored order."""
    return (
        provenance.agent_id, provenance.agent_class, provenance.framework_id, provenance.package_id,
        provenance.session_id, provenance.run_seq, provenance.round_seq, provenance.work_order_id, provenance.tier,
    )  # fmt: skip


def _provenance(fields: _Provenance) -> Provenance:
    return Provenance.model_construct(
        agent_id=fields[0],
        agent_class=fields[1],
        framework_id=fields[2],
        package_id=fields[3],
        session_id=fields[4],
        run_seq=fields[5],
        round_seq=fields[6],
        work_order_id=fields[7],
        tier=fields[8],
    )


def _demand(holds: bool, field: str) -> None:
    if not holds:
        raise ValueError(f"the entry's {field} is not well formed")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= INTEGER_MAX


def _all_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(type(item) is kind for item in value)


def _has_types(value: Any, kinds: tuple[type, ...]) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(kinds)
        and all(type(item) is kind for item, kind in zip(value, kinds, strict=True))
    )
