"""An outcome that comes once, and who waits for it: told at once, with no task, no future and no turn of the loop.

acks: Promise[list[Ack]] = Promise()
acks.then(step)  # called with the outcome, now or later: a value, or the fault in its place
await acks  # the value, or raises that fault; who stops waiting leaves it to the others

For what every turn does many times: writes, their acks, handlers that need no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Generic, TypeVar

from hobus.bus.errors import RuntimeFault

T = TypeVar("T")


class Promise(Generic[T]):
    """One outcome, never None; nobody need look at it."""

    __slots__ = ("_outcome", "_steps")

    def __init__(self) -> None:
        self._outcome: T | RuntimeFault | None = None
        self._steps: list[Callable[[T | RuntimeFault], object]] = []

    def settle(self, outcome: T | RuntimeFault) -> None:
        """Tell everybody, in the order in which they came; a second outcome is none."""
        if self._outcome is not None:
            return
        self._outcome = outcome
        steps, self._steps = self._steps, []
        for step in steps:
            step(outcome)

    def then(self, step: Callable[[T | RuntimeFault], object]) -> None:
        """Call `step` once with the outcome: at once if it is known."""
        if self._outcome is None:
            self._steps.append(step)
        else:
            step(self._outcome)

    def done(self) -> bool:
        return self._outcome is not None

    def exception(self) -> RuntimeFault | None:
        """Return the fault, if the outcome is one."""
        return self._outcome if isinstance(self._outcome, RuntimeFault) else None

    def result(self) -> T:
        """Return the value. Raises the fault, or InvalidStateError before there is either."""
        outcome = self._outcome
        if outcome is None:
            raise asyncio.InvalidStateError("nothing is known yet")
        if isinstance(outcome, RuntimeFault):
            raise outcome
        return outcome

    def __await__(self) -> Generator[object, None, T]:
        if self._outcome is None:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._steps.append(partial(_wake, waiting))
            yield from waiting
        return self.result()


def _wake(waiting: asyncio.Future[None], _outcome: object) -> None:
    if not waiting.done():
        waiting.set_result(None)
