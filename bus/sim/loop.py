"""An asyncio loop in virtual time: it begins at 0, waiting costs nothing, and nothing depends on addresses.

Virtual time starts at 0 and never at a large value: near 1.7e9 a float no longer resolves what the loop adds, and it
hangs. Tasks hash by creation number, because a TaskGroup cancels its tasks in the order of a set. Every callback runs
in a context; one that belongs to a killed process never runs (see `bus/sim/process.py`). Source: spec page "The bus",
section Simulation.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar, cast

from bus.sim.process import CURRENT

T = TypeVar("T")


class Deadlock(RuntimeError):
    """Nothing is scheduled and the awaited result is not there: it can never come."""


class SimTask(asyncio.Task[T]):
    """A task whose hash is its creation number, so that sets of tasks iterate alike in every run."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], *, loop: VirtualLoop, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


class _VirtualSelector(selectors.SelectSelector):
    """Nothing ever becomes ready from outside; waiting moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """No events; the clock stands `timeout` later."""
        if timeout is None:
            raise Deadlock("nothing is scheduled: the awaited result can never come")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Deterministic: same calls, same order, same times."""

    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        super().__init__(self._virtual)
        self._clock_resolution = 1e-6  # timers of one microsecond run together; rounding never leaves one behind
        self._tasks_created = 0
        self.set_task_factory(self._create)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual.now

    def advance(self, seconds: float) -> None:
        """Time passes while nothing runs: what work without an await costs."""
        self._virtual.now += seconds

    def _create(
        self,
        loop: asyncio.AbstractEventLoop,  # noqa: ARG002 - asyncio passes itself
        coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
        context: contextvars.Context | None = None,
    ) -> SimTask[T]:
        self._tasks_created += 1
        task = SimTask(
            cast("Coroutine[Any, Any, T]", coroutine), loop=self, number=self._tasks_created, context=context
        )
        process = (context or contextvars.copy_context()).get(CURRENT)
        if process is not None:
            process.adopt(self._tasks_created, task)
        return task

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's; a killed process's callback is passed over."""
        return super().call_soon(_guarded(callback, context), *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's; a killed process's callback is passed over."""
        return super().call_at(when, _guarded(callback, context), *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # noqa: ARG002 - asyncio's signature
        """Refused: a thread would bring real time into the simulation."""
        raise RuntimeError(f"no threads in the simulation ({getattr(func, '__qualname__', func)})")


def _guarded(callback: Callable[..., object], context: contextvars.Context | None) -> Callable[..., object]:
    process = context.get(CURRENT) if context is not None else CURRENT.get()
    if process is None:
        return callback

    def unless_killed(*args: Any) -> None:
        if process.is_alive:
            callback(*args)

    return unless_killed
