"""What every request of a door shares: the bus, the configuration, the keys, what is counted. No request in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from hobus.bus.errors import RuntimeFault
from hobus.bus.fair import FairQueue, name_key_principal
from hobus.bus.port import Bus
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot
from hobus.launch.http.events import FollowedJournals
from hobus.launch.http.keys import HttpKey, Ownership
from hobus.launch.http.limits import KEY_SHARE, REFUSED_FOR_S
from hobus.launch.http.metrics import Metrics
from hobus.launch.http.problems import Problem, make_door_closing

_log = structlog.get_logger("http")


class Turnstile:
    """Lets one request on in each turn of the loop, in turns between persons: a crowd of one stands before nobody."""

    def __init__(self) -> None:
        self._waiting: FairQueue[object, asyncio.Future[None]] = FairQueue(lambda _person: 1)
        self._is_taken = False
        """One went on in this turn of the loop."""

    async def wait(self, person: str) -> None:
        """Return when a request of this person is next."""
        loop = asyncio.get_running_loop()
        if not self._is_taken:
            self._is_taken = True
            loop.call_soon(self._let_on)
            return
        waiting = loop.create_future()
        self._waiting.add(person, waiting, waiting)
        await waiting

    def _let_on(self) -> None:
        while (taken := self._waiting.take()) and taken[1].cancelled():
            pass
        self._is_taken = taken is not None
        if taken is not None:
            taken[1].set_result(None)
            asyncio.get_running_loop().call_soon(self._let_on)


@dataclass(slots=True)
class Door:
    """What all requests of one door share."""

    bus: Bus
    snapshot: Snapshot
    ownership: Ownership
    key_of: Callable[[str], HttpKey | None]
    """The key that an Authorization header shows."""
    hosts: frozenset[str]
    """Names by which it may be called, without a port; empty: by any."""
    metrics: Metrics
    journals: FollowedJournals
    body_timeout_ms: int
    """Until the whole of a request's body has come."""
    console: Callable[[], str] = str
    """`host:port` of the console that runs, of a loopback address; empty: none does."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    turnstile: Turnstile = field(default_factory=Turnstile)
    _open: Counter[str] = field(default_factory=Counter[str])
    """Requests under way, by their key's principal."""
    _busy_until: dict[str, float] = field(default_factory=dict[str, float])
    _waiting: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])
    """Who waits for a turn's answer."""
    _has_given_up: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    @property
    def config(self) -> AdminConfig:
        return self.snapshot.config

    @property
    def timeout_s(self) -> float:
        """Return how long the door waits for the cluster's own services."""
        return self.config.launcher.client_timeout_ms / 1000

    @property
    def turns_under_way(self) -> int:
        return len(self._waiting)

    @contextmanager
    def request_of(self, principal: str) -> Generator[None]:
        """Count a request of this key. Raises Problem(busy) where it would leave no connections to others."""
        if self._open[principal] >= KEY_SHARE * self.config.http.connections_max:
            raise Problem(
                429, "busy", "this key has as many requests under way as it may (http.connections_max)",
                headers={"retry-after": "1", "connection": "close"},
            )  # fmt: skip
        self._open[principal] += 1
        try:
            yield
        finally:
            self._open[principal] -= 1
            if not self._open[principal]:
                del self._open[principal]

    @asynccontextmanager
    async def beginning(self, key: HttpKey | None, person: str) -> AsyncGenerator[None]:
        """Let a request begin in its person's turn, on whose behalf it asks; at once where no key is needed."""
        if key is None:
            yield
            return
        with self.request_of(key.principal), self.bus.on_behalf_of(name_key_principal(person)):
            await self.turnstile.wait(person)
            yield

    def require_room(self, principal: str) -> None:
        """Raise Problem(busy) where this person was just refused a turn: the cluster is not asked."""
        if self._busy_until.get(principal, 0.0) > self.bus.clock.monotonic():
            raise Problem(
                429, "busy", "as many turns of this key are under way as can be answered in time; ask again later",
                headers={"retry-after": "1"},
            )  # fmt: skip

    def note_refusal(self, principal: str, problem: Problem) -> float:
        """Refuse here for a moment, at a fraction of the cost, what the cluster refused for want of room.

        Refusals of this door's own prolong nothing: after the moment the cluster is asked again. Return when, by the
        bus's clock; 0.0: this is no such refusal.
        """
        if problem.code != "busy":
            return 0.0
        if self._busy_until.get(principal, 0.0) <= (now := self.bus.clock.monotonic()):
            self._busy_until[principal] = now + REFUSED_FOR_S
        return self._busy_until[principal]

    @contextmanager
    def turn_under_way(self) -> Generator[None]:
        """Count a turn, waited for by this task. Raises Problem(door_closing) if the door gave up."""
        if self._has_given_up:
            raise make_door_closing()
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a handler runs in a task
        self._waiting.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task in self._waiting:
                raise
            task.uncancel()  # `give_up` did it
            raise make_door_closing() from None
        finally:
            self._waiting.discard(task)

    def run_aside(self, what: Coroutine[Any, Any, None]) -> None:
        """Run this beside its request, and on when that has ended; log its fault."""
        task = asyncio.get_running_loop().create_task(self._log_fault(what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def give_up(self) -> None:
        """Tell whoever waits for an answer, or comes, to ask elsewhere."""
        self._has_given_up = True
        while self._waiting:
            self._waiting.pop().cancel()

    async def close(self) -> None:
        """End streams, and wait for what goes on aside."""
        self.closing.set()
        self.journals.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _log_fault(self, what: Coroutine[Any, Any, None]) -> None:
        try:
            await what
        except RuntimeFault as fault:
            _log.warning("http_step_failed", code=fault.code, detail=fault.detail)
