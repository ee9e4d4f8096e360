"""The bounded ring of recent frames behind `--since`, and its answers.

An answer is made piece by piece while it is sent. Nothing is held for it: a frame that has left the ring before its
piece's turn has come is missing from it, and its reader knows how many did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from hobus.bus.broker.tap_record import Tap
from hobus.bus.broker.tap_wire import pack_ring_piece
from hobus.bus.envelope import Kind

_BEAT = int(Kind.BEAT)
_PIECE_FRAMES = 64
_PIECE_BYTES = 262_144
"""A piece of an answer holds at most so many frames, and ends with the one that reaches so many bytes of bodies: small
enough that the broker's loop hardly notices."""


class Ring:
    """Keep recent frames, bounded in number and bytes; beats, which would push everything else out, are not kept."""

    def __init__(self, *, frames_max: int, bytes_max: int) -> None:
        self._frames_max = frames_max
        self._bytes_max = bytes_max
        self._taps: deque[Tap] = deque()
        self._bytes = 0
        self._oldest = 0  # frames that have left: the place of the oldest one that is kept

    def add(self, taps: Sequence[Tap]) -> None:
        """Keep these frames; drop the oldest."""
        kept, size, gone = self._taps, self._bytes, 0
        for tap in taps:
            if tap.header.kind != _BEAT:
                kept.append(tap)
                size += len(tap.body)
        while kept and (len(kept) > self._frames_max or size > self._bytes_max):
            size -= len(kept.popleft().body)
            gone += 1
        self._bytes = size
        self._oldest += gone

    def answer(self, epoch: str, *, since: float, next_sequence: int, with_bodies: bool = False) -> Iterator[bytes]:
        """Yield, in pieces, every frame tapped between `since` (wall clock) and now; the last piece says so.

        Each piece names the first number of the answer and its number of records, so that losses are known exactly;
        other missing numbers are beats.
        """
        return self._cut_pieces(epoch, since, self._oldest + len(self._taps), next_sequence, with_bodies=with_bodies)

    def _cut_pieces(
        self, epoch: str, since: float, end: int, next_sequence: int, *, with_bodies: bool
    ) -> Iterator[bytes]:
        older = next((count for count, tap in enumerate(self._taps) if tap.at >= since), len(self._taps))
        place = min(self._oldest + older, end)
        first = self._taps[place - self._oldest].sequence if place < end else next_sequence
        head = [epoch, self._taps[0].at if self._taps else 0.0, first, next_sequence, end - place]
        while True:
            place = max(place, min(self._oldest, end))
            taps, size = list[Tap](), 0
            while place < end and len(taps) < _PIECE_FRAMES and size < _PIECE_BYTES:
                taps.append(self._taps[place - self._oldest])
                size += len(taps[-1].body)
                place += 1
            yield pack_ring_piece([*head, place == end], taps, epoch, with_bodies=with_bodies)
            if place == end:
                return

    def __len__(self) -> int:
        return len(self._taps)
