"""Tool processes: the runner suite, kills, crashes, garbage, and a worker that dies."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import structlog

from hobus.actors.ho1_executor import limits
from hobus.actors.ho1_executor.tools import children
from hobus.actors.ho1_executor.tools.children import ChildToolRunner
from hobus.actors.ho1_executor.tools.protocol import FRAME_OVERHEAD_BYTES, pack_frame
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.config.sections.tools import ToolsConfig
from hobus.config.snapshot import load_snapshot
from tests.actors.ho1_executor.tools.packages import entries, install
from tests.actors.ho1_executor.tools.runner_suite import (
    FILES_MAX_BYTES,
    OUTPUT_MAX_BYTES,
    SAID_MAX_BYTES,
    VIEW,
    RunnerSuite,
    run,
)
from tests.actors.ho1_executor.tools.suite_tools import ALL
from tests.process.started_here import ROOT, importable, lives, until  # noqa: F401 - a fixture

pytestmark = pytest.mark.process

SUITE = "tests.actors.ho1_executor.tools.suite_tools"


def make(children: int = 2, **changed: Any) -> ChildToolRunner:
    """A runner whose processes know the suite's tools; what is changed of its settings goes to these."""
    update = {"children_max": children, "output_max_bytes": OUTPUT_MAX_BYTES, "entry_points": []}
    update |= {name: changed.pop(name) for name in list(changed) if name in ToolsConfig.model_fields}
    fields: dict[str, Any] = {
        "tools": ALL,
        "view": VIEW,
        "checks": {"verify": (f"{SUITE}:report_of", "/ledger")},
        "registry": f"{SUITE}:ALL",
        **changed,
    }
    return ChildToolRunner(load_snapshot().config.tools.model_copy(update=update), **fields)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Borders that a test can reach; on a busy machine a process takes its time to end."""
    monkeypatch.setattr(limits, "KILL_GRACE_MS", 2000)
    monkeypatch.setattr(children, "SAID_MAX_BYTES", SAID_MAX_BYTES)
    monkeypatch.setattr(children, "FILES_MAX_BYTES", FILES_MAX_BYTES)


@pytest.fixture
async def runner() -> AsyncIterator[ChildToolRunner]:
    """Processes that have loaded their tools, gone afterwards."""
    made = make()
    made.start()
    await loaded(made)
    assert (await run(made, "text", text="x", times=1)).ok
    pids = made.pids()
    yield made
    pids += made.pids()
    await made.close()
    assert not [pid for pid in pids if lives(pid)]


async def loaded(runner: ChildToolRunner) -> None:
    """A process has run a tool alone: a limit that follows is the next call's alone."""
    assert (await run(runner, "pid")).ok


class TestChildren(RunnerSuite):
    @pytest.fixture
    def runner(self, runner: ChildToolRunner) -> ChildToolRunner:
        return runner


async def test_a_process_serves_call_after_call_and_holds_little(runner: ChildToolRunner) -> None:
    one = make(children=1, output_max_bytes=1000)
    try:
        outputs = [json.loads((await run(one, "pid")).text) for _ in range(3)]
        assert len({output["pid"] for output in outputs}) == 1
        assert len(one.pids()) == 1
        assert outputs[0]["modules"] == []
    finally:
        await one.close()


@pytest.mark.parametrize("tool_id", ["spin", "stubborn"])
async def test_a_deadline_kills_the_process_and_all_it_started(
    runner: ChildToolRunner, tmp_path: Path, tool_id: str
) -> None:
    """A busy loop, a tool that ignores SIGTERM and has a process of its own: gone when the output is there."""
    mark = tmp_path / "mark"
    output = await run(runner, tool_id, timeout_s=2.5, path=str(mark))
    assert (output.ok, output.code) == (False, "deadline_exceeded")
    pids = [int(path.read_text()) for path in tmp_path.iterdir()]
    assert len(pids) == (2 if tool_id == "stubborn" else 1)
    await until(lambda: not any(lives(pid) for pid in pids))


