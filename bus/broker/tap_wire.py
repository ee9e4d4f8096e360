"""The tap's own protocol: batches of records, what a reader missed, the bounded ring behind `--since`; no socket.

Two topics. `LIVE`: batches of consecutive records; every new subscription is answered by an empty batch that says
where the sequence stands, so a reader knows that it is heard. A topic made by `ring_topic`: the subscription is the
question, its answer comes in pieces on that very topic, then the reader drops it. Source: spec page "The bus", Tap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bus.broker.tap_record import Tap, TapRecord, record_from, record_of
from bus.envelope import Kind
from bus.messages.base import pack, unpack

TAP_VERSION = 1
LIVE = b"t"
_RING = b"r"
_BEAT = int(Kind.BEAT)
_RING_PIECE = 64
"""Records per piece of a ring's answer: small enough that the broker's loop hardly notices."""


class TapBatch(NamedTuple):
    """What a reader gets at once. Losses come before the records."""

    epoch: str
    records: list[TapRecord]
    lost: int  # frames of this epoch that were tapped and did not reach this reader
    restarted: bool  # the broker is a new one; what the old one tapped last is unknown
    reaches_at: float | None  # with an answer from the ring: time of the oldest record that was kept, 0.0 if none


def live_batch(epoch: str, taps: Sequence[Tap], next_sequence: int) -> bytes:
    """Consecutive records; an empty batch only says which sequence number comes next."""
    first = taps[0].sequence if taps else next_sequence
    return pack(["live", TAP_VERSION, epoch, first, [list(record_of(tap, epoch)) for tap in taps]])


def ring_topic(nonce: str, since_s: float) -> bytes:
    """The subscription that asks for what was tapped in the last `since_s` seconds."""
    return _RING + f"{nonce}:{since_s}".encode()


def since_of(topic: bytes) -> float | None:
    """The seconds that a ring topic asks for; None for any other topic."""
    nonce, colon, seconds = topic[1:].partition(b":")
    if topic[:1] != _RING or not colon or not nonce:
        return None
    try:
        value = float(seconds)
    except ValueError:
        return None
    return value if value >= 0 else None


class Ring:
    """Recent frames, bounded in number and bytes. Beats are not kept: they would push everything else out."""

    def __init__(self, *, frames_max: int, bytes_max: int) -> None:
        self._frames_max = frames_max
        self._bytes_max = bytes_max
        self._taps: deque[Tap] = deque()
        self._bytes = 0

    def add(self, taps: Sequence[Tap]) -> None:
        """Keeps these; the oldest go."""
        for tap in taps:
            if tap.header.kind != _BEAT:
                self._taps.append(tap)
                self._bytes += len(tap.body)
        while self._taps and (len(self._taps) > self._frames_max or self._bytes > self._bytes_max):
            self._bytes -= len(self._taps.popleft().body)

    def answer(self, epoch: str, *, since: float, next_sequence: int) -> Iterator[bytes]:
        """Pieces of everything kept that was tapped at `since` or later (wall clock); the last one says so."""
        reaches_at = self._taps[0].at if self._taps else 0.0
        chosen = [tap for tap in self._taps if tap.at >= since]
        pieces = [chosen[start : start + _RING_PIECE] for start in range(0, len(chosen), _RING_PIECE)] or [[]]
        for number, piece in enumerate(pieces, start=1):
            records = [list(record_of(tap, epoch)) for tap in piece]
            yield pack(["ring", TAP_VERSION, epoch, reaches_at, next_sequence, number == len(pieces), records])

    def __len__(self) -> int:
        return len(self._taps)


class TapAssembler:
    """Turns payloads into batches and counts exactly what is missing between them."""

    def __init__(self, *, wants_ring: bool) -> None:
        self._wants_ring = wants_ring
        self._epoch = ""
        self._expected = 0  # sequence number that comes next
        self._kept: list[list[Any]] = []  # live payloads that arrived before the ring's answer was complete
        self._kept_records: list[TapRecord] = []

    @property
    def is_ring_done(self) -> bool:
        """Whether nothing more is expected from the ring."""
        return not self._wants_ring

    def feed(self, payload: bytes) -> list[TapBatch]:
        """The batches that are complete with this payload. Raises ValueError for anything that is not a tap's."""
        fields = unpack(payload)
        if not isinstance(fields, list) or len(fields) < 2 or fields[1] != TAP_VERSION:  # noqa: PLR2004 - name, version
            raise ValueError("not a tap payload of version 1")
        if fields[0] == "ring":
            return self._ring(fields) if self._wants_ring else []
        if self._wants_ring:
            self._kept.append(fields)
            return []
        return self._live(fields)

    def _ring(self, fields: list[Any]) -> list[TapBatch]:
        _, _, epoch, reaches_at, next_sequence, is_last, records = fields
        self._kept_records += [record_from(record) for record in records]
        if not is_last:
            return []
        self._wants_ring = False
        self._epoch, self._expected = epoch, next_sequence
        batches = [TapBatch(epoch, self._kept_records, 0, restarted=False, reaches_at=reaches_at)]
        kept, self._kept, self._kept_records = self._kept, [], []
        for earlier in kept:
            batches += self._live(earlier)
        return batches

    def _live(self, fields: list[Any]) -> list[TapBatch]:
        _, _, epoch, first, packed = fields
        restarted = bool(self._epoch) and epoch != self._epoch
        if not self._epoch or restarted:
            self._epoch, self._expected = epoch, first
        records = [record_from(record) for record in packed if record[1] >= self._expected]
        lost = max(0, first - self._expected)
        self._expected = max(self._expected, first + len(packed))
        if not records and not lost and not restarted:
            return []
        return [TapBatch(epoch, records, lost, restarted=restarted, reaches_at=None)]
