"""How fast one principal goes on while others ask, too. Plain rules: time and units in, whose turn it is out.

Whoever is alone is not slowed down. While others are about (`Others`) each share has a token bucket, and what comes
faster waits here, in order. Two use it. Servers take in clients' requests so (`client_rate_of`): one costs its row's
`work`, and one more for each `bus.fair_unit_bytes` of its body and answer. It is not refused: that costs as much as a
small request, and whoever does not heed it asks again at once. A supervisor begins the steps of one client's runs
beside each other so (`bus/turnstile.py`): what came while that client was alone is begun by the time another one comes.
Token bucket: Turner, "New directions in communications" (1986).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, TypeVar

from hobus.bus.deadlines import Deadlines
from hobus.bus.envelope import Header
from hobus.bus.fair import Shares
from hobus.bus.settings import BusSettings

T = TypeVar("T")
Verdict = Literal["goes on", "waits", "full", "cut off"]

TOO_MUCH = "asked on, far beyond what may wait (bus.client_waiting_max, bus.client_dropped_max_bytes)"
"""Why a connection ends."""
_ROUNDING = 1e-9
"""Of credit: what a due time that was computed from it may be short of."""


class Rate(NamedTuple):
    """A token bucket, and a bound of what may wait."""

    per_s: float
    burst: float
    waiting_max: float  # of one share
    dropped_max_bytes: float = 0.0  # of bodies that had no room while others of their share waited


def client_rate_of(settings: BusSettings) -> Rate:
    """At which a server takes in a client's requests."""
    return Rate(
        settings.client_rate, settings.client_burst, settings.client_waiting_max, settings.client_dropped_max_bytes
    )


def may_wait_whole(sizes: Shares, share: str, size_bytes: int, settings: BusSettings) -> bool:
    """Whether a body of this size may wait; the request may in any case, and is `busy` when its turn comes."""
    return (
        sizes.of(share).size_bytes + size_bytes <= settings.client_open_max_bytes
        and sizes.size_bytes + size_bytes <= settings.clients_open_max_bytes
    )


@dataclass(slots=True)
class _Flow(Generic[T]):
    """One share's bucket, and what of it waits."""

    credit: float
    at: float
    principal: str
    waiting: OrderedDict[str, tuple[T, int]] = field(default_factory=OrderedDict[str, "tuple[T, int]"])
    overruns: int = 0
    dropped_bytes: int = 0


class Others:
    """Whether a principal is alone."""

    def __init__(self, contended_s: float, is_other_there: Callable[[str], bool]) -> None:
        """`is_other_there`: whether anybody but this principal has something open."""
        self._contended_s = contended_s
        self._is_other_there = is_other_there
        self._latest = ("", float("-inf"))
        self._before = ("", float("-inf"))  # the latest one of anybody else

    def heard(self, principal: str, now: float) -> None:
        """Something was asked on this one's behalf: from now on all others are not alone."""
        if principal != self._latest[0]:
            self._before = self._latest
        self._latest = (principal, now)

    def are_about(self, principal: str, now: float) -> bool:
        """Whether anybody else has asked lately, or waits for an answer."""
        other = self._before if self._latest[0] == principal else self._latest
        return now - other[1] < self._contended_s or self._is_other_there(principal)