async def test_a_cancel_kills_the_process(runner: ChildToolRunner, tmp_path: Path) -> None:
    """At once, and the next calls find another one."""
    mark = tmp_path / "mark"
    task = asyncio.get_running_loop().create_task(run(runner, "spin", path=str(mark)))
    await until(lambda: mark.exists() and bool(mark.read_text()))
    task.cancel()
    async with asyncio.timeout(30):  # a spinning tool would end by itself much later
        with pytest.raises(asyncio.CancelledError):
            await task
    # Its descriptors are closed, which was seen; the kernel takes the rest of it away a moment later.
    await until(lambda: not lives(int(mark.read_text())))
    assert int(mark.read_text()) not in runner.pids()
    assert (await run(runner, "pid")).ok


async def test_a_second_cancel_during_the_kill_leaves_no_process_behind(
    tmp_path: Path, runner: ChildToolRunner
) -> None:
    """The place is usable again, whatever the impatience."""
    mark = tmp_path / "mark"
    task = asyncio.get_running_loop().create_task(run(runner, "spin", path=str(mark)))
    await until(lambda: mark.exists() and bool(mark.read_text()))
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(4):
        assert (await run(runner, "text", text="x", times=1)).ok
    await until(lambda: not lives(int(mark.read_text())))


@pytest.mark.parametrize("how", ["exit", "signal"])
async def test_a_process_that_dies_leaves_its_outcome_unknown(runner: ChildToolRunner, how: str) -> None:
    """Said at once, not at the deadline; a new process takes the next call."""
    output = await run(runner, "die", how=how, timeout_s=30.0)
    assert (output.ok, output.code) == (False, "unknown_outcome")
    assert output.text.endswith({"exit": "with exit status 3", "signal": "by signal 11 (Segmentation fault)"}[how]), (
        output.text
    )
    assert (await run(runner, "text", text="x", times=1)).ok


async def test_a_process_outlives_whatever_a_tool_raises() -> None:
    """Exceptions that raise when they are looked at, and one that is no Exception: each is a failed call, and told."""
    one = make(children=1)
    try:
        assert (await run(one, "text", text="x", times=1)).ok
        pids = one.pids()
        for kind in ("nameless", "unseen", "bare"):
            assert (await run(one, "unseeable", kind=kind)).code == "tool_failed"
        assert one.pids() == pids and (await run(one, "text", text="x", times=1)).ok
    finally:
        await one.close()


GARBAGE = (
    b"\xff\xff\xff\xff",
    (OUTPUT_MAX_BYTES + SAID_MAX_BYTES + FILES_MAX_BYTES + FRAME_OVERHEAD_BYTES + 1).to_bytes(4, "big"),
    b"\x00\x00\x00\x01\xc1",
    b"\x00\x00\x00\x01\x80",
    pack_frame("result", n=999, ok=True, code="", text="forged", truncated=False, traceback=""),
    pack_frame("result", n=1, ok=1, code="", text="forged", truncated=False, traceback=""),
    pack_frame("request", n=1, service="gateway", type="t", body=[]),
)


async def test_garbage_is_no_answer_and_kills_its_process() -> None:
    """Oversized, not MessagePack, not a map, for another call, of other types: one call fails, the worker is unharmed."""
    one = make(children=1)
    try:
        for garbage in GARBAGE:
            output = await run(one, "garbage", bytes=list(garbage), timeout_s=30.0)
            assert (output.ok, output.code) == (False, "unknown_outcome"), garbage
            assert (await run(one, "text", text="x", times=1)).text == '"x"', garbage
    finally:
        await one.close()


EVERY_WAY = "said\ncomplained\nby a program\n\0\0\0\1\ufffd\n\\udcff"


async def test_what_a_tool_prints_is_there_with_its_result(
    runner: ChildToolRunner, capfd: pytest.CaptureFixture[str]
) -> None:
    """Output, error, programs and raw bytes in their order, none of it in frames or on ours; input is empty."""
    with structlog.testing.capture_logs():
        for _ in range(2):
            output = await run(runner, "print")
            assert (output.text, output.printed) == ('{"read": ""}', EVERY_WAY)
        assert (await run(runner, "text", text="x", times=1)).printed == ""
    assert capfd.readouterr() == ("", "")


