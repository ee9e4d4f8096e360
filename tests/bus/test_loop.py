"""What runs at once instead of in the next turn of the loop, and that it is a task like any other."""

from __future__ import annotations

import asyncio
import contextvars
import os

import pytest

from hobus.bus.loop import PatientSelector, PromptLoop, promptly_on, run_loop

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="")


def from_a_callback(act):
    """As a frame arrives: no task is running. What `act` returns, and when it is over all that followed from it."""

    async def scenario():
        done = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: done.set_result(act()))
        found = await done
        await asyncio.sleep(0.02)
        return found

    return run_loop(scenario())


def begun(coroutine):
    """Its task, begun promptly."""
    made = []
    promptly_on(asyncio.get_running_loop())(lambda: made.append(asyncio.get_running_loop().create_task(coroutine)))
    return made[0]


def test_a_task_has_had_its_first_step_and_only_that_as_the_current_task_in_its_own_context():
    """Time-outs and groups work within it; its context is its own; what it awaits comes in its turn."""
    seen = []

    async def work():
        seen.append(asyncio.current_task())
        NAME.set("inner")
        async with asyncio.timeout(1), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
            seen.append("first step")
        seen.append(NAME.get())

    def act():
        task = begun(work())
        assert seen == [task, "first step"] and not task.done() and NAME.get() == ""
        assert asyncio.current_task() is None
        return task

    task = from_a_callback(act)
    assert task.done() and seen[2:] == ["inner"]


def test_one_that_ends_in_its_first_step_is_done_at_once():
    """With its result; a fault is the task's own."""

    async def answer():
        return 42

    async def fail():
        raise ValueError

    def act():
        good, bad = begun(answer()), begun(fail())
        assert good.result() == 42
        assert isinstance(bad.exception(), ValueError)

    from_a_callback(act)


def test_one_that_was_begun_can_be_cancelled():
    """It hears of it where it waits."""
    seen = []

    async def work():
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    def act():
        task = begun(work())
        task.cancel()
        return task

    assert from_a_callback(act).cancelled() and seen == ["cancelled"]


def test_whoever_waits_for_a_future_goes_on_at_once():
    """In the order in which they waited."""
    seen = []

    async def wait(future, name):
        seen.append((name, await future))

    def act():
        future = asyncio.get_running_loop().create_future()
        for name in "ab":
            begun(wait(future, name))
        promptly_on(asyncio.get_running_loop())(future.set_result, 1)
        assert seen == [("a", 1), ("b", 1)]

    from_a_callback(act)


def test_within_a_task_everything_comes_in_its_turn():
    """No task runs inside of another one."""
    seen = []

    async def work():
        seen.append("work")

    async def scenario():
        task = begun(work())
        assert not seen
        await task

    run_loop(scenario())
    assert seen == ["work"]


def test_a_fault_of_a_callback_is_the_loops_and_the_next_one_runs():
    """Nobody who calls for the next step gets the fault of another one's."""
    seen, faults = [], []

    def fail():
        raise ValueError

    def act():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(type(context["exception"])))

        def schedule():
            loop.call_soon(fail)
            loop.call_soon(seen.append, "cancelled").cancel()
            loop.call_soon(seen.append, "next")

        promptly_on(loop)(schedule)
        assert seen == ["next"] and faults == [ValueError]

    from_a_callback(act)


def test_what_ends_the_process_loses_no_step_of_others():
    """They come in their turn, in order: whoever closes the loop can wait for what he cancels."""
    seen = []

    def leave():
        raise SystemExit(3)

    def act():
        loop = asyncio.get_running_loop()

        def schedule():
            loop.call_soon(leave)
            loop.call_soon(seen.append, "a")
            loop.call_soon(seen.append, "b")

        with pytest.raises(SystemExit):
            promptly_on(loop)(schedule)
        assert seen == []

    from_a_callback(act)
    assert seen == ["a", "b"]


def test_on_another_loop_it_is_done_in_its_turn():
    """A command's own loop need not know of it."""
    seen = []

    async def work():
        seen.append("work")

    async def scenario():
        done = asyncio.Event()

        def act():
            begun(work())
            seen.append("begun")
            done.set()

        asyncio.get_running_loop().call_soon(act)
        await done.wait()
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert seen == ["begun", "work"]


def test_news_is_heard_by_the_fourth_turn_of_a_loop_that_never_rests_and_before_it_waits():
    """A loop with something to run in each turn does not forget its sockets."""
    selector = PatientSelector()
    reading, writing = os.pipe()
    try:
        selector.register(reading, 1)
        os.write(writing, b"x")
        heard = [bool(selector.select(0)) for _ in range(8)]
        assert heard == [False, False, False, True] * 2
        assert selector.select(None) and not selector.select(0)
    finally:
        selector.close()
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("turns", [1, 50])
def test_what_comes_by_a_descriptor_is_heard_while_callbacks_run(turns):
    """By whoever reads it, whatever else the loop does."""

    async def scenario():
        loop = asyncio.get_running_loop()
        assert isinstance(loop, PromptLoop)
        reading, writing = os.pipe()
        came = loop.create_future()
        loop.add_reader(reading, lambda: came.done() or came.set_result(os.read(reading, 1)))
        for _ in range(turns):
            await asyncio.sleep(0)
        os.write(writing, b"x")
        while not came.done():
            await asyncio.sleep(0)
        loop.remove_reader(reading)
        os.close(reading)
        os.close(writing)
        return came.result()

    assert run_loop(scenario()) == b"x"
