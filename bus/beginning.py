"""Whose handler begins next: in fair turns (`bus/fair.py`); the first one in a turn of the loop begins at once.

A service's that only promises its reply (`bus/promise.py`) begins at once as well, unless others wait.

What one client has sent in a burst does not stand before what others sent meanwhile: of clients' requests one begins in
each turn of the loop, behind those of services whose turn comes before it. Whoever has much to read yet has no turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from hobus.bus import limits
from hobus.bus.catalog import Row
from hobus.bus.fair import FairQueue, compute_cost, get_weight, is_client
from hobus.bus.window import RequestKey


class Begins(Protocol):
    """A request whose handler is to run."""

    key: RequestKey
    row: Row
    promises: bool
    principal: str
    size_bytes: int
    is_queued: bool


T = TypeVar("T", bound=Begins)


@dataclass(slots=True)
class Beginnings(Generic[T]):
    """The requests of one inbox that may begin."""

    run: Callable[[T], None]
    is_behind: Callable[[str], bool] = lambda _principal: False
    """Whether this principal has so much to read yet that nothing more of it begins."""
    loop: asyncio.AbstractEventLoop = field(init=False)
    _next: FairQueue[RequestKey, T] = field(init=False)
    _held: set[str] = field(default_factory=set[str])  # principals that have no turn until they have read
    _is_beginning: bool = False  # others follow in the next turn of the loop
    _goes_on: bool = True  # behind the last of them another one may begin in the same turn

    def __post_init__(self) -> None:
        self._next = FairQueue(get_weight)

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the loop before the first request comes: asking for the running one is a system call (Python 3.11)."""
        self.loop = loop

    def begin(self, one: T) -> None:
        """Run the request's handler now, or once those before it have begun."""
        is_first = not self._is_beginning
        if is_first and (not one.promises or is_client(one.principal)):
            self._is_beginning = True
            self.loop.call_soon(self._begin_more)
        if is_first and not self._holds(one.principal):
            self._start(one)
            return
        one.is_queued = True
        self._next.add(one.principal, one.key, one, compute_cost(one.size_bytes))
        if one.principal in self._held:
            self._next.hold(one.principal)

    def forget(self, one: T) -> None:
        """Drop a queued request, which does not begin any more."""
        one.is_queued = False
        self._next.remove(one.principal, one.key)

    def _start(self, one: T) -> None:
        self.run(one)
        self._goes_on = not is_client(one.principal) and not one.row.reads

    def _begin_more(self) -> None:
        """Begin, in each turn of the loop, one client's request and those of services that come before it."""
        goes_on = self._next.has_turn
        for _ in range(limits.BATCH_MAX):
            while (principal := self._next.first()) is not None and self._holds(principal):
                pass
            if (taken := self._next.take()) is None:
                break
            _, one = taken
            one.is_queued = False
            self._start(one)
            if not self._goes_on:
                break
        self._is_beginning = goes_on or self._next.has_turn
        if self._is_beginning:
            self.loop.call_soon(self._begin_more)

    def _holds(self, principal: str) -> bool:
        """Return whether a principal has too much to read; if so give it no turn, and look again after a pause."""
        if principal not in self._held and self.is_behind(principal):
            self._held.add(principal)
            self._next.hold(principal)
            if len(self._held) == 1:
                self._look_later()
        return principal in self._held

    def _look_later(self) -> None:
        self.loop.call_later(limits.BUSY_RETRY_MS / 1000, self._release)

    def _release(self) -> None:
        """Give turns again to principals that have read enough."""
        for principal in [one for one in self._held if not self.is_behind(one)]:
            self._held.discard(principal)
            self._next.release(principal)
        if self._held:
            self._look_later()
        if self._next.has_turn and not self._is_beginning:
            self._is_beginning = True
            self._begin_more()
