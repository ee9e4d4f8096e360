"""A person moves to another cell: a small state machine, whose every step is in the map, and may be done again.

Killed anywhere, the same command goes on where it was. Until `arriving` it may turn back; doors refuse the person (503,
ask again) from the first step until the person is at the target.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import Entry
from hobus.launch.cells.carrying import CellSide
from hobus.launch.cells.map import CellMap, Move


async def move(  # noqa: PLR0913 - each by its name
    cells: CellMap, begun: Move, sides: Mapping[str, CellSide], *, wait_s: float, now_us: Callable[[], int],
    said: Callable[[Move], object] = lambda _: None,
) -> Move:  # fmt: skip
    """Carry out the move. Raises RuntimeFault: it stands where it was, and can go on.

    One whose sessions do not come to rest within `wait_s` turns back, and then SessionFault(run_active) is raised.
    """
    one, failed = begun, None
    while one.step != "done":
        said(one)
        try:
            await _make_step(one, sides[one.source], sides[one.target], wait_s=wait_s)
        except RuntimeFault as fault:
            if one.step not in ("leaving", "copying") or fault.code not in ("run_active", "erased"):
                raise
            failed, one = fault, cells.advance(one, now_us(), "returning")
            continue
        one = cells.advance(one, now_us())
    if failed is not None:
        raise failed
    return one


async def _make_step(one: Move, source: CellSide, target: CellSide, *, wait_s: float) -> None:
    """Make one step, of every session that there is at the source, and of what was learned there."""
    for session_id in (await source.people()).get(one.person, []):
        if one.step == "returning":
            await source.arrive(session_id, one.target, here=one.source)
            continue
        if not await source.leave(session_id, one.person, one.target, wait_s=wait_s):
            continue  # for another cell, at another time
        if one.step in ("copying", "sweeping"):
            await _bring(source.entries(session_id), target)
        if one.step in ("arriving", "sweeping"):
            await target.arrive(session_id, one.target, here=one.target)
    if one.step in ("copying", "sweeping"):
        await _bring(source.memory(one.person), target)
        await target.remember(one.person)


async def _bring(pages: AsyncGenerator[list[Entry]], target: CellSide) -> None:
    async with aclosing(pages):
        async for page in pages:
            await target.bring(page)