class PacedIntake(Generic[T]):
    """What waits of each share, and when its next one goes on. A principal may have several shares."""

    def __init__(self, rate: Rate, *, shares_max: int, is_contended: Callable[[str, float], bool]) -> None:
        """`is_contended`: whether the rate holds for this principal now."""
        self._rate = rate
        self._is_contended = is_contended
        self._shares_max = shares_max
        self._flows: OrderedDict[str, _Flow[T]] = OrderedDict()
        self._due: Deadlines[str] = Deadlines()
        self.next_at = self._due.earliest
        """When to `take` again; None if nothing waits."""
        self.sizes = Shares()
        """Bytes of what waits, by share."""

    def __len__(self) -> int:
        return sum(len(flow.waiting) for flow in self._flows.values())

    def arrives(self, share: str, principal: str, now: float) -> bool:
        """Whether a request that comes now goes on at once; else it has to `wait`."""
        flow = self._flows.get(share)
        if flow is not None and flow.waiting:
            return False
        if not self._is_contended(principal, now):
            return True
        if flow is None:
            flow = self._opened(share, principal, now)
        self._refill(flow, now)
        return flow.credit >= -_ROUNDING

    def wait(self, share: str, key: str, item: T, size_bytes: int = 0, *, dropped_bytes: int = 0) -> Verdict:
        """Only after `arrives` has said no. `size_bytes` are kept of it; `dropped_bytes` came for which was no room.

        `waits`: it comes out by `take`; one of the same key gives it its place. `full`: to be refused. `cut off`: there
        was enough of that.
        """
        flow = self._flows[share]
        if not flow.waiting:
            flow.overruns = flow.dropped_bytes = 0
        flow.dropped_bytes += dropped_bytes
        if dropped_bytes and flow.dropped_bytes > self._rate.dropped_max_bytes:
            return "cut off"
        earlier = flow.waiting.get(key)
        if earlier is None and len(flow.waiting) >= self._rate.waiting_max:
            flow.overruns += 1
            return "cut off" if flow.overruns > self._rate.waiting_max else "full"
        if earlier is not None:
            self.sizes.give_back(share, earlier[1])
        elif not flow.waiting:
            self._set_due(share, flow)
        flow.waiting[key] = (item, size_bytes)
        self.sizes.take(share, size_bytes)
        return "waits"

    def charge(self, share: str, principal: str, units: int, now: float) -> None:
        """So much was done for it; nothing is written down while it is alone."""
        if not self._is_contended(principal, now):
            return
        flow = self._flows.get(share) or self._opened(share, principal, now)
        self._refill(flow, now)
        flow.credit -= units
        if flow.waiting:
            self._set_due(share, flow)

    def take(self, now: float) -> list[T]:
        """The next one of each share whose turn has come by now; the caller charges what it costs."""
        taken: list[T] = []
        for share in self._due.take_due(now):
            flow = self._flows[share]
            self._refill(flow, now)
            if flow.credit < -_ROUNDING and self._is_contended(flow.principal, now):
                self._set_due(share, flow)
                continue
            _, (item, size_bytes) = flow.waiting.popitem(last=False)
            self.sizes.give_back(share, size_bytes)
            if flow.waiting:
                self._due.set(share, now)
            taken.append(item)
        return taken

    def leave(self, share: str, key: str) -> T | None:
        """It waits no longer; None if it did not."""
        flow = self._flows.get(share)
        if flow is None or key not in flow.waiting:
            return None
        item, size_bytes = flow.waiting.pop(key)
        self.sizes.give_back(share, size_bytes)
        if not flow.waiting:
            self._due.forget(share)
        return item

    def first_of(self, share: str) -> T | None:
        """The one that has waited longest goes on now, at no cost; None if none waits."""
        flow = self._flows.get(share)
        return self.leave(share, next(iter(flow.waiting))) if flow is not None and flow.waiting else None

    def _opened(self, share: str, principal: str, now: float) -> _Flow[T]:
        while len(self._flows) >= self._shares_max:
            oldest = next(iter(self._flows))
            if self._flows[oldest].waiting:
                break
            del self._flows[oldest]
        flow = self._flows[share] = _Flow(self._rate.burst, now, principal)
        return flow

    def _refill(self, flow: _Flow[T], now: float) -> None:
        flow.credit = min(self._rate.burst, flow.credit + (now - flow.at) * self._rate.per_s)
        flow.at = now

    def _set_due(self, share: str, flow: _Flow[T]) -> None:
        self._due.set(share, flow.at + max(0.0, -flow.credit) / self._rate.per_s)


class WaitingAsk(NamedTuple, Generic[T]):
    """A client's request that waits until its rate allows it."""

    client: T
    share: str
    principal: str
    frame: Header
    header_bytes: int
    body: bytes | None  # None: there was no room for it
    units: int  # what it costs
    arrived_at: float


class ClientIntake(PacedIntake[WaitingAsk[T]]):
    """Clients' requests on their way in at a server; two connections of one process may ask under the same id."""

    def __init__(self, settings: BusSettings, is_contended: Callable[[str, float], bool]) -> None:
        super().__init__(client_rate_of(settings), shares_max=settings.mailbox_max, is_contended=is_contended)
        self._settings = settings

    def takes(  # noqa: PLR0913 - who asks what, and at which cost
        self, client: T, frame: Header, header_bytes: int, body: bytes, *, instance: str, principal: str, share: str,
        work: int, now: float,
    ) -> Verdict:  # fmt: skip
        """Whether this may come in now, and is charged; else what is to be done about it, as `wait` says."""
        units = work + len(body) // self._settings.fair_unit_bytes
        if self.arrives(share, principal, now):
            self.charge(share, principal, units, now)
            return "goes on"
        kept = body if may_wait_whole(self.sizes, share, len(body), self._settings) else None
        kept_bytes = 0 if kept is None else len(body)
        asked = WaitingAsk(client, share, principal, frame, header_bytes, kept, units, now)
        key = f"{instance} {frame.message_id}"
        return self.wait(share, key, asked, kept_bytes, dropped_bytes=len(body) - kept_bytes)

    def due(self, now: float) -> list[WaitingAsk[T]]:
        """Those whose turn has come, charged, each with the time that is left to it."""
        found: list[WaitingAsk[T]] = []
        for asked in self.take(now):
            self.charge(asked.share, asked.principal, asked.units, now)
            left_ms = max(0, asked.frame.deadline_ms - int((now - asked.arrived_at) * 1000))
            found.append(asked._replace(frame=asked.frame._replace(deadline_ms=left_ms)))
        return found

    def given_up(self, instance: str, message_id: str, *shares: str) -> WaitingAsk[T] | None:
        """The request that its client cancels; it waits no longer. None if it did not."""
        for share in shares:
            asked = self.leave(share, f"{instance} {message_id}")
            if asked is not None:
                return asked
        return None
