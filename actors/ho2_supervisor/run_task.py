"""The task of one active run: who waits for its answer, where it stands still, and the timer of its deadline.

Several requesters get the same answer, and none of them ends the run by going away. Everybody who waits is woken by
every change and looks at what is true now; nothing here decides anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from hobus.actors.ho2_supervisor.limits import TURN_TOLD_S
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.run_queue import RunTicket
from hobus.actors.ho2_supervisor.session.state import Reduced
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.session import Lifecycle, TurnResult
from hobus.bus.record.session_facts import RunRequested
from hobus.bus.streaming import Draft

Standstill = Literal["Paused", "WaitingInput"]


@asynccontextmanager
async def tell_waiting(task: RunTask) -> AsyncGenerator[None]:
    """Tell whoever watches the run, once that takes a while, that it waits to begin, and when it begins."""
    ticket = task.ticket
    told = asyncio.get_running_loop().call_later(
        TURN_TOLD_S, lambda: ticket.has_begun or task.draft.wait("Turn", place=ticket.place)
    )
    try:
        yield
    finally:
        told.cancel()
        task.draft.wait(None)


def find_standstill(lifecycle: Lifecycle) -> Standstill | None:
    return lifecycle if lifecycle in ("Paused", "WaitingInput") else None


@dataclass(eq=False, repr=False)
class RunTask:
    """Hold an active run's task. `answer` is set exactly once; `standstill`: the recorded one, None while it works."""

    session: OwnedSession
    requested: RunRequested
    bodies: Sequence[bytes]
    """Which the request brings, for as long as it may not stand in the journal."""
    trace: str
    draft: Draft
    ticket: RunTicket
    """For its turn among the runs of all clients."""
    drive: Callable[[RunTask], Coroutine[Any, Any, None]]
    waited_for_by: list[str] = field(default_factory=list[str])
    """Clients who wait for the answer, and under whose lease the run goes on; "" for one without a name."""
    is_begun: bool = False
    """Its task has had its first step."""
    scope: asyncio.Timeout | None = None
    """Of the run's deadline, while it is inside."""
    beside: asyncio.Task[None] | None = None
    """What goes on beside the run, and may outlast its answer."""
    beside_until: float | None = None
    """By the loop's clock: whoever asks next waits for that no longer. None: its own time-out counts."""
    beside_scope: asyncio.Timeout | None = None
    """Of that moment, while it is inside."""
    _is_stopping: bool = False
    """Its task was cancelled because the run is being cancelled."""

    def __post_init__(self) -> None:
        self.standstill: Standstill | None = find_standstill(self.session.record.state.lifecycle)
        self.has_stood_still = self.standstill is not None
        self._change: asyncio.Event | None = None  # there while somebody waits for it
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[TurnResult] = loop.create_future()
        self.answer.add_done_callback(self._wake_waiting)
        self.task = loop.create_task(self.drive(self))

    @property
    def input_id(self) -> str:
        return self.requested.input_id

    async def change(self) -> None:
        """Wait for the next change."""
        self._change = self._change or asyncio.Event()
        await self._change.wait()

    def changed(self) -> None:
        if self._change is not None:
            self._change.set()
            self._change = None

    async def stand_still(self, standstill: Standstill) -> None:
        """Stand still until the next change: no deadline comes meanwhile, and nobody else is kept waiting."""
        self.due(None)
        self.ticket.works()
        self.has_stood_still = True
        if self.standstill != standstill:
            self.standstill = standstill
            self.changed()
        await self.change()

    def go_on(self, deadline: float) -> None:
        """Work again, until `deadline` on the loop's clock."""
        self.standstill = None
        self.due(deadline)
        self.changed()

    def due(self, deadline: float | None) -> None:
        """Set the run's deadline; None while it waits. An expired deadline stays expired."""
        if self.scope is not None and not self.scope.expired():
            self.scope.reschedule(deadline)

    def go_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work beside the run, which does not wait for it; the run is over when both are."""
        self.beside = asyncio.get_running_loop().create_task(work)

    def bound_work_beside(self, until: float) -> None:
        """Fail the work beside the run at `until`, unless it has ended; the earliest moment given counts."""
        if self.beside_until is None or until < self.beside_until:
            self.beside_until = until
            if self.beside_scope is not None and not self.beside_scope.expired():
                self.beside_scope.reschedule(until)

    def end_beside(self) -> None:
        """Give up the work beside this drive of the run; another drive begins it again."""
        if self.beside is not None:
            self.beside.cancel()
            self.beside = None

    def tell(self, result: TurnResult) -> None:
        """Give the answer to whoever waits."""
        if not self.answer.done():
            self.answer.set_result(result)

    def notice(self, outcome: Reduced | None) -> None:
        """Act on what an event did to the run: it is cancelled, goes on, or sees what was said when it looks."""
        if outcome is None or self.answer.done():
            return
        if self.is_begun and "run_stops" in outcome.effects:
            self._is_stopping = True  # a task that has not begun sees it for itself
            self.task.cancel()
        self.changed()

    def is_cancellation(self) -> bool:
        """Return whether the task was cancelled because its run is: then it goes on, and closes the run."""
        if not self._is_stopping:
            return False
        self._is_stopping = False
        self.task.uncancel()
        return True

    def stop(self, fault: RuntimeFault) -> None:
        """Stop driving the run, which somebody else does or did; tell whoever waits why."""
        self._is_stopping = False
        self.task.cancel()
        if not self.answer.done():
            self.answer.set_exception(fault)

    def _wake_waiting(self, answer: asyncio.Future[TurnResult]) -> None:
        """Wake everybody who waits. A failure may find nobody waiting; asyncio need not complain."""
        if not answer.cancelled():
            answer.exception()
        self.changed()
