"""The runs that wait to begin, and who is refused at once. Pure: times come in.

Whoever would wait too long is told so before anything of the run is recorded: a burst may wait for
`sessions.wait_max_ms`; a queue that has stood for long is no burst but more than the cluster can do, and behind it one
waits for seconds alone (`limits.py`), also where it was empty for a moment, as whoever was refused comes again.
Source: operations.md, Capacity; of standing queues K. Nichols, V. Jacobson, "Controlling Queue Delay" (2012).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from math import exp, inf
from typing import Generic, TypeVar

from hobus.actors.ho2_supervisor import limits
from hobus.bus.errors import BusError
from hobus.bus.fair import FairQueue

K = TypeVar("K", bound=Hashable)


class AdmissionQueue(Generic[K]):
    """In turns between principals; how fast they begin says how long a further one would wait."""

    def __init__(self, *, wait_max_s: float, weight: Callable[[str], int]) -> None:
        self._wait_max_s = wait_max_s
        self._waiting: FairQueue[K, K] = FairQueue(weight)
        self._counts: Counter[str] = Counter()  # of those that wait, by principal
        self._count = 0  # of all of them
        self._stands_since = 0.0  # since when the queue was never empty, or not for long after a refusal
        self._refused_at = -inf
        self._let_in_at = 0.0
        self._let_in_lately = 0.0  # each worth less with time

    def __len__(self) -> int:
        return self._count

    def add(self, principal: str, key: K, now: float) -> None:
        if not self._waiting and now - self._refused_at > limits.QUEUE_STANDING_S:
            self._stands_since = self._let_in_at = now
            self._let_in_lately = 0.0
        self._waiting.add(principal, key, key)
        self._counts[principal] += 1
        self._count += 1

    def remove(self, principal: str, key: K) -> None:
        """Take a waiting entry out."""
        self._waiting.remove(principal, key)
        self._uncount(principal)

    def take(self, now: float) -> K:
        """Who begins next; somebody waits."""
        taken = self._waiting.take()
        assert taken is not None  # noqa: S101 - nobody is held
        principal, key = taken
        self._uncount(principal)
        self._let_in_lately = self._count_lately(now) + 1.0
        self._let_in_at = now
        return key

    def ahead(self, principal: str, *, more: int = 0) -> int:
        """How many have begun once this principal's last one has, or so many more; in fair turns."""
        own = self._counts[principal] + more
        return sum(min(count, own) for count in self._counts.values())

    def wait_s(self, principal: str, now: float) -> float:
        """How long a further run of this principal would wait, by what the queue did lately; 0: not known, or none."""
        since_s = now - self._stands_since
        if not self._waiting or since_s < limits.RATE_KNOWN_AFTER_S:
            return 0.0
        rate = self._count_lately(now) / (limits.RATE_WINDOW_S * (1 - exp(-since_s / limits.RATE_WINDOW_S)))
        return self.ahead(principal, more=1) / max(rate, limits.RATE_MIN)

    def require_room(self, principal: str, now: float) -> None:
        """Raise BusError(busy) with the time after which to ask again, for a run that would wait too long."""
        wait_s = self.wait_s(principal, now)
        is_standing = bool(self._waiting) and now - self._stands_since > limits.QUEUE_STANDING_S
        wait_max_s = min(self._wait_max_s, limits.QUEUE_STANDING_WAIT_MAX_S) if is_standing else self._wait_max_s
        if wait_s > wait_max_s:
            self._refused_at = now
            raise BusError(
                "busy",
                f"{len(self)} turns wait to begin; a further one would wait for {wait_s:.0f} s",
                retry_after_ms=max(limits.RETRY_MIN_MS, round((wait_s - wait_max_s) * 1000)),
            )

    def _count_lately(self, now: float) -> float:
        return self._let_in_lately * exp((self._let_in_at - now) / limits.RATE_WINDOW_S)

    def _uncount(self, principal: str) -> None:
        self._counts[principal] -= 1
        self._count -= 1
        if not self._counts[principal]:
            del self._counts[principal]
