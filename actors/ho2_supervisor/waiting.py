"""Where a run stands still: its own coroutine, those who asked for its answer, and the timer of its deadline.

Everybody who waits is woken by every change and looks at what is true now; nothing here decides anything.
Source: spec page "Session contracts", section Host commands (pause, approval).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from bus.messages.session import Lifecycle

Standstill = Literal["Paused", "WaitingInput"]


def standstill_of(lifecycle: Lifecycle) -> Standstill | None:
    """The state if a run waits in it."""
    return lifecycle if lifecycle in ("Paused", "WaitingInput") else None


@dataclass(slots=True, eq=False)
class Waiting:
    """`standstill` is what the record says of the run, durably; None: it is at work."""

    standstill: Standstill | None = None
    has_stood_still: bool = False
    on_standstill: Callable[[], None] = lambda: None
    scope: asyncio.Timeout | None = None  # of the run's deadline, while it is inside
    _waiters: list[asyncio.Future[None]] = field(default_factory=list["asyncio.Future[None]"])

    async def change(self) -> None:
        """Returns at the next change."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def changed(self) -> None:
        """Wakes everybody who waits now."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def stand_still(self, standstill: Standstill) -> None:
        """Until the next change; the deadline does not come meanwhile."""
        self.due(None)
        self.has_stood_still = True
        if self.standstill != standstill:
            self.standstill = standstill
            self.on_standstill()
            self.changed()
        await self.change()

    def go_on(self, deadline: float) -> None:
        """At work again, until this moment of the loop's clock."""
        self.standstill = None
        self.due(deadline)
        self.changed()

    def due(self, deadline: float | None) -> None:
        """The run's deadline is then; None: it has none while it waits. What has expired stays so."""
        if self.scope is not None and not self.scope.expired():
            self.scope.reschedule(deadline)