async def test_a_tool_that_prints_more_than_a_pipe_holds_is_not_held_up(runner: ChildToolRunner) -> None:
    """Both ends of it are kept, within their limit."""
    output = await run(runner, "print", more=1_000_000)
    assert output.ok and len(output.printed.encode()) <= SAID_MAX_BYTES
    assert output.printed.startswith("said\n") and output.printed.endswith("xxx")
    left_out = re.search(r"\n\[… (\d+) bytes left out …\]\n", output.printed)
    assert left_out is not None and int(left_out[1]) > 990_000


@pytest.mark.parametrize(("then", "code"), [("spin", "deadline_exceeded"), ("die", "unknown_outcome")])
async def test_what_was_printed_before_the_end_of_a_process_is_there(
    runner: ChildToolRunner, tmp_path: Path, then: str, code: str
) -> None:
    """That is when it is needed most: every line that was whole."""
    output = await run(runner, "print", timeout_s=4.0, then=then, path=str(tmp_path / "mark"))
    whole = EVERY_WAY.rpartition("\n")[0] + "\n"
    assert (output.code, output.printed) == (code, EVERY_WAY + "before it spins\n" if then == "spin" else whole)


HARM = {
    "os.close(0)": True, "os.close(1)": True, "os.close(2)": True, "os.closerange(0, 3)": True,
    "os.close(1); open('/dev/null')": True, "[os.open('/dev/null', 0) for _ in iter(lambda: room(), False)]": True, "os.dup2(os.open('/dev/null', os.O_WRONLY), 1)": True,
    "sys.stdout.close()": False, "sys.stderr.close(); sys.stdin.close()": False, "sys.stdout.detach()": False,
    "sys.stdout = sys.stderr = sys.stdin = None": False, "os.set_blocking(1, False)": False,
}  # fmt: skip


async def test_what_a_tool_does_to_its_streams_harms_no_later_one() -> None:
    """It has its result; where its process lost a descriptor the next call has a fresh one, else its streams again."""
    one = make(children=1)
    try:
        for code, is_fresh in HARM.items():
            await loaded(one)
            pids = one.pids()
            harmed = await run(one, "harm", code=code)
            assert (harmed.ok, harmed.printed) == (True, "before\n"), code
            assert (one.pids() != pids) == is_fresh, code
            for _ in range(2):
                output = await run(one, "print")
                assert (output.text, output.printed) == ('{"read": ""}', EVERY_WAY), code
    finally:
        await one.close()


async def test_a_process_whose_line_to_its_worker_is_closed_takes_no_other_call() -> None:
    """The call that did it has no result that could be told; the next one is not harmed."""
    one = make(children=1)
    try:
        await loaded(one)
        assert (await run(one, "harm", code="os.closerange(3, 100)", timeout_s=30.0)).code == "unknown_outcome"
        assert (await run(one, "text", text="x", times=1)).ok
    finally:
        await one.close()


@pytest.mark.parametrize("what", ["program", "thread"])
async def test_what_a_call_leaves_running_prints_is_logged_for_that_call(tmp_path: Path, what: str) -> None:
    """As long as no other one has begun in its process."""
    one, path = make(children=1), tmp_path / "go"
    try:
        with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logged:
            structlog.contextvars.bind_contextvars(of="the first call")
            left = await run(one, "leave", what=what, path=str(path))
            assert left.printed == "left\n"
            path.touch()
            await until((tmp_path / "go.done").exists)
            structlog.contextvars.bind_contextvars(of="another call")
            assert (await run(one, "say")).printed == "own\n"
        late = [(line["tool"], line["printed"], line.get("of")) for line in logged if line.get("is_late")]
        assert late == [("leave", f"from the {what}\n", None)]
    finally:
        await one.close()


