"""Who comes next where several want something: deficit round robin between principals, and each one's bounded share.

A *principal* is on whose behalf something is asked: a client's process, who has a key of the HTTP door, or a service
that asks for itself. The broker or the lane where a request enters stamps it (`bus/broker/peers.py`,
`bus/lane_server.py`), and what is caused by the request carries it on; the asker's own word counts for nothing.

The queue is the surplus form of deficit round robin: whoever has credit left is served and pays what its item costs,
into debt if it must; each turn gives a principal its weight. So whoever comes waits for at most one turn of every other
principal and the rest of what is being served; nothing is looked at twice but an item that costs more than one turn.
Pure: no clock, no loop. Source: M. Shreedhar, G. Varghese, "Efficient fair queuing
using deficit round robin", 1995.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

from msgspec import Struct, field

from hobus.bus import limits
from hobus.bus.catalog import CLIENT_ROLES

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
_PRINCIPALS_KEPT = 1024
"""Of the principals that asked last; each request names one."""
_CLIENT = "client/"
_KEY = "client/key/"
_HTTP = "http"  # numbered by its launcher; the other clients are named by their process


def get_principal(instance: str) -> str:
    """Return the principal of an incarnation that asks for itself: all connections of a client's process are one."""
    name = instance.partition("@")[0]
    role, _, number = name.partition("/")
    if role not in CLIENT_ROLES:
        return name
    return _CLIENT + (name if role == _HTTP else number.partition(".")[0])


def name_key_principal(key: str) -> str:
    """Return the principal of a key of the HTTP door; unchanged if it is one already."""
    return key if key.startswith(_KEY) else f"{_KEY}{key}"


def get_owner(principal: str) -> str:
    """Return the principal as records name it: `key/<name>`, `key/<name>/<user>`; others as they are."""
    return principal.removeprefix(_CLIENT) if principal.startswith(_KEY) else principal


@lru_cache(maxsize=_PRINCIPALS_KEPT)
def is_client(principal: str) -> bool:
    """Return whether the principal is a client's process or a key, and not a service."""
    return principal.startswith(_CLIENT)


def get_weight(principal: str) -> int:
    """Return how much one turn gives the principal."""
    return limits.CLIENT_WEIGHT if is_client(principal) else limits.SERVICE_WEIGHT


def compute_cost(size_bytes: int) -> int:
    """Return what a request with a body of this size costs, in turns of weight one."""
    return 1 + size_bytes // limits.FAIR_UNIT_BYTES


class _Backlog(Generic[K, T]):
    """What waits of one principal, in order."""

    __slots__ = ("credit", "items")

    def __init__(self) -> None:
        self.items: OrderedDict[K, tuple[T, int]] = OrderedDict()
        self.credit = 0


class FairQueue(Generic[K, T]):
    """Queue in order within each principal and in turns between them; any member leaves in constant time."""

    __slots__ = ("_flows", "_held", "_weight")

    def __init__(self, weight: Callable[[str], int]) -> None:
        self._flows: OrderedDict[str, _Backlog[K, T]] = OrderedDict()
        self._held: dict[str, _Backlog[K, T]] = {}  # of principals that have no turn at present
        self._weight = weight

    def add(self, principal: str, key: K, item: T, cost: int = 1) -> None:
        """Add last of its principal; a principal that comes anew stands last of all."""
        flow = self._flows.get(principal) or self._held.get(principal)
        if flow is None:
            flow = self._flows[principal] = _Backlog()
            flow.credit = self._weight(principal)
        flow.items[key] = (item, cost)

    def remove(self, principal: str, key: K) -> None:
        flows = self._flows if principal in self._flows else self._held
        items = flows[principal].items
        del items[key]
        if not items:
            del flows[principal]

    def hold(self, principal: str) -> None:
        """Give the principal no turn until it is released; what it adds waits."""
        flow = self._flows.pop(principal, None)
        if flow is not None:
            self._held[principal] = flow

    def release(self, principal: str) -> None:
        """Give the principal turns again, last of all."""
        flow = self._held.pop(principal, None)
        if flow is not None:
            self._flows[principal] = flow

    def take(self) -> tuple[str, T] | None:
        """Take out the next item with its principal; None if nobody has a turn."""
        principal = self.first()
        if principal is None:
            return None
        flow = self._flows[principal]
        _, (item, cost) = flow.items.popitem(last=False)
        flow.credit -= cost
        if not flow.items:
            del self._flows[principal]
        elif flow.credit <= 0:
            flow.credit += self._weight(principal)
            self._flows.move_to_end(principal)
        return principal, item

    def first(self) -> str | None:
        """Return whose turn it is; None if nobody has one."""
        while self._flows:
            principal, flow = next(iter(self._flows.items()))
            if flow.credit > 0:
                return principal
            flow.credit += self._weight(principal)
            self._flows.move_to_end(principal)
        return None

    @property
    def has_turn(self) -> bool:
        return bool(self._flows)

    def __iter__(self) -> Iterator[T]:
        for flow in (*self._flows.values(), *self._held.values()):
            for item, _ in flow.items.values():
                yield item

    def __bool__(self) -> bool:
        return bool(self._flows or self._held)


class Share(Struct):
    """What of one principal is open at a server, in number and bytes; the server asks before it takes more."""

    count: int = 0
    size_bytes: int = 0


class Shares(Struct):
    """Map principal to what of it is open; those with nothing open are not kept."""

    size_bytes: int = 0
    """Of all of them."""
    _open: dict[str, Share] = field(default_factory=dict[str, Share])

    def of(self, principal: str) -> Share:
        return self._open.get(principal) or Share()

    def take(self, principal: str, size_bytes: int) -> None:
        if principal not in self._open:
            self._open[principal] = Share()
        share = self._open[principal]
        share.count += 1
        share.size_bytes += size_bytes
        self.size_bytes += size_bytes

    def give_back(self, principal: str, size_bytes: int) -> None:
        share = self._open[principal]
        share.count -= 1
        share.size_bytes -= size_bytes
        self.size_bytes -= size_bytes
        if not share.count:
            del self._open[principal]

    def __len__(self) -> int:
        return len(self._open)

    def excess(self, share: str, size_bytes: int, *, least_bytes: float = math.inf) -> str:
        """Return why one more request of this size is too much for now; "" if it may come in.

        Whatever the others have open, whoever has nothing may ask for something of at most `least_bytes`.
        """
        held = self._open.get(share)
        if held is not None:
            if held.count >= limits.OPEN_MAX:
                return f"{held.count} requests of {share} are open, which is as many as one principal may have"
            if held.size_bytes + size_bytes > limits.CLIENT_OPEN_MAX_BYTES:
                return f"{held.size_bytes} bytes of {share} are open"
        is_least = held is None and size_bytes <= least_bytes
        if not is_least and self.size_bytes + size_bytes > limits.CLIENTS_OPEN_MAX_BYTES:
            return f"{self.size_bytes} bytes are open"
        return ""
