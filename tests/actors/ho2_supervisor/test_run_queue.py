"""Whose step comes next on a loop, and whose run begins, on a real loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.run_queue import RunQueue, RunTicket

MANY = limits.UNWRITTEN_MAX + 1


class Played:
    """A queue, what waits for the ledger, and who had a turn, in that order."""

    def __init__(self) -> None:
        self.unwritten = 0
        self.work = True  # what begins comes to an order at once
        self.had: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.queue = RunQueue(wait_max_s=30.0, unwritten=lambda: self.unwritten)

    def ask(self, principal: str, *, is_new: bool) -> asyncio.Task[None]:
        """Somebody wants a turn from now on."""

        async def one() -> None:
            await self.queue.turn(f"client/{principal}", is_new=is_new)
            self.had.append(f"{principal}{'+' if is_new else ''}")
            if is_new and self.work:
                self.queue.begun()

        self.tasks.append(asyncio.ensure_future(one()))
        return self.tasks[-1]


def played(story: Callable[[Played], Awaitable[None]]) -> list[str]:
    """Who had a turn; nobody waits afterwards."""

    async def whole() -> list[str]:
        play = Played()
        await story(play)
        play.unwritten = 0
        await asyncio.gather(*play.tasks, return_exceptions=True)
        assert len(play.queue) == 0
        return play.had

    return asyncio.run(whole())


async def passes(count: int = 1) -> None:
    """So many passes of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_nobody_waits_where_nobody_else_wants_a_turn():
    """Neither a step nor a beginning; and a thousand who come at once wait for passes alone."""

    async def story(play: Played) -> None:
        await play.queue.turn("ann", is_new=True)
        play.queue.begun()
        await passes(2)
        await play.queue.turn("ann", is_new=False)
        for _ in range(1000):
            play.ask("ann", is_new=True)
        await passes(1010)
        assert len(play.had) == 1000

    played(story)


def test_what_has_begun_goes_before_what_is_new_and_both_in_turns_between_people():
    """A beginning of another person is not behind all those of one, nor is a step."""

    async def story(play: Played) -> None:
        play.ask("ann", is_new=False)
        for principal in ("ann", "ann", "bob"):
            play.ask(principal, is_new=True)
        for principal in ("ann", "ann", "bob"):
            play.ask(principal, is_new=False)
        await passes()

    assert played(story) == ["ann", "ann", "bob", "ann", "ann+", "bob+", "ann+"]


def test_where_steps_wait_all_the_time_a_run_begins_now_and_then():
    """One for `STEPS_BEFORE_NEW` of them: nobody waits for ever."""

    async def story(play: Played) -> None:
        for _ in range(3 * limits.STEPS_BEFORE_NEW):
            play.ask("ann", is_new=False)
        play.ask("bob", is_new=True)
        play.ask("bob", is_new=True)
        await passes()

    had = played(story)
    first = had.index("bob+")
    assert first <= limits.STEPS_BEFORE_NEW and had.index("bob+", first + 1) == first + limits.STEPS_BEFORE_NEW + 1


def test_while_the_ledger_is_behind_steps_go_on_and_one_run_begins_for_two_that_end():
    """Then, with nothing else to tell it, all others as soon as it is not."""

    async def story(play: Played) -> None:
        play.unwritten = MANY
        for _ in range(3):
            play.ask("ann", is_new=True)
        play.ask("ann", is_new=False)
        await passes(9)
        assert (play.had, len(play.queue)) == (["ann"], 3)
        play.queue.ended()
        await passes(9)
        assert len(play.queue) == 3
        play.queue.ended()
        await passes(9)
        assert len(play.queue) == 2
        play.unwritten = limits.UNWRITTEN_MAX

    assert played(story) == ["ann", "ann+", "ann+", "ann+"]


def test_who_waits_no_longer_takes_no_turn():
    """Nor is it lost where the turn had come already."""

    async def story(play: Played) -> None:
        for is_new in (False, True):
            waiting = [play.ask("ann", is_new=is_new) for _ in range(3)]
            await passes()
            waiting[1].cancel()
            await passes()
            waiting[2].cancel()
            await passes(9)
            assert len(play.queue) == 0
            play.ask("bob", is_new=is_new)
            await passes(9)

    assert played(story) == ["ann", "bob", "ann+", "bob+"]


def test_few_are_between_their_beginning_and_their_first_order():
    """Whatever the ledger has to do; each that comes to an order, stands still or ends lets another one begin."""

    async def story(play: Played) -> None:
        play.work = False
        for _ in range(limits.BEGINNING_MAX):
            play.ask("ann", is_new=True)
        late = RunTicket(play.queue, "client/ann")
        waits = asyncio.ensure_future(late.turn())
        await passes(2 * limits.BEGINNING_MAX)
        assert (len(play.had), len(play.queue)) == (limits.BEGINNING_MAX, 1)
        play.queue.begun()
        await passes(4)
        assert waits.done() and play.queue.beginning == limits.BEGINNING_MAX
        for _ in range(2):
            late.works()
        assert play.queue.beginning == limits.BEGINNING_MAX - 1

    played(story)