async def test_what_a_tool_says_is_logged_with_its_call_and_without_secrets() -> None:
    """Also of a call that was cancelled; a value that was given under a secret's name is hidden."""
    one = make(children=1)
    one.give({"HOUSE_TOKEN": "the secret of the house", "COLOUR": "complained"})
    try:
        with structlog.testing.capture_logs() as logged:
            assert (await run(one, "bug")).traceback.endswith("RuntimeError: (hidden)")
            await run(one, "print")
        assert [(line["event"], line["log_level"], line["work_order"], line["tool"]) for line in logged] == [
            ("tool_said", "warning", "W", "bug"), ("tool_said", "info", "W", "print"),
        ]  # fmt: skip
        assert logged[0]["exception"].endswith("RuntimeError: (hidden)")
        assert logged[1]["printed"] == EVERY_WAY
    finally:
        await one.close()


async def test_a_tool_that_needs_an_event_loop_is_told_so(runner: ChildToolRunner) -> None:
    assert (await run(runner, "elsewhere")).text == "the tool awaited something, but is not an async def"


async def test_a_process_killed_while_idle_is_replaced_unnoticed(runner: ChildToolRunner) -> None:
    for pid in runner.pids():
        os.kill(pid, signal.SIGKILL)
        await until(lambda pid=pid: not lives(pid))
    for _ in range(4):
        assert (await run(runner, "text", text="x", times=1)).ok


async def test_waiting_for_a_place_counts_towards_the_time_out(tmp_path: Path) -> None:
    """One place, taken: the second call ends by its own limit, and nothing of it runs later."""
    one = make(children=1)
    try:
        await loaded(one)
        mark = tmp_path / "mark"
        loop = asyncio.get_running_loop()
        first = loop.create_task(run(one, "spin", path=str(mark), timeout_s=3.0))
        await until(mark.exists)
        second = await run(one, "spin", path=str(tmp_path / "second"), timeout_s=0.2)
        assert second.code == "deadline_exceeded"
        assert second.text.endswith("nothing was run")
        ran = await first
        assert ran.code == "deadline_exceeded"
        assert ran.text.endswith("what it had done by then is not known")
        assert (await run(one, "text", text="x", times=1)).ok
        assert not (tmp_path / "second").exists()
    finally:
        await one.close()


async def test_a_process_that_cannot_start_is_an_unknown_outcome_and_no_hang() -> None:
    """Its registry does not exist: said when it is used, every time."""
    broken = make(children=1, registry="no.such.module:TOOLS")
    try:
        for _ in range(2):
            assert (await run(broken, "text", text="x", times=1, timeout_s=30.0)).code == "unknown_outcome"
    finally:
        await broken.close()


@pytest.mark.parametrize("busy", [False, True])
async def test_no_process_outlives_its_worker(tmp_path: Path, busy: bool) -> None:
    """SIGKILL of the worker: idle processes see the end of their socket, busy ones hear it from the kernel."""
    mark = tmp_path / "mark"
    code = f"""
import asyncio, sys
from tests.process.test_tool_children import make, run
async def main():
    runner = make()
    runner.start()
    await run(runner, "text", text="x", times=1)
    await run(runner, "pid")
    print(*runner.pids(), flush=True)
    await run(runner, "spin" if {busy} else "text", path={str(mark)!r}, text="x", times=1, timeout_s=60.0)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    worker = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    try:
        pids = [int(pid) for pid in worker.stdout.readline().split()]
        assert len(pids) == 2
        if busy:
            await until(mark.exists)
        worker.kill()
        worker.wait()
        await until(lambda: not any(lives(pid) for pid in pids))
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()


PACKAGE = """
import os, subprocess, sys, time
from hobus import tool

DAEMON = '''
import subprocess
nothing = subprocess.DEVNULL
print(subprocess.Popen(["sleep", "600"], start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing).pid)
'''

