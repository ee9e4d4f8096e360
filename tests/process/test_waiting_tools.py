"""Tools that wait: any number at once, each ended alone; a process goes when nobody needs it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import structlog

from hobus.actors.ho1_executor import limits
from hobus.actors.ho1_executor.tools.children import ChildToolRunner
from hobus.actors.ho1_executor.tools.sources import read_described
from hobus.bus.tool import ToolResult
from tests.actors.ho1_executor.tools.packages import entries, install
from tests.actors.ho1_executor.tools.runner_suite import run
from tests.process.started_here import ROOT, lives, until
from tests.process.test_tool_children import make

pytestmark = pytest.mark.process

PACKAGE = """
import asyncio, os, subprocess, time
from hobus import tool

SEEN = [0, 0]

@tool(idempotent=True, writes=False, timeout=300)
async def waits(s: float, mark: str = "") -> str:
    "Waits, and says when it is stopped."
    print("waits", s)
    if mark:
        open(mark + ".begun", "w").close()
    try:
        await asyncio.sleep(s)
    except asyncio.CancelledError:
        with open(mark, "w") as file:
            file.write(str(os.getpid()))
        raise
    print("waited", s)
    return str(os.getpid())

@tool(idempotent=True, writes=False)
async def meets(s: float) -> str:
    "Prints when another call is there, and stays until that one has printed."
    for met in range(2):
        SEEN[met] += 1
        until = time.monotonic() + s
        while SEEN[met] < 2 and time.monotonic() < until:
            await asyncio.sleep(0.01)
        if not met:
            print("met")
    return str(os.getpid())

@tool(idempotent=True, writes=False)
async def blocks(s: float) -> str:
    "Keeps the loop."
    time.sleep(s)
    return str(os.getpid())

@tool(idempotent=True, writes=False)
async def deaf(s: float) -> str:
    "Does not let itself be stopped."
    while True:
        try:
            await asyncio.sleep(s)
        except asyncio.CancelledError:
            pass

@tool(idempotent=True, writes=False)
async def program(words: str) -> str:
    "Prints by a program of its own."
    process = await asyncio.create_subprocess_exec("echo", words)
    await process.wait()
    await asyncio.to_thread(print, "by a thread")
    return str(os.getpid())

@tool(idempotent=True, writes=False, timeout=2.5)
def sleeps(s: float) -> str:
    "A def, which may run a loop of its own."
    asyncio.run(asyncio.sleep(s))
    return str(os.getpid())
"""
APP = """
import sys
HAD = "hobus.launch.app.cluster" in sys.modules
from hobus import Agent, Cluster, tool

@tool(idempotent=True, writes=False)
def had() -> bool:
    "Whether what this file imports was there before its process was made."
    return HAD
