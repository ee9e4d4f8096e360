"""A simulated process: the tasks and ports of one incarnation, which all end at once when it is killed.

After a kill none of its callbacks runs and none of its tasks steps again: no `finally`, no `except`, as with SIGKILL.
While it is frozen nothing of it runs either, but all of it waits: what was due and what arrived meanwhile runs after
the thaw in the order in which it came, as with SIGSTOP and SIGCONT.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Callable
from typing import Any

CURRENT: contextvars.ContextVar[SimProcess | None] = contextvars.ContextVar("simulated_process", default=None)
"""Whose callback or task is running; inherited by everything that it starts."""

_CLOSE_ATTEMPTS = 16
"""A coroutine that awaits in its `finally` has to be closed once per such await."""


class SimProcess:
    """One incarnation of a process, to which everything that runs in `context` belongs."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        self.is_alive = True
        self.is_frozen = False
        self.steps = 0
        """How many of its callbacks ran: a task's next await, a timer."""
        self.dies_at: int | None = None
        self.on_death: Callable[[], None] | None = None
        """Called once behind step `dies_at`: what kills it there."""
        self.context = contextvars.copy_context()
        self.context.run(CURRENT.set, self)
        self._tasks: weakref.WeakValueDictionary[int, asyncio.Task[Any]] = weakref.WeakValueDictionary()
        self._dead: list[asyncio.Task[Any]] = []
        self._held: list[Callable[[], object]] = []

    def adopt(self, number: int, task: asyncio.Task[Any]) -> None:
        self._tasks[number] = task

    def end_behind_step(self) -> None:
        """Die now if the step behind which the process was to die has run."""
        if self.on_death is not None:
            self.on_death()

    def hold(self, step: Callable[[], object]) -> None:
        """Keep a step of the frozen process until the thaw."""
        self._held.append(step)

    def thaw(self) -> None:
        """Run again, beginning with the steps that waited; one of them may freeze the process anew."""
        self.is_frozen = False
        held, self._held = self._held, []
        for step in held:
            step()

    def kill(self) -> None:
        """Stop everything for ever; keep the tasks, since collecting one would run its `finally`."""
        self.is_alive = False
        self._held.clear()
        self._dead = [task for _, task in sorted(self._tasks.items()) if not task.done()]

    def bury(self) -> None:
        """Release the dead tasks silently at the end of the world, when their ports are dead as well."""
        for task in self._dead:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - asyncio's own switch
            coroutine = task.get_coro()
            for _ in range(_CLOSE_ATTEMPTS):
                try:
                    coroutine.close()
                except RuntimeError:  # it awaited once more in a `finally`
                    continue
                except Exception:  # noqa: BLE001, S112 - a dead process's `finally` failed: nobody hears it
                    continue
                break
        self._dead = []