@tool(idempotent=False, writes=True)
def start(path: str, then: str) -> str:
    "Starts a process of its group, and one that leaves it; then waits, or dies."
    near = subprocess.Popen(["sleep", "600"])
    far = subprocess.check_output([sys.executable, "-c", DAEMON], text=True)
    with open(path + ".new", "w") as file:
        file.write(f"{os.getpid()} {near.pid} {far}")
    os.rename(path + ".new", path)
    if then == "die":
        os._exit(1)
    time.sleep(60)
    return "never"

@tool(idempotent=True, writes=False)
def copy(times: int) -> str:
    "Forks, and lets the copies return like the original."
    for _ in range(times):
        if os.fork() == 0:
            return "a copy's"
    return "the original's"
"""


def make_packaged() -> ChildToolRunner:
    return make(children=1, entry_points=entries("startling_pack", ["start", "copy"]))


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where fresh interpreters find this checkout and the tools above."""
    directory = install(tmp_path / "packages", "startling_pack", PACKAGE)
    monkeypatch.setenv("PYTHONPATH", f"{directory}:{ROOT}")
    return tmp_path


async def started(path: Path) -> list[int]:
    await until(path.exists)
    pids = [int(pid) for pid in path.read_text().split()]
    assert len(pids) == 3
    return pids


@pytest.mark.parametrize("how", ["cancel", "tool dies", "keeper dies"])
async def test_nothing_that_a_tool_started_outlives_its_call(packages: Path, how: str) -> None:
    """Neither what is in its group nor what left it, whoever ends first; where the keeper is killed, its group goes."""
    runner = make_packaged()
    mark = packages / "mark"
    pids: list[int] = []
    try:
        then = "die" if how == "tool dies" else "wait"
        task = asyncio.get_running_loop().create_task(run(runner, "start", path=str(mark), then=then, timeout_s=30.0))
        pids = await started(mark)
        if how == "cancel":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not any(lives(pid) for pid in pids)
        else:
            if how == "keeper dies":
                os.kill(runner.pids()[0], signal.SIGKILL)
            assert (await task).code == "unknown_outcome"
            await until(lambda: not any(lives(pid) for pid in pids[: 2 if how == "keeper dies" else 3]))
        assert (await run(runner, "copy", times=0)).text == '"the original\'s"'
    finally:
        await runner.close()
        if how == "keeper dies" and pids:
            os.kill(pids[2], signal.SIGKILL)
            await until(lambda: not lives(pids[2]))


async def test_nothing_that_a_tool_started_outlives_its_worker(packages: Path) -> None:
    mark = packages / "mark"
    code = f"""
import asyncio
from tests.process.test_tool_children import make_packaged, run
runner = make_packaged()
runner.start()
asyncio.run(run(runner, "start", path={str(mark)!r}, then="wait", timeout_s=60.0))
"""
    worker = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    try:
        pids = [*await started(mark), *[child.pid for child in psutil.Process(worker.pid).children()]]
        assert len(pids) == 5  # with the keeper, and with what forks others
    finally:
        worker.kill()
        worker.wait()
    await until(lambda: not any(lives(pid) for pid in pids))


async def test_a_copy_that_a_tool_lets_return_answers_nothing(packages: Path) -> None:
    """A tool that forks and forgets to end its copies: its call and the next ones have the original's answers."""
    runner = make_packaged()
    try:
        for _ in range(5):
            assert (await run(runner, "copy", times=3)).text == '"the original\'s"'
    finally:
        await runner.close()


async def test_the_built_in_tools_run_in_processes() -> None:
    view = {"digest": "d", "packages": [], "frameworks": [], "tools": [], "agent_tools": {}, "config": {"a": {"b": 1}}}
    settings = {"children_max": 1, "output_max_bytes": 1000}
    real = ChildToolRunner(load_snapshot().config.tools.model_copy(update=settings), tools=BUILTIN, view=view)
    try:
        assert (await run(real, "show_config", path="a.b")).text == '{"path": "a.b", "value": 1}'
        assert real.available() == tuple(sorted(BUILTIN))
    finally:
        await real.close()
