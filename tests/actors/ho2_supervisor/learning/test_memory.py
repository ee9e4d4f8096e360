"""Two awaits at once, of which one matters: its fault is raised as it is, and the other one never outlives it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hobus.actors.ho2_supervisor.learning.learning import run_beside
from hobus.bus.errors import WorkOrderFault


async def after(seconds: float, value: Any, ended: list[str] | None = None) -> Any:
    """The value, or the fault, after a while; says when it was cancelled."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if ended is not None:
            ended.append("cancelled")
        raise
    if isinstance(value, Exception):
        raise value
    return value


@pytest.mark.parametrize(("main_s", "aside_s"), [(0.0, 0.01), (0.01, 0.0)])
async def test_both_results_are_there_whichever_is_first(main_s: float, aside_s: float) -> None:
    """The slower one decides how long it takes."""
    assert await run_beside(after(main_s, "main"), after(aside_s, "aside")) == ("main", "aside")


async def test_a_fault_is_raised_as_it_is_and_ends_the_other() -> None:
    """No group around it, so that whoever catches a WorkOrderFault does; nothing is left running."""
    ended: list[str] = []
    with pytest.raises(WorkOrderFault) as caught:
        await run_beside(after(0.0, WorkOrderFault("BUDGET_EXHAUSTED", "spent")), after(60.0, None, ended))
    assert caught.value.code == "BUDGET_EXHAUSTED"
    assert ended == ["cancelled"]


async def test_a_time_out_around_it_is_a_time_out() -> None:
    """The run's deadline passes while both are on their way: both end, and the deadline is what is told."""
    ended: list[str] = []
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await run_beside(after(60.0, None, ended), after(60.0, None, ended))
    assert ended == ["cancelled"] * 2
