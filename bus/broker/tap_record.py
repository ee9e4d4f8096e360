"""What the tap says about a frame: verdict, sequence number, header fields, size, hash, and perhaps its body.

The core emits `Tap`, a handful of references, so that an unwatched bus pays next to nothing; `record_of` makes the
flat `TapRecord` that readers get.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from msgspec import Struct

from hobus.bus.envelope import Header, Kind

VERDICTS = (
    "delivered",
    "queued",
    "denied",
    "malformed",
    "expired",
    "failed",
    "dead",
    "late",
    "cancelled",
    "control",
    "lost",
)
"""delivered: forwarded to `worker` (a request) or to `destination` (an answer). queued: waits. denied: against the
policy. malformed: not a frame of this protocol. expired: its deadline passed. failed: ended by the broker with `code`.
dead: given up (post without a taker, request without attempts left). late: an answer that nobody waits for any more.
cancelled: by its requester. control: between a peer and the broker. lost: not a frame: the broker lost the peer
`sender` (`code` says why)."""

BROKER, DIRECT = "broker", "direct"
"""Lanes: handled by the broker; on a service's own socket, as that service told it."""


class BodyFacts(NamedTuple):
    """Size and hash of a body that the broker never had."""

    size: int
    sha256: bytes


class Tap(Struct, frozen=True):
    """One tapped frame as the core hands it over."""

    sequence: int
    at: float  # wall clock
    verdict: str
    header: Header
    sender: str  # the stamped instance, "" for an unbound connection
    worker: str
    body: bytes
    code: str
    told: BodyFacts | None = None  # of a lane's frame


class TapRecord(NamedTuple):
    """One tapped frame as readers get it; positional on the wire, in this order."""

    epoch: str
    sequence: int
    at: float
    verdict: str
    code: str
    kind: str
    type: str
    message_id: str
    correlation_id: str
    causation_id: str
    sender: str
    destination: str
    worker: str
    key: str
    trace: str
    deadline_ms: int
    attempt: int
    size: int
    body_sha256: str
    sensitive: bool
    lane: str
    body: bytes | None


_KIND_NAMES: dict[int, str] = {int(kind): kind.name.lower() for kind in Kind}


def record_of(tap: Tap, epoch: str, *, with_body: bool = True) -> TapRecord:
    """Return the flat record; without its body where the reader may not see it (size and hash stay)."""
    header, told = tap.header, tap.told
    return TapRecord(
        epoch,
        tap.sequence,
        tap.at,
        tap.verdict,
        tap.code,
        _KIND_NAMES.get(header.kind, str(header.kind)),
        header.type,
        header.message_id,
        header.correlation_id,
        header.causation_id,
        tap.sender,
        header.destination,
        tap.worker,
        header.key,
        header.trace,
        header.deadline_ms,
        header.attempt,
        len(tap.body) if told is None else told.size,
        hashlib.sha256(tap.body).hexdigest() if told is None else told.sha256.hex(),
        header.sensitive,
        BROKER if told is None else DIRECT,
        tap.body if with_body and told is None else None,
    )


def record_from(fields: Any) -> TapRecord:
    """Return the record behind its positional form. Raises ValueError for anything else."""
    if not isinstance(fields, (list, tuple)) or len(fields) != len(TapRecord._fields):
        raise ValueError("not a tap record")
    return TapRecord._make(fields)