"""
TOOLS = ("waits", "meets", "blocks", "deaf", "program", "sleeps")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("packages"), "waiting_pack", PACKAGE)


def runner_of(**settings: Any) -> ChildToolRunner:
    """It knows the package's tools, and has described none."""
    settings = {"entry_points": entries("waiting_pack", TOOLS), **settings}
    return make(children=64, **settings)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is to end has its time, also on a busy machine."""
    monkeypatch.setattr(limits, "KILL_GRACE_MS", 500)


@pytest.fixture
async def runner(directory: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChildToolRunner]:
    monkeypatch.setenv("PYTHONPATH", f"{directory}:{ROOT}")
    made = runner_of()
    for name in TOOLS[:-1]:
        made.share(name)
    pids = [int((await run(made, "waits", s=0)).text.strip('"')), int((await run(made, "sleeps", s=0)).text.strip('"'))]
    yield made
    await made.close()
    await until(lambda: not any(lives(pid) for pid in pids))


async def at_once(runner: ChildToolRunner, count: int, tool: str, **arguments: Any) -> tuple[list[ToolResult], float]:
    """So many calls, and how long all of them took."""
    began = time.monotonic()
    results = await asyncio.gather(*[run(runner, tool, **arguments) for _ in range(count)])
    return results, time.monotonic() - began


@pytest.mark.parametrize(("tool", "processes"), [("waits", 1), ("sleeps", 64)])
async def test_sixty_four_that_wait_take_as_long_as_one(runner: ChildToolRunner, tool: str, processes: int) -> None:
    """An `async def` shares its process, a `def` has one alone; each is made when it is needed."""
    results, took_s = await at_once(runner, 64, tool, s=2)
    assert {result.code for result in results} == {""}, results[0].text
    assert len({result.text for result in results}) == processes
    assert took_s < 40  # the machine may be busy; one after the other it would be 128 s


async def test_what_a_file_with_an_agent_imports_is_loaded_once_for_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process would do ten times its work for it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # the suite's own tools, also where hobus is not installed from here
    (tmp_path / "app.py").write_text(APP)
    made = make(children=1, entry_points=[f"had = {tmp_path / 'app.py'}:had"])
    try:
        assert (await run(made, "had")).text == "true"
    finally:
        await made.close()


async def test_beyond_children_max_a_def_waits_its_turn(runner: ChildToolRunner) -> None:
    """In order; none is lost, and no process more is made."""
    few = runner_of(children_max=2)
    try:
        results, _ = await at_once(few, 6, "sleeps", s=0.05)
        assert all(result.ok for result in results) and len({result.text for result in results}) == 2
    finally:
        await few.close()


async def test_a_cancel_or_a_time_out_ends_the_one_and_nobody_else(runner: ChildToolRunner, tmp_path: Path) -> None:
    """The tool hears of it; its process and the others in it go on."""
    loop, mark, late = asyncio.get_running_loop(), tmp_path / "mark", tmp_path / "late"
    other = loop.create_task(run(runner, "waits", s=4))
    task = loop.create_task(run(runner, "waits", s=60, mark=str(mark)))
    await until(Path(f"{mark}.begun").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    over = await run(runner, "waits", s=60, mark=str(late), timeout_s=1.0)
    assert over.code == "deadline_exceeded"
    result = await other
    assert result.ok and result.text.strip('"') == mark.read_text() == late.read_text()


async def test_one_that_is_cancelled_before_its_first_step_harms_nobody(runner: ChildToolRunner) -> None:
    """Both words may arrive in one piece."""
    loop, pids = asyncio.get_running_loop(), runner.pids()
    other = loop.create_task(run(runner, "blocks", s=0.4))
    tasks = [loop.create_task(run(runner, "waits", s=60)) for _ in range(3)]
    await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    assert all(isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*tasks, return_exceptions=True))
    assert (await other).ok and runner.pids() == pids


async def test_one_that_does_not_stop_is_killed_and_the_others_are_told_who_it_was(
    runner: ChildToolRunner, tmp_path: Path
) -> None:
    """As after a crash: what they did is not known."""
    mark = tmp_path / "mark"
    other = asyncio.get_running_loop().create_task(run(runner, "waits", s=60, mark=str(mark)))
    await until(Path(f"{mark}.begun").exists)
    assert (await run(runner, "deaf", s=60, timeout_s=1.0)).code == "deadline_exceeded"
    result = await other
    assert (result.code, result.text) == (
        "unknown_outcome", "the process of waits was ended, since deaf in it did not stop",
    )  # fmt: skip
    assert (await run(runner, "waits", s=0)).ok


async def test_one_that_blocks_its_loop_is_named_and_runs_alone_from_then_on(runner: ChildToolRunner) -> None:
    """What comes meanwhile is answered elsewhere; what was there goes on afterwards."""
    with structlog.testing.capture_logs() as logged:
        before = asyncio.get_running_loop().create_task(run(runner, "waits", s=0.1))
        blocking = asyncio.get_running_loop().create_task(run(runner, "blocks", s=5))
        await until(lambda: any(line["event"] == "tool_blocks" for line in logged))
        assert (await run(runner, "waits", s=0)).ok
        assert not blocking.done()
        assert (await before).text == (await blocking).text
    assert [line["tool"] for line in logged if line["event"] == "tool_blocks"] == ["blocks"]
    again, other = asyncio.gather(run(runner, "blocks", s=2), run(runner, "blocks", s=2)), run(runner, "waits", s=0)
    assert (await other).text not in {result.text for result in await again}


async def test_what_one_that_blocks_has_not_let_begin_is_begun_elsewhere(runner: ChildToolRunner) -> None:
    """Handed to its process before anybody could know, and once: the process goes on afterwards, and leaves them."""
    assert (await run(runner, "waits", s=0)).ok
    blocking, *others = (
        asyncio.get_running_loop().create_task(run(runner, tool, s=s))
        for tool, s in (("blocks", 5), ("waits", 0), ("waits", 0))
    )
    assert (await asyncio.gather(*others))[0].ok
    assert not blocking.done()
    assert (await blocking).text not in {(await other).text for other in others}


async def test_what_a_stopped_machine_did_not_do_is_no_tools_fault(runner: ChildToolRunner) -> None:
    """A process that slept for a while has one alarm waiting, and a loop that runs at once."""
    with structlog.testing.capture_logs() as logged:
        task = asyncio.get_running_loop().create_task(run(runner, "waits", s=1.5))
        await asyncio.sleep(0.2)
        for number, pause_s in ((signal.SIGSTOP, 1.0), (signal.SIGCONT, 0.0)):
            for pid in runner.pids():
                os.killpg(pid, number)
            await asyncio.sleep(pause_s)
        assert (await task).ok
    assert not [line for line in logged if line["event"] == "tool_blocks"]


async def test_what_is_printed_while_several_share_a_process_is_nobodys(runner: ChildToolRunner) -> None:
    """It is logged without a call; what one prints that runs alone is its own, by whatever way."""
    assert (await run(runner, "program", words="whose?")).printed == "whose?\nby a thread\n"
    with structlog.testing.capture_logs() as logged:
        results, _ = await at_once(runner, 2, "meets", s=30)
    assert len({result.text for result in results}) == 1, "they share a process"
    assert [result.printed for result in results] == ["", ""]
    late = [(line["tool"], line["work_order"]) for line in logged if "met" in line.get("printed", "")]
    assert set(late) == {("", "")}


async def test_a_process_without_a_call_goes(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After `limits.CHILDREN_IDLE_MS`, the shared one too; the next call has another."""
    monkeypatch.setenv("PYTHONPATH", f"{directory}:{ROOT}")
    monkeypatch.setattr(limits, "CHILDREN_IDLE_MS", 300)
    made = runner_of()
    made.share("waits")
    ended: list[int] = []
    try:
        for tool in ("waits", "sleeps"):
            first = (await run(made, tool, s=0)).text
            ended += made.pids()
            assert (await run(made, tool, s=0)).text == first
            await until(lambda first=first: not lives(int(first.strip('"'))))
            assert (await run(made, tool, s=0)).ok
        await until(lambda: not any(psutil.pid_exists(pid) for pid in ended))  # reaped, too
    finally:
        await made.close()


