"""An asyncio loop in virtual time: it begins at 0, waiting costs nothing, and nothing depends on addresses.

Virtual time starts at 0 and never at a large value: near 1.7e9 a float no longer resolves what the loop adds, and it
hangs. Tasks hash by creation number, because a TaskGroup cancels its tasks in the order of a set. Every callback runs
in a context; one that belongs to a killed process never runs, one of a frozen process waits (see
`bus/sim/process.py`).

asyncio's own pass asks a selector, compares timers in Python and makes a handle for each call: a third of what a
simulated turn cost. Nothing becomes ready from outside here, so a pass of this loop is a heap and a queue.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar, cast

from msgspec import Struct

from hobus.bus.sim.process import CURRENT, SimProcess

T = TypeVar("T")


class Deadlock(RuntimeError):
    """Say that nothing is scheduled while a result is awaited, which can never come."""


class SimTask(asyncio.Task[T]):
    """A task that hashes by creation number, so that sets of tasks iterate alike in every run."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], *, loop: VirtualLoop, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


_TOGETHER_S = 1e-6
"""Timers of one microsecond run together; rounding never leaves one behind."""


_EMPTY = contextvars.Context()


def _do_nothing() -> None:
    """Do nothing, in place of a cancelled callback."""


class SimHandle(Struct, eq=False):
    """A scheduled callback: what asyncio calls a handle."""

    when_s: float
    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: contextvars.Context
    process: SimProcess | None  # None: nobody's, nothing stops it
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Cancel as asyncio does, and release the callback at once, however far its time is."""
        self.is_cancelled = True
        self.callback, self.args, self.context = _do_nothing, (), _EMPTY

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.when_s


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time: the same calls give the same order and the same times."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        """As `time()`."""
        self.soon: list[SimHandle] = []
        """What runs in the next pass, in order."""
        self._later: list[tuple[float, int, SimHandle]] = []
        self._timers_made = self._tasks_created = 0
        self._is_stopped = False
        self.set_task_factory(self._create)

    def time(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move virtual time forward while nothing runs: what work without an await costs."""
        self.now += seconds

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
        process = CURRENT.get() if context is None else context.get(CURRENT)
        if process is not None:
            process.adopt(self._tasks_created, task)
        return task

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        """Schedule as asyncio does; skip a killed process's callback, hold back a frozen one's."""
        context = contextvars.copy_context() if context is None else context
        step = SimHandle(self.now, callback, args, context, context.get(CURRENT))
        self.soon.append(step)
        return step

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        """Schedule as `call_soon` does, at this time; calls of one time run in the order in which they were made."""
        self._timers_made += 1
        context = contextvars.copy_context() if context is None else context
        step = SimHandle(when, callback, args, context, context.get(CURRENT))
        heapq.heappush(self._later, (when, self._timers_made, step))
        return step

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        """Schedule as `call_at` does, `delay` seconds from now."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def stop(self) -> None:
        """Stop the loop at the end of the current pass."""
        super().stop()
        self._is_stopped = True

    def _run_once(self) -> None:
        """Run passes until the loop is stopped; jump to the next timer when nothing else waits."""
        later = self._later
        while True:
            while later and later[0][2].is_cancelled:
                heapq.heappop(later)
            if not self.soon:
                if not later:
                    raise Deadlock("nothing is scheduled: the awaited result can never come")
                self.now = max(self.now, later[0][0])
            horizon = self.now + _TOGETHER_S
            while later and later[0][0] < horizon:
                self.soon.append(heapq.heappop(later)[2])
            steps, self.soon = self.soon, []
            self._run_all(steps)
            if self._is_stopped:
                self._is_stopped = False
                return

    def _run_all(self, steps: list[SimHandle]) -> None:
        """Call each step whose process lives; keep a frozen process's steps until the thaw."""
        for step in steps:
            process = step.process
            if step.is_cancelled or (process is not None and not process.is_alive):
                continue
            if process is not None and process.is_frozen:
                process.hold(partial(self._run_again, step))
                continue
            try:
                step.context.run(step.callback, *step.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as asyncio's handles: told, and the loop goes on
                said = {"message": f"exception in callback {step.callback!r}", "exception": error, "handle": step}
                self.call_exception_handler(said)
            if process is not None:
                process.steps += 1
                if process.steps == process.dies_at:
                    process.end_behind_step()

    def _run_again(self, step: SimHandle) -> None:
        self.soon.append(step)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # noqa: ARG002 - asyncio's signature
        """Refuse: a thread would bring real time into the simulation."""
        raise RuntimeError(f"no threads in the simulation ({getattr(func, '__qualname__', func)})")
