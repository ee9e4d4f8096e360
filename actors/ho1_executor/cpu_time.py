"""Work that somebody else wrote, a schema with its patterns: it ends within its processor time, whatever it is."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from bus.errors import WorkOrderFault

T = TypeVar("T")


class _TimeIsUp(BaseException):
    """No Exception: a library on the way must not take it for one of its own."""


def within_cpu_time(limit_ms: int, work: Callable[[], T]) -> T:
    """What the work brings. Raises WorkOrderFault(format_not_met) when this process has computed for that long.

    Processor time, so that a busy machine fails nobody. A signal ends it: patterns are matched in C, which looks for
    signals as it goes, and would let no other thread run. Of the main thread alone, where all orders are worked on.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, limit_ms / 1000)
        try:
            return work()
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TimeIsUp:
        raise WorkOrderFault(
            "format_not_met", f"to check output_schema takes more than {limit_ms} ms (ho1.judge_cpu_ms)"
        ) from None
    finally:
        signal.signal(signal.SIGVTALRM, before)
