"""An outcome that comes once: who is told, in which order, and what becomes of who stops waiting."""

from __future__ import annotations

import asyncio

import pytest

from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.promise import Promise

FAULT = BusError("busy", "not now")


@pytest.mark.parametrize("outcome", [7, FAULT])
def test_everybody_is_told_once_in_the_order_in_which_they_came(outcome: int | RuntimeFault) -> None:
    promise: Promise[int] = Promise()
    said: list[str] = []
    promise.then(lambda _: said.append("first"))
    promise.then(lambda _: said.append("second"))
    heard: list[int | RuntimeFault] = []
    promise.then(heard.append)
    assert not promise.done() and not heard
    promise.settle(outcome)
    promise.settle(8)
    promise.then(heard.append)
    assert said == ["first", "second"] and heard == [outcome, outcome] and promise.done()
    assert promise.exception() is (FAULT if outcome is FAULT else None)


async def test_who_awaits_gets_the_value_or_the_fault_before_and_after_it_is_known() -> None:
    """And before that there is no result."""
    value: Promise[int] = Promise()
    fault: Promise[int] = Promise()
    with pytest.raises(asyncio.InvalidStateError):
        value.result()

    async def of(promise: Promise[int]) -> int:
        return await promise

    waiting = [asyncio.ensure_future(of(one)) for one in (value, fault)]
    await asyncio.sleep(0)
    value.settle(3)
    fault.settle(FAULT)
    assert await waiting[0] == 3 == await value
    for one in (waiting[1], of(fault)):
        with pytest.raises(BusError):
            await one


async def test_who_stops_waiting_leaves_it_to_the_others() -> None:
    promise: Promise[int] = Promise()

    async def of() -> int:
        return await promise

    given_up, other = asyncio.ensure_future(of()), asyncio.ensure_future(of())
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.sleep(0)
    promise.settle(1)
    assert given_up.cancelled() and await other == 1


def test_a_step_may_ask_for_the_outcome_again() -> None:
    promise: Promise[int] = Promise()
    heard: list[str] = []
    promise.then(lambda _: promise.then(lambda _: heard.append("inner")))
    promise.then(lambda _: heard.append("outer"))
    promise.settle(1)
    assert heard == ["inner", "outer"]
