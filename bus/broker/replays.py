"""Answers from the tap's ring that are on their way: one after the other, within their share of the broker's time.

However many ask, and however often, routing keeps the rest of each second: a replay is slow then, and the cluster is
not. What of a share is unused is there for the next second, so that one reader alone is answered at once. In turns,
whoever asks and leaves again and again would take a piece's time from those who wait for a whole answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from hobus.bus.broker.ring import Ring


class Replays:
    """Answers by the topic that asks. `ms_per_s`: see `bus.tap_replay_ms`."""

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
