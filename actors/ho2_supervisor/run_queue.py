"""Whose step comes next on this loop, and whose run begins. The rules: `intake.py`, `bus/fair.py`.

Runs wait for models and tools most of their lives, and waiting costs memory alone. Scarce are the time of this loop, of
which each pass has one step of a run, in turns between principals, and the ledger's. What has begun goes before what is
new: a run begins where no step waits, few entries do, and few others are between their beginning and their first order,
so that there is always something to do, and little more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress

from msgspec import Struct

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.intake import AdmissionQueue
from hobus.bus.fair import FairQueue, get_weight


class RunQueue:
    """The steps of one supervisor's runs."""

    def __init__(self, *, wait_max_s: float, unwritten: Callable[[], int]) -> None:
        self._new: AdmissionQueue[asyncio.Future[None]] = AdmissionQueue(wait_max_s=wait_max_s, weight=get_weight)
        self._steps: FairQueue[asyncio.Future[None], asyncio.Future[None]] = FairQueue(get_weight)
        self._unwritten = unwritten
        self._since_new = 0  # steps, while a run waits to begin
        self._is_taken = False  # in this pass of the loop
        self._owed = 0.0  # beginnings, for runs that have ended
        self.beginning = 0  # that have not come to their first order
        self._later: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many runs wait to begin."""
        return len(self._new)

    def ahead(self, principal: str) -> int:
        """Return how many waiting runs begin before this principal's last one."""
        return max(0, self._new.ahead(principal) - 1)

    def require_room(self, principal: str) -> None:
        """Raise BusError(busy) for a run that would wait too long."""
        self._new.require_room(principal, _read_loop_time())

    async def enter(self, principal: str, line: ExitStack) -> None:
        """Wait until what is new may begin; it counts as beginning until `line` ends. Raises BusError(busy)."""
        self.require_room(principal)
        await self.turn(principal, is_new=True)
        line.callback(self.begun)

    async def turn(self, principal: str, *, is_new: bool) -> None:
        """Wait until the next step of this principal may run, or its run begin."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if is_new:
            self._new.add(principal, waiter, _read_loop_time())
        else:
            self._steps.add(principal, waiter, waiter)
        self._look()
        try:
            await waiter
        except asyncio.CancelledError:
            with suppress(KeyError):  # it has had its turn
                (self._new if is_new else self._steps).remove(principal, waiter)
            raise
        self.beginning += is_new

    def begun(self) -> None:
        """Count what was beginning as at work, or given up."""
        self.beginning -= 1
        self._look()

    def ended(self) -> None:
        """Count a run as over."""
        self._owed = min(1.0, self._owed + limits.BEGUN_FOR_ENDED)
        self._look()

    def _look(self) -> None:
        if not self._is_taken:
            self._begin_next()

    def _begin_next(self) -> None:
        loop = asyncio.get_running_loop()
        while (waiter := self._take_next()) is not None:
            if not waiter.done():
                waiter.set_result(None)
                self._is_taken = True
                loop.call_soon(self._begin_next)
                return
        self._is_taken = False
        if self._new and self._later is None:
            self._later = loop.call_later(limits.LOOK_S, self._look_again)

    def _look_again(self) -> None:
        self._later = None
        self._look()

    def _take_next(self) -> asyncio.Future[None] | None:
        """Whose turn it is."""
        has_little = self._unwritten() <= limits.UNWRITTEN_MAX and self.beginning < limits.BEGINNING_MAX
        has_room = has_little or self._owed >= 1.0
        if self._new and has_room and (self._since_new >= limits.STEPS_BEFORE_NEW or not self._steps):
            self._since_new, self._owed = 0, 0.0
            return self._new.take(_read_loop_time())
        self._since_new += 1
        taken = self._steps.take()
        return taken and taken[1]


class RunTicket(Struct, eq=False):
    """One run's place: it waits once, to begin; each further step waits only for steps of others."""

    queue: RunQueue
    principal: str
    has_begun: bool = False
    is_beginning: bool = False

    @property
    def place(self) -> int:
        """Return how many turns may begin before this one."""
        return self.queue.ahead(self.principal)

    async def turn(self) -> None:
        """Wait until the run's next step may run."""
        is_new = not self.has_begun
        await self.queue.turn(self.principal, is_new=is_new)
        self.has_begun, self.is_beginning = True, is_new or self.is_beginning

    def works(self) -> None:
        """Note that the run has come to its first order, stands still, or is over; repeats change nothing."""
        if self.is_beginning:
            self.is_beginning = False
            self.queue.begun()


def _read_loop_time() -> float:
    """Return the running loop's time: virtual in the simulation."""
    return asyncio.get_running_loop().time()
