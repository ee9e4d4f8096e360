"""Whose run begins next, and whose step comes next on this loop, awaited. The rules: `intake.py`, `bus/fair.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from msgspec import Struct, field

from hobus.actors.ho2_supervisor.intake import RunIntake
from hobus.actors.ho2_supervisor.limits import ORDER_STALE_S
from hobus.bus.fair import FairQueue, weight_of


class StepQueue:
    """One step in each pass of the loop, in turns between principals; at once where nobody else wants one."""

    def __init__(self) -> None:
        self._waiting: FairQueue[int, asyncio.Future[None]] = FairQueue(weight_of)
        self._is_taken = False  # in this pass of the loop

    async def turn(self, principal: str) -> None:
        """Returns when the next step of this principal may run."""
        loop = asyncio.get_running_loop()
        if not self._is_taken:
            self._is_taken = True
            loop.call_soon(self._next)
            return
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.add(principal, id(waiter), waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            with suppress(KeyError):
                self._waiting.remove(principal, id(waiter))
            raise

    def _next(self) -> None:
        while (taken := self._waiting.take()) is not None:
            if not taken[1].done():
                taken[1].set_result(None)
                asyncio.get_running_loop().call_soon(self._next)
                return
        self._is_taken = False


class RunQueue:
    """The runs of one supervisor."""

    def __init__(self, *, wait_max_s: float) -> None:
        self._intake: RunIntake[int] = RunIntake(wait_max_s=wait_max_s, weight=weight_of)
        self.steps = StepQueue()
        self._tickets: dict[int, RunTicket] = {}  # of those that wait
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._intake)

    def ahead(self, principal: str) -> int:
        """How many of those that wait begin before this principal's last one."""
        return max(0, self._intake.ahead(principal) - 1)

    def require_room(self, principal: str) -> None:
        """Raises BusError(busy) for a run that would wait too long."""
        self._intake.require_room(principal, _now())

    def measure(self, way_s: float) -> None:
        """So long a step waited for its turn, and its order was on its way."""
        self._begin(self._intake.measure(way_s, _now()))

    def ticket(self, principal: str, *, has_waited: bool = False) -> RunTicket:
        """For a run that will want to begin; one that `has_waited` already, with its session, does not wait again."""
        ticket = RunTicket(self, principal)
        if has_waited:
            ticket.begins.set()
        return ticket

    @asynccontextmanager
    async def place(self, principal: str) -> AsyncGenerator[None]:
        """For work that is no run: it begins in its turn as a run does. Raises BusError(busy) as `require_room`."""
        self.require_room(principal)
        ticket = self.ticket(principal)
        try:
            await ticket.turn()
            yield
        finally:
            ticket.rest()

    def enter(self, ticket: RunTicket) -> bool:
        """Whether its run begins now; else its `begins` is set when it does."""
        if self._intake.enter(ticket.principal, id(ticket), _now()):
            return True
        self._tickets[id(ticket)] = ticket
        self._look_later()
        return False

    def goes_on(self, ticket: RunTicket) -> None:
        """Its run stood still, and is at work again."""
        self._intake.goes_on(id(ticket))

    def leave(self, ticket: RunTicket) -> None:
        """Its run is over, or stands still."""
        self._tickets.pop(id(ticket), None)
        self._begin(self._intake.leave(id(ticket), _now()))

    def _begin(self, keys: list[int]) -> None:
        for key in keys:
            self._tickets.pop(key).begins.set()

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ORDER_STALE_S, self._look)

    def _look(self) -> None:
        """What was measured may have grown old, and nobody tell."""
        self._timer = None
        self._begin(self._intake.look(_now()))
        if self._tickets:
            self._look_later()


class RunTicket(Struct, eq=False):
    """One run's place: it waits once, to begin; each further step waits for steps of others alone."""

    queue: RunQueue
    principal: str
    begins: asyncio.Event = field(default_factory=asyncio.Event)
    _waited_s: float = 0.0  # its last step, for its turn
    _is_asked: bool = False
    _is_at_work: bool = False

    @property
    def waits(self) -> bool:
        return self._is_asked and not self.begins.is_set()

    @property
    def place(self) -> int:
        """How many turns may begin before it."""
        return self.queue.ahead(self.principal)

    async def turn(self) -> None:
        """Returns when the run's next step may run."""
        if not self._is_asked:
            self._is_asked = self._is_at_work = True
            if self.begins.is_set():
                self.queue.goes_on(self)
            elif self.queue.enter(self):
                self.begins.set()
            else:
                await self.begins.wait()
        elif not self._is_at_work:
            self._is_at_work = True
            self.queue.goes_on(self)
        asked_at = _now()
        await self.queue.steps.turn(self.principal)
        self._waited_s = _now() - asked_at

    def order_took(self, way_s: float) -> None:
        """An order of the step has its receipt: so long it was on its way, without the time an executor had it."""
        self.queue.measure(self._waited_s + way_s)

    def rest(self) -> None:
        """The run is over, or stands still: others begin in its place."""
        if self._is_at_work:
            self._is_at_work = False
            self.queue.leave(self)


def _now() -> float:
    """The running loop's time: virtual in the simulation."""
    return asyncio.get_running_loop().time()
