"""asyncio's own event loop, with two ways around a turn of it that would bring nothing.

A turn costs as much as a message: a system call that asks for news, and Python's own work around it.

- What a message leads to, the first step of its handler or the next one of whoever waited for this answer, may run at
  once instead of in the next turn (`promptly`). It is an ordinary task all the same: it has its context, it is the
  current task while it runs, it can be cancelled; Python 3.12 begins tasks so, too. Each of them has one such step:
  what that one schedules comes in its turn.
- A turn that has something to run asks for news only now and then (`PatientSelector`).

Where another loop runs (a command that asks something, a test) everything works as well, one turn later.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_PASSES = 3
"""Turns with something to run between two looks for news."""
Step = Callable[..., object]
HeldStep = tuple[asyncio.Handle, Step, tuple[Any, ...], contextvars.Context]
_CALL_SOON = "call_soon"


class CountingSelector(selectors.BaseSelector):
    """Counts the turns of its loop, each of which asks it once."""

    turns = 0


class PatientSelector(selectors.DefaultSelector, CountingSelector):
    """While there is something to run, asks for news in every fourth turn only; before it waits, always."""

    def __init__(self) -> None:
        super().__init__()
        self._passed = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; nothing where a turn is passed over."""
        self.turns += 1
        if timeout is not None and timeout <= 0 and self._passed < _PASSES:
            self._passed += 1
            return []
        self._passed = 0
        return super().select(timeout)


class PromptLoop(asyncio.SelectorEventLoop):
    """The loop of every process that serves."""

    def __init__(self, selector: CountingSelector | None = None) -> None:
        self.news = selector if selector is not None else PatientSelector()
        """Whom each turn asks for news, and who counts them."""
        self._steps: list[HeldStep] = []
        super().__init__(self.news)

    def promptly(self, act: Callable[..., object], *args: Any) -> None:
        """`act(*args)`, then at once, in order, what that has handed to `call_soon`.

        Within a task everything comes in its turn: no task runs inside of another one.
        """
        own = self.__dict__  # found there before the class's: asyncio's tasks and futures call what the loop has
        if _CALL_SOON in own or asyncio.current_task(self) is not None or not self.is_running():
            act(*args)
            return
        own[_CALL_SOON] = self._hold
        try:
            act(*args)
        finally:
            del own[_CALL_SOON]
            steps, self._steps = self._steps, []
            self._run_steps(steps)

    def _run_steps(self, steps: list[HeldStep]) -> None:
        for count, (handle, callback, args, context) in enumerate(steps, 1):
            try:
                if not handle.cancelled():
                    self._step(callback, args, context)
            except BaseException:  # it ends the process: the others come in their turn, as asyncio leaves them
                for later, act, its_args, its_context in steps[count:]:
                    if not later.cancelled():
                        self.call_soon(act, *its_args, context=its_context)
                raise

    def _hold(self, callback: Step, *args: Any, context: contextvars.Context | None = None) -> asyncio.Handle:
        """`call_soon` meanwhile."""
        context = context if context is not None else contextvars.copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        self._steps.append((handle, callback, args, context))
        return handle

    def _step(self, callback: Step, args: tuple[Any, ...], context: contextvars.Context) -> None:
        """One callback, with a fault of it where asyncio puts it; a task's step raises only what ends the process."""
        try:
            context.run(callback, *args)
        except Exception as error:  # noqa: BLE001 - as a turn of the loop treats it
            self.call_exception_handler({"message": f"Exception in callback {callback!r}", "exception": error})


Promptly = Callable[..., None]
"""Of an act and what it is called with."""


def promptly_on(loop: asyncio.AbstractEventLoop) -> Promptly:
    """`PromptLoop.promptly` where this is one, else what calls `act(*args)`."""
    return loop.promptly if isinstance(loop, PromptLoop) else _act


def _act(act: Callable[..., object], *args: Any) -> None:
    act(*args)


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on such a loop."""
    with asyncio.Runner(loop_factory=PromptLoop) as runner:
        return runner.run(work)