@pytest.mark.parametrize("tool", ["waits", "sleeps"])
async def test_a_process_that_is_being_ended_gets_no_call(
    runner: ChildToolRunner, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    monkeypatch.setattr(limits, "CHILDREN_IDLE_MS", 0)
    first = await run(runner, tool, s=0)
    for _ in range(2):
        await asyncio.sleep(0)  # behind what the loop's timers do
    second = await run(runner, tool, s=0)
    assert second.ok and second.text != first.text


async def test_who_forks_them_may_be_killed(runner: ChildToolRunner) -> None:
    """Another one is there for the next process; those that run go on."""
    children = psutil.Process().children()
    (nursery,) = [
        child.pid
        for child in children
        if child.status() != psutil.STATUS_ZOMBIE
        and "hobus.actors.ho1_executor.tools.nursery" in child.cmdline()
        and child.pid not in runner.pids()
        and child.num_fds() < 5
    ]
    task = asyncio.get_running_loop().create_task(run(runner, "sleeps", s=1))
    await asyncio.sleep(0.2)
    os.kill(nursery, signal.SIGKILL)
    results, _ = await at_once(runner, 3, "sleeps", s=0.1)
    assert all(result.ok for result in [*results, await task])


async def test_a_tool_says_how_long_a_call_may_take(runner: ChildToolRunner) -> None:
    for name, timeout_s, is_alone in (("waits", 300, False), ("sleeps", 2.5, True), ("blocks", None, False)):
        tool = read_described(name, await runner.describe(name, timeout_s=10))
        assert not isinstance(tool, str) and (tool.timeout_s, tool.is_alone) == (timeout_s, is_alone)
