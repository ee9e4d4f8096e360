"""The tap's own protocol: batches of records, what a reader missed, questions for the ring (`ring.py`); no socket.

Two topics carry what happens: `LIVE` without bodies, `BODIES` with them, for readers that ask for bodies and may. Both
carry batches of consecutive records; every new subscription is answered by an empty batch that says where the
sequence stands, so a reader knows that it is heard. A topic of `make_ring_topic`: the subscription is the question, its
answer comes in pieces on that very topic, then the reader drops it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from hobus.bus.broker.tap_record import Tap, TapRecord, record_from, record_of
from hobus.bus.messages.base import pack, unpack

TAP_VERSION = 2
LIVE, BODIES = b"t", b"b"
_RING, _RING_BODIES = b"r", b"R"


class TapBatch(NamedTuple):
    """What a reader gets at once: `records`, `lost` and `beats` are every number from `first` to before `next`.

    Losses come before the records.
    """

    epoch: str
    records: list[TapRecord]
    first: int
    next: int
    lost: int  # tapped, and did not reach this reader
    beats: int  # with an answer from the ring: beats, which it does not keep
    restarted: bool  # the broker is a new one; what the old one tapped last is unknown
    reaches_at: float | None  # with an answer from the ring: time of the oldest record that was kept, 0.0 if none


class RingQuestion(NamedTuple):
    """What a ring topic asks for."""

    since_s: float
    with_bodies: bool


def pack_live_batch(epoch: str, taps: Sequence[Tap], next_sequence: int, *, with_bodies: bool = False) -> bytes:
    """Pack consecutive records; an empty batch only says which sequence number comes next."""
    first = taps[0].sequence if taps else next_sequence
    return pack(["live", TAP_VERSION, epoch, first, _list_records(taps, epoch, with_bodies=with_bodies)])


def _list_records(taps: Sequence[Tap], epoch: str, *, with_bodies: bool) -> list[Any]:
    return [list(record_of(tap, epoch, with_body=with_bodies)) for tap in taps]


def make_ring_topic(nonce: str, since_s: float, *, with_bodies: bool = False) -> bytes:
    """Return the subscription that asks for what was tapped in the last `since_s` seconds."""
    return (_RING_BODIES if with_bodies else _RING) + f"{nonce}:{since_s}".encode()


def read_ring_topic(topic: bytes) -> RingQuestion | None:
    """Return what a ring topic asks for; None for any other topic."""
    nonce, colon, seconds = topic[1:].partition(b":")
    if topic[:1] not in (_RING, _RING_BODIES) or not colon or not nonce:
        return None
    try:
        value = float(seconds)
    except ValueError:
        return None
    return RingQuestion(value, topic[:1] == _RING_BODIES) if 0 <= value < math.inf else None


def pack_ring_piece(head: Sequence[Any], taps: Sequence[Tap], epoch: str, *, with_bodies: bool) -> bytes:
    """Pack one piece of a ring's answer."""
    return pack(["ring", TAP_VERSION, *head, _list_records(taps, epoch, with_bodies=with_bodies)])


class TapAssembler:
    """Turn payloads into batches and count exactly what is missing between them."""

    def __init__(self, *, wants_ring: bool) -> None:
        self._wants_ring = wants_ring
        self._epoch = ""
        self._expected = 0  # sequence number that comes next
        self._kept: list[list[Any]] = []  # live payloads that arrived before the ring's answer was complete
        self._kept_records: list[TapRecord] = []
        self._answer: tuple[Any, ...] = ()  # whose pieces these are

    @property
    def is_ring_done(self) -> bool:
        return not self._wants_ring

    def feed(self, payload: bytes) -> list[TapBatch]:
        """Return the batches that this payload completes. Raises ValueError for what is no tap's payload."""
        fields = unpack(payload)
        if not isinstance(fields, list) or len(fields) < 2 or fields[1] != TAP_VERSION:  # noqa: PLR2004 - name, version
            raise ValueError(f"not a tap payload of version {TAP_VERSION}")
        if fields[0] == "ring":
            return self._read_ring(fields) if self._wants_ring else []
        if self._wants_ring:
            self._kept.append(fields)
            return []
        return self._read_live(fields)

    def head(self, payload: bytes) -> list[TapBatch]:
        """Read a ring's answer that was asked only how far the broker is: nothing more comes up to there.

        The ring answers behind what was sent before on the same connection. Raises ValueError.
        """
        fields = unpack(payload)
        if not isinstance(fields, list) or fields[:2] != ["ring", TAP_VERSION]:
            raise ValueError(f"not an answer of the ring, version {TAP_VERSION}")
        return self._read_live(["live", TAP_VERSION, fields[2], fields[5], []])

    def _read_ring(self, fields: list[Any]) -> list[TapBatch]:
        _, _, epoch, reaches_at, first, next_sequence, count, is_last, records = fields
        answer, kept = (epoch, first, next_sequence), self._kept_records
        if answer != self._answer or (kept and records and records[0][1] <= kept[-1].sequence):
            self._kept_records = []  # asked once more, after a restart of the broker or of the connection
        self._answer, self._epoch = answer, epoch
        self._kept_records += [record_from(record) for record in records]
        if not is_last:
            return []
        self._wants_ring = False
        self._expected = next_sequence
        lost = count - len(self._kept_records)
        beats = next_sequence - first - count
        batches = [
            TapBatch(
                epoch, self._kept_records, first, next_sequence, lost, beats, restarted=False, reaches_at=reaches_at
            )
        ]
        kept, self._kept, self._kept_records = self._kept, [], []
        for earlier in kept:
            if earlier[2] == epoch:  # an older broker's are of the time before this answer
                batches += self._read_live(earlier)
        return batches

    def _read_live(self, fields: list[Any]) -> list[TapBatch]:
        _, _, epoch, first, packed = fields
        restarted = bool(self._epoch) and epoch != self._epoch
        if restarted:
            self._expected = 1  # what the new one tapped before this reader was back is lost, and countable
        elif not self._epoch:
            self._expected = first
        self._epoch = epoch
        began = self._expected
        records = [record_from(record) for record in packed if record[1] >= began]
        lost = max(0, first - began)
        self._expected = max(began, first + len(packed))
        if not records and not lost and not restarted:
            return []
        return [TapBatch(epoch, records, began, self._expected, lost, beats=0, restarted=restarted, reaches_at=None)]
