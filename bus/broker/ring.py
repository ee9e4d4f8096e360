"""The bounded ring of recent frames behind `--since`, and its answers: the same pieces for everybody who asks.

An answer is made piece by piece while it is sent. Pieces begin and end at the same frames whoever asks, so that each is
encoded and hashed once for all who ask at the same time. Nothing is held for an answer: a frame that has left the ring
before its piece's turn has come is missing from it, and its reader knows how many did.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence

from hobus.bus.broker.tap_record import Tap, record_of
from hobus.bus.broker.tap_wire import ring_piece
from hobus.bus.envelope import Kind
from hobus.bus.messages.base import pack

_BEAT = int(Kind.BEAT)
_PIECE_FRAMES = 64
_PIECE_BYTES = 262_144
"""A piece of an answer holds at most so many frames, and ends with the one that reaches so many bytes of bodies: small
enough that the broker's loop hardly notices."""


class Ring:
    """Recent frames, bounded in number and bytes. Beats are not kept: they would push everything else out."""

    def __init__(self, *, frames_max: int, bytes_max: int) -> None:
        self._frames_max = frames_max
        self._bytes_max = bytes_max
        self._taps: deque[Tap] = deque()
        self._bytes = 0
        self._oldest = 0  # frames that have left: the place of the oldest one that is kept
        self._encoded: dict[tuple[int, bool], bytes] = {}

    def add(self, taps: Sequence[Tap]) -> None:
        """Keeps these; the oldest go."""
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
        """Pieces of everything that was tapped at `since` (wall clock) or later and up to now; the last one says so.

        Each names the first number of the answer and how many records it has in all: what of it is lost is known, and
        what else is missing between that number and the next one is beats.
        """
        return self._pieces(epoch, since, self._oldest + len(self._taps), next_sequence, with_bodies=with_bodies)

    def forget_encoded(self) -> None:
        """Nobody asks any more: what was encoded for those who did is given back."""
        self._encoded.clear()

    def _pieces(self, epoch: str, since: float, end: int, next_sequence: int, *, with_bodies: bool) -> Iterator[bytes]:
        older = next((count for count, tap in enumerate(self._taps) if tap.at >= since), len(self._taps))
        place = min(self._oldest + older, end)
        first = self._taps[place - self._oldest].sequence if place < end else next_sequence
        head = [epoch, self._taps[0].at if self._taps else 0.0, first, next_sequence, end - place]
        is_common = False
        while True:
            if place < self._oldest:
                place, is_common = min(self._oldest, end), False
            is_common = is_common or place % _PIECE_FRAMES == 0
            upto = self._upto(place, end)
            make = self._common if is_common and upto < end else self._made
            yield ring_piece([*head, upto == end], make(epoch, place, upto, with_bodies=with_bodies))
            if upto == end:
                return
            place = upto

    def _upto(self, place: int, end: int) -> int:
        """Where the piece that begins there is over."""
        end, size = min(end, place - place % _PIECE_FRAMES + _PIECE_FRAMES), 0
        while place < end and size < _PIECE_BYTES:
            size += len(self._taps[place - self._oldest].body)
            place += 1
        return place

    def _common(self, epoch: str, place: int, upto: int, *, with_bodies: bool) -> bytes:
        """A piece that others ask for as well."""
        known = self._encoded.get((place, with_bodies))
        if known is None:
            for gone in [key for key in self._encoded if key[0] < self._oldest]:
                del self._encoded[gone]
            known = self._encoded[place, with_bodies] = self._made(epoch, place, upto, with_bodies=with_bodies)
        return known

    def _made(self, epoch: str, place: int, upto: int, *, with_bodies: bool) -> bytes:
        taps = [self._taps[at - self._oldest] for at in range(place, upto)]
        return pack([list(record_of(tap, epoch, with_body=with_bodies)) for tap in taps])

    def __len__(self) -> int:
        return len(self._taps)


class Replays:
    """Answers that are on their way, by the topic that asks: one after the other, `ms_per_s` of the broker's time.

    However many ask, and however often, routing keeps the rest of each second (`limits.TAP_REPLAY_MS`). What of a share
    is unused is there for the next second, so that one reader alone is answered at once. In turns, whoever asks and
    leaves again and again would take a piece's time from those who wait for a whole answer.
    """

    def __init__(self, ring: Ring, *, ms_per_s: int, answers_max: int) -> None:
        self._ring = ring
        self._share = ms_per_s / 1000
        self._answers_max = answers_max
        self._answers: OrderedDict[bytes, Iterator[bytes]] = OrderedDict()
        self._repaid_at = 0.0  # when what was spent is made up for; at most a second ahead, or nothing is sent

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def next_at(self) -> float | None:
        """When the next piece may be sent (monotonic clock); None if nobody waits for one."""
        return self._repaid_at - 1.0 if self._answers else None

    def begin(self, topic: bytes, pieces: Iterator[bytes]) -> bool:
        """This answer is sent, from its beginning if it was under way; whether there is room for one more."""
        if len(self._answers) >= self._answers_max and topic not in self._answers:
            return False
        self._answers[topic] = pieces
        return True

    def drop(self, topic: bytes) -> None:
        """Nobody waits for this one any more, if somebody did."""
        if self._answers.pop(topic, None) is not None and not self._answers:
            self._ring.forget_encoded()

    def next_piece(self, now: float) -> tuple[bytes, bytes] | None:
        """Topic and piece of who has waited longest; None if it is not time, or nothing is left."""
        while self._answers and now >= self._repaid_at - 1.0:
            topic = next(iter(self._answers))
            piece = next(self._answers[topic], None)
            if piece is not None:
                return topic, piece
            self.drop(topic)
        return None

    def took(self, spent_s: float, now: float) -> None:
        """A piece has cost so much of the broker's time."""
        self._repaid_at = max(self._repaid_at, now) + spent_s / self._share
