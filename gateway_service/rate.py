"""A token bucket as plain values: what a call takes of it, and how long it waits for that. No clock, no I/O.

Who comes takes its share at once and waits until it is there: so they go on in the order in which they came. A call
that is larger than the bucket waits until that is full, and its excess is paid by those behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Bucket:
    """`level` at the moment `at`: negative while calls wait for what they took."""

    level: float
    at: float
    per_s: float
    burst: float

    def refilled(self, now: float) -> Bucket:
        """The same later; never more than its burst."""
        level = self.level + max(0.0, now - self.at) * self.per_s
        return replace(self, level=min(self.burst, level), at=max(self.at, now))

    def wait_s(self, cost: float, now: float) -> float:
        """How long a call of this cost would wait now."""
        lacking = min(cost, self.burst) - self.refilled(now).level
        return max(0.0, lacking / self.per_s)

    def taken(self, cost: float, now: float) -> Bucket:
        """After a call of this cost; a negative one gives back."""
        bucket = self.refilled(now)
        return replace(bucket, level=min(self.burst, bucket.level - cost))
