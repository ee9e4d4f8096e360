"""When a new run may begin, and who is refused at once. Pure: times come in.

Runs wait for models and tools most of their lives, and waiting costs memory alone: while the cluster keeps up each new
run begins at once, however many there are. It does not keep up when orders are long on their way: from sending one to
its receipt, less the time that an executor had it, are milliseconds on a machine with processor time left, and any time
on one without. Then new runs wait, in fair turns between principals, and begin as others end. Whoever would wait too
long is told so before anything of the run is recorded: a burst may wait for `sessions.wait_max_ms`; a queue that has
stood for long is no burst but more than the cluster can do, and behind it one waits for seconds alone (`limits.py`).
Source: operations.md, Capacity; of standing queues K. Nichols, V. Jacobson, "Controlling Queue Delay" (2012).
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from typing import Generic, TypeVar

from hobus.actors.ho2_supervisor import limits
from hobus.bus.errors import BusError
from hobus.bus.fair import FairQueue

K = TypeVar("K", int, str)


class RunIntake(Generic[K]):
    """The runs of one supervisor: those that have begun, and those that wait to."""

    def __init__(self, *, wait_max_s: float, weight: Callable[[str], int]) -> None:
        self._wait_max_s = wait_max_s
        self._waiting: FairQueue[K, K] = FairQueue(weight)
        self._waiting_of: dict[K, str] = {}
        self._counts: dict[str, int] = {}  # of those that wait, by principal
        self._begun: set[K] = set()
        self._way_s = 0.0
        self._measured_at = float("-inf")
        self._stands_since = 0.0  # since when the queue was never empty
        self._let_in_at = 0.0
        self._let_in_lately = 0.0  # from the queue, each worth less with time
        self._owed = 0.0  # beginnings, for runs that have ended

    def __len__(self) -> int:
        return len(self._waiting_of)

    def is_slow(self, now: float) -> bool:
        return self._way_s > limits.ORDER_SLOW_S and not self._is_stale(now)

    def wait_s(self, principal: str, now: float) -> float:
        """How long a further run of this principal would wait, by what the queue did lately; 0: not known, or none."""
        since_s = now - self._stands_since
        if not self._waiting_of or since_s < limits.RATE_KNOWN_AFTER_S:
            return 0.0
        lately = self._let_in_lately * exp((self._let_in_at - now) / limits.RATE_WINDOW_S)
        rate = lately / (limits.RATE_WINDOW_S * (1 - exp(-since_s / limits.RATE_WINDOW_S)))
        return self.ahead(principal, more=1) / max(rate, limits.RATE_MIN)

    def ahead(self, principal: str, *, more: int = 0) -> int:
        """How many have begun once this principal's last one has, or so many more; in fair turns."""
        own = self._counts.get(principal, 0) + more
        return sum(min(count, own) for count in self._counts.values())

    def require_room(self, principal: str, now: float) -> None:
        """Raises BusError(busy) with the time after which to ask again, for a run that would wait too long."""
        if len(self._begun) + len(self._waiting_of) >= limits.RUNS_MAX:
            raise BusError("busy", f"{limits.RUNS_MAX} runs are at work or wait", retry_after_ms=limits.RETRY_MIN_MS)
        wait_s = self.wait_s(principal, now)
        is_standing = bool(self._waiting_of) and now - self._stands_since > limits.QUEUE_STANDING_S
        wait_max_s = min(self._wait_max_s, limits.QUEUE_STANDING_WAIT_MAX_S) if is_standing else self._wait_max_s
        if wait_s > wait_max_s:
            raise BusError(
                "busy",
                f"{len(self._waiting_of)} turns wait to begin; a further one would wait for {wait_s:.0f} s",
                retry_after_ms=max(limits.RETRY_MIN_MS, round((wait_s - wait_max_s) * 1000)),
            )

    def enter(self, principal: str, key: K, now: float) -> bool:
        """Whether this run begins now; else it waits until some call returns its key."""
        if not self._waiting_of and (len(self._begun) < limits.BEGUN_MIN or not self.is_slow(now)):
            self._begun.add(key)
            return True
        if not self._waiting_of:
            self._stands_since = self._let_in_at = now
            self._let_in_lately = self._owed = 0.0
        self._waiting.add(principal, key, key)
        self._waiting_of[key] = principal
        self._counts[principal] = self._counts.get(principal, 0) + 1
        return False

    def goes_on(self, key: K) -> None:
        """A run that stood still is at work again: it has begun, and waits for nobody."""
        self._begun.add(key)

    def leave(self, key: K, now: float) -> list[K]:
        """The run is over, stands still, or waits no longer; who begins now."""
        if (principal := self._waiting_of.pop(key, None)) is not None:
            self._waiting.remove(principal, key)
            self._uncount(principal)
            return []
        if key not in self._begun:
            return []
        self._begun.discard(key)
        # While orders take twice as long as they may, one begins for two that end.
        self._owed += 0.5 if self.is_slow(now) and self._way_s > 2 * limits.ORDER_SLOW_S else 1.0
        return self._let_in(now)

    def measure(self, way_s: float, now: float) -> list[K]:
        """A receipt came: how long the order was on its way; who begins now."""
        self._way_s += limits.GAIN * (max(0.0, way_s) - self._way_s)
        self._measured_at = now
        if self._waiting_of and not self.is_slow(now):
            self._owed += 1.0
        return self._let_in(now)

    def look(self, now: float) -> list[K]:
        """Asked now and then while somebody waits: who begins now."""
        return self._let_in(now)

    def _let_in(self, now: float) -> list[K]:
        """As many as are owed; all, once nothing says any more that the cluster is slow; those that always may."""
        found: list[K] = []
        if not self._waiting_of:
            self._owed = 0.0
            return found
        is_quiet = self._is_stale(now)
        while self._waiting_of and (self._owed >= 1.0 or is_quiet or len(self._begun) < limits.BEGUN_MIN):
            taken = self._waiting.take()
            assert taken is not None  # noqa: S101 - nobody is held
            principal, key = taken
            del self._waiting_of[key]
            self._uncount(principal)
            self._begun.add(key)
            self._owed = max(0.0, self._owed - 1.0)
            lately = self._let_in_lately * exp((self._let_in_at - now) / limits.RATE_WINDOW_S)
            self._let_in_lately, self._let_in_at = lately + 1.0, now
            found.append(key)
        return found

    def _is_stale(self, now: float) -> bool:
        return now - self._measured_at >= max(limits.ORDER_STALE_S, 2 * self._way_s)

    def _uncount(self, principal: str) -> None:
        self._counts[principal] -= 1
        if not self._counts[principal]:
            del self._counts[principal]
