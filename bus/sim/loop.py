"""An asyncio loop in virtual time: it begins at 0, waiting costs nothing, and nothing depends on addresses.

Virtual time starts at 0 and never at a large value: near 1.7e9 a float no longer resolves what the loop adds, and it
hangs. Tasks hash by creation number, because a TaskGroup cancels its tasks in the order of a set. Every callback runs
in a context; one that belongs to a killed process never runs, one of a frozen process waits (see
`bus/sim/process.py`).
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from hobus.bus.sim.process import CURRENT, SimProcess

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
        """As asyncio's; a killed process's callback is passed over, a frozen one's waits."""
        guard = _guard(self, callback, context)
        if guard is None:
            return super().call_soon(callback, *args, context=context)
        guard.handle = super().call_soon(guard, *args, context=guard.context)
        return guard.handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's; a killed process's callback is passed over, a frozen one's waits."""
        guard = _guard(self, callback, context)
        if guard is None:
            return super().call_at(when, callback, *args, context=context)
        guard.handle = handle = super().call_at(when, guard, *args, context=guard.context)
        return handle

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # noqa: ARG002 - asyncio's signature
        """Refused: a thread would bring real time into the simulation."""
        raise RuntimeError(f"no threads in the simulation ({getattr(func, '__qualname__', func)})")


@dataclass(slots=True)
class _Guard:
    """A callback of a simulated process."""

    loop: VirtualLoop
    process: SimProcess
    callback: Callable[..., object]
    context: contextvars.Context
    handle: asyncio.Handle | None = None

    def __call__(self, *args: Any) -> None:
        if self.process.is_frozen:
            self.process.hold(lambda: self._again(args))
        elif self.process.is_alive:
            self.callback(*args)
            self.process.stepped()

    def _again(self, args: tuple[Any, ...]) -> None:
        """After the thaw it is due, unless it was cancelled meanwhile."""
        self.loop.call_soon(self._unless_cancelled, args, context=self.context)

    def _unless_cancelled(self, args: tuple[Any, ...]) -> None:
        if self.handle is None or not self.handle.cancelled():
            self.callback(*args)


def _guard(loop: VirtualLoop, callback: Callable[..., object], context: contextvars.Context | None) -> _Guard | None:
    """None for what belongs to no process."""
    process = context.get(CURRENT) if context is not None else CURRENT.get()
    if process is None:
        return None
    return _Guard(loop, process, callback, context if context is not None else contextvars.copy_context())
