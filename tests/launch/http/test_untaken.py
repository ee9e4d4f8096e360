"""What a slow reader of a stream gets: all of it, in fewer pieces."""

from __future__ import annotations

import asyncio

from hobus.bus.messages.streams import StreamDelta, StreamReset
from hobus.launch.http.turns import Untaken


def delta(index, text, attempt=1):
    """The next piece of one order's answer."""
    return StreamDelta(step="WO-1", attempt=attempt, index=index, text=text)


async def drained(untaken):
    """What it gives until it is over, as (text, index) or the reason of a reset."""
    found = []
    while (message := await untaken.take()) is not None:
        found.append((message.text, message.index) if isinstance(message, StreamDelta) else message.reason)
    return found


async def test_pieces_that_a_reader_has_not_taken_are_one_and_nothing_is_missing():
    """Ten thousand pieces while it slept come as one; a reader that keeps up gets each; numbers have no hole."""
    untaken = Untaken()
    untaken.add(delta(0, "a"))
    first = await untaken.take()
    for index in range(1, 10_001):
        untaken.add(delta(index, "b"))
    second = await untaken.take()
    untaken.add(delta(10_001, "c"))
    untaken.end()
    assert (first.text, first.index, second.text, second.index) == ("a", 0, "b" * 10_000, 1)
    assert await drained(untaken) == [("c", 2)]


async def test_what_is_taken_back_stands_between_what_was_said_before_and_after():
    """Another attempt is never joined to the one before it; behind a lost piece nothing is told but the answer."""
    untaken = Untaken()
    untaken.add(delta(0, "wro"))
    untaken.add(delta(1, "ng"))
    untaken.add(StreamReset(reason="retry"))
    untaken.add(delta(0, "ri", attempt=2))
    untaken.add(delta(1, "ght", attempt=2))
    untaken.add(delta(3, "lost", attempt=2))
    untaken.end()
    assert await drained(untaken) == [("wrong", 0), "retry", ("right", 0)]


async def test_a_reader_waits_for_what_comes_and_is_told_the_end():
    """Nothing is lost to a wait that was given up."""
    untaken = Untaken()
    try:
        async with asyncio.timeout(0.01):
            await untaken.take()
    except TimeoutError:
        pass
    waiting = asyncio.ensure_future(untaken.take())
    await asyncio.sleep(0)
    untaken.add(delta(0, "x"))
    assert (await waiting).text == "x"
    untaken.end()
    assert await untaken.take() is None


async def test_what_is_said_again_from_its_beginning_begins_anew():
    """Another listener's copy of what stands comes under the same attempt: it is no continuation."""
    untaken = Untaken()
    for index, text in ((0, "a"), (1, "b"), (0, "a"), (1, "b"), (2, "c")):
        untaken.add(delta(index, text))
    untaken.end()
    assert await drained(untaken) == [("ab", 0), ("abc", 0)]
