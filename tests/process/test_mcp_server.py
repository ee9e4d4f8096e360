"""One MCP server as its worker keeps it: cancels that stop, deadlines, deaths, nonsense, and what is left of it all."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from hobus.actors.ho1_executor import limits
from hobus.actors.ho1_executor.mcp_servers.server import CallTimes, McpSource
from hobus.actors.ho1_executor.tools.definition import ToolResult
from hobus.actors.ho1_executor.tools.host_process import HostGone
from hobus.bus.messages.work_order import ToolCall
from hobus.config.sections.tools import HttpServer, StdioServer
from hobus.config.snapshot import load_snapshot
from tests.process.mcp_servers import SCRIPTED, http, scripted
from tests.process.started_here import ROOT, importable, lives, until  # noqa: F401 - a fixture

pytestmark = pytest.mark.process

LIMITS = load_snapshot().config.tools.model_copy(update={"output_max_bytes": 1000})


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("KILL_GRACE_MS", 300), ("RECONNECT_MIN_MS", 50), ("RECONNECT_MAX_MS", 200)):
        monkeypatch.setattr(limits, name, value)


@asynccontextmanager
async def kept(directory: Path, how: str = "", **changes: Any) -> AsyncIterator[McpSource]:
    """A server that is ready or has failed; nothing of it is left afterwards."""
    config = scripted(directory, **changes)
    config["command"].append(how)
    server = McpSource(
        "s", StdioServer.model_validate(config), LIMITS, given={}, random=lambda: 0.5, on_change=lambda: None
    )
    task = asyncio.get_running_loop().create_task(server.keep())
    try:
        await until(lambda: server.state != "starting")
        yield server
    finally:
        pids = [pid for pid in (server.pid, server_pid(directory)) if pid]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.close()
        await until(lambda: not any(lives(pid) for pid in pids))


def server_pid(directory: Path) -> int:
    file = directory / "pid"
    return int(file.read_text() or 0) if file.exists() else 0  # it may just have been made


async def call(server: McpSource, tool: str, timeout_s: float = 10.0, holder: str = "S") -> tuple[bool, str, str]:
    asked = ToolCall(call_id="001", tool_id=f"s__{tool}", arguments={})
    result = await server.call(
        server.tools[f"s__{tool}"], asked, holder=holder, idempotency_key="WO-7", times=CallTimes(timeout_s, 10.0)
    )
    return result.ok, result.code, result.text


def defunct() -> list[int]:
    """Of this process's children, those that ended and that nobody has waited for."""
    return [child.pid for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]


def effects(directory: Path) -> list[str]:
    file = directory / "effects"
    return file.read_text().splitlines() if file.exists() else []


async def test_calls_run_side_by_side_and_know_their_key(tmp_path: Path) -> None:
    """Text comes back, cut where it is too long; nonsense is a failure; what a server asks of us is declined."""
    async with kept(tmp_path) as server:
        assert server.detail == "scripted 1?[31m"
        slow = asyncio.get_running_loop().create_task(call(server, "slow", 2.0))
        await until(lambda: bool(effects(tmp_path)))
        assert await call(server, "effect") == (True, "", "did effect")
        assert effects(tmp_path) == ["slow WO-7", "effect WO-7"]
        assert "WO-7" in (await call(server, "key"))[2]
        assert len((await call(server, "huge"))[2]) == 1000
        assert await call(server, "nonsense") == (
            False,
            "tool_failed",
            "the MCP server answered with something that is not a result",
        )
        assert (await call(server, "sample"))[0]
        declined = tmp_path / "declined"
        await until(lambda: declined.exists() and declined.read_text().count("True") == 2)
        assert (await slow)[1] == "deadline_exceeded"


@pytest.mark.parametrize("tool", ["polite", "deaf"])
async def test_a_cancel_really_stops(tmp_path: Path, tool: str) -> None:
    """One that ends by itself keeps its process; one that does not is killed with all it is, and there again at once."""
    async with kept(tmp_path) as server:
        first = server_pid(tmp_path)
        task = asyncio.get_running_loop().create_task(call(server, tool))
        await until(lambda: bool(effects(tmp_path)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (tmp_path / "cancelled").read_text() == "call-1\n"
        await until(lambda: lives(first) is (tool == "polite"))
        assert await call(server, "effect") == (True, "", "did effect")
        assert (server_pid(tmp_path) == first) is (tool == "polite")


async def test_a_second_cancel_during_the_grace_kills_at_once(tmp_path: Path) -> None:
    async with kept(tmp_path) as server:
        first = server_pid(tmp_path)
        task = asyncio.get_running_loop().create_task(call(server, "deaf"))
        await until(lambda: bool(effects(tmp_path)))
        task.cancel()
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not lives(first))
        assert (await call(server, "effect"))[0]


async def test_who_else_was_in_flight_is_in_doubt_or_runs_again(tmp_path: Path) -> None:
    """A deadline kills the process of a deaf call; the neighbour that may run twice does, the other one must not."""
    async with kept(tmp_path, idempotent=["polite"]) as server:
        loop = asyncio.get_running_loop()
        neighbours = [loop.create_task(call(server, tool, 10.0)) for tool in ("slow", "polite")]
        await until(lambda: len(effects(tmp_path)) == 2)
        assert (await call(server, "deaf", 0.5))[1] == "deadline_exceeded"
        doubtful = await neighbours[0]
        assert doubtful[1] == "unknown_outcome"
        await until(lambda: [line.split()[0] for line in effects(tmp_path)].count("polite") == 2)
        assert (await neighbours[1])[1] == "deadline_exceeded"
        assert [line.split()[0] for line in effects(tmp_path)].count("slow") == 1


@pytest.mark.parametrize("whom", ["server", "process", "itself"])
async def test_a_death_is_seen_at_once_and_the_server_comes_back(tmp_path: Path, whom: str) -> None:
    """Of the server, of its process, by its own hand: the call is in doubt, the next one is answered, nothing is left."""
    async with kept(tmp_path) as server:
        pids = [server_pid(tmp_path), server.pid or 0]
        if whom == "itself":
            assert (await call(server, "die"))[1] == "unknown_outcome"
        else:
            task = asyncio.get_running_loop().create_task(call(server, "slow"))
            await until(lambda: bool(effects(tmp_path)))
            os.kill(pids[0] if whom == "server" else pids[1], 9)
            assert (await task)[1] == "unknown_outcome"
        await until(lambda: not any(lives(pid) for pid in pids))
        assert await call(server, "effect") == (True, "", "did effect")
        assert server_pid(tmp_path) != pids[0]


async def test_garbage_between_messages_harms_nothing(tmp_path: Path) -> None:
    async with kept(tmp_path, "garbage") as server:
        assert server.state == "ready"
        assert await call(server, "effect") == (True, "", "did effect")


async def test_two_hundred_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All there, and each can be called; of more than the limit the rest is refused."""
    async with kept(tmp_path, "many") as server:
        assert len(server.tools) == 212
        assert await call(server, "tool_199") == (True, "", "did tool 199")
    monkeypatch.setattr(limits, "LISTED_MAX", 100)
    async with kept(tmp_path, "many") as server:
        assert len(server.tools) == 100
        assert "112 more" in server.refused[-1]


async def test_what_is_no_tool_is_refused_and_the_others_work(tmp_path: Path) -> None:
    """No schema, text for a schema, a bad one, one that leads outside, a long name, a huge one, one without a name."""
    async with kept(tmp_path, "wild") as server:
        known = [
            "daemon",
            "deaf",
            "die",
            "effect",
            "huge",
            "key",
            "nonsense",
            "picture",
            "polite",
            "poster",
            "sample",
            "slow",
            "slow_",
            "sp_ce__x",
        ]
        assert sorted(server.tools) == [f"s__{name}" for name in known]
        refused = {line.partition(":")[0] for line in server.refused}
        assert {"no_schema", "text_schema", "bad_schema", "outside", "big", "slow", "slow?", "number"} <= refused
        assert all(line.isascii() and line.isprintable() for line in server.refused)
        assert (await call(server, "effect"))[0]


async def test_a_server_that_never_answers_is_given_up_and_tried_again(tmp_path: Path) -> None:
    """Within connect_timeout_ms, saying so; its tools are called by nobody."""
    async with kept(tmp_path, "silent", connect_timeout_ms=6000) as server:
        assert server.state == "failed"
        assert "within 6 s (its connect_timeout_ms)" in server.detail
        first = server_pid(tmp_path)
        await until(lambda: server_pid(tmp_path) != first)


async def test_nothing_of_a_server_that_cannot_be_started_stays_in_the_table_of_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its next try may be half a minute away."""
    monkeypatch.setattr(limits, "RECONNECT_MIN_MS", 60_000)
    monkeypatch.setattr(limits, "RECONNECT_MAX_MS", 60_000)
    before = psutil.Process().children()
    async with kept(tmp_path, command=[sys.executable, "-c", "exit(3)"]) as server:
        assert server.state == "failed" and "exit 3" in server.detail
        await until(lambda: psutil.Process().children() == before)


async def test_an_answer_that_is_too_long_costs_its_own_call_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No memory is filled, the others in flight and the server's process go on."""
    monkeypatch.setattr(limits, "MESSAGE_MAX_BYTES", 100_000)
    async with kept(tmp_path, "odd") as server:
        beside = asyncio.get_running_loop().create_task(call(server, "steady"))
        pid = server_pid(tmp_path)
        for tool in ("huge", "huge_id_last"):
            ok, code, text = await call(server, tool)
            assert (ok, code) == (False, "tool_failed") and "too large" in text
        assert (await beside)[0] and server_pid(tmp_path) == pid


@pytest.mark.parametrize(
    ("how", "ends"), [("odd", "Does half.\n\nOf all its tools their server says: Say please."), ("", "")]
)
async def test_what_a_server_says_of_its_tools_stands_behind_their_descriptions(
    tmp_path: Path, how: str, ends: str
) -> None:
    """Its `instructions`, in the server's words; blank ones are none."""
    async with kept(tmp_path, how) as server:
        tools = server.tools
        assert tools["s__half"].description == ends if how else tools["s__effect"].description == "Does effect."


async def test_half_a_character_in_an_answer_is_replaced(tmp_path: Path) -> None:
    """What a server cut in the middle of an emoji is an answer all the same; two halves are one."""
    async with kept(tmp_path, "odd") as server:
        assert (await call(server, "half"))[2] == "cut \ufffd, whole \U0001f600"


async def test_what_a_server_in_go_says_by_null_is_nothing(tmp_path: Path) -> None:
    """No tool is lost for it and no result; a result that is none ends its call at once."""
    async with kept(tmp_path, "odd") as server:
        assert await call(server, "null_content") == (True, "", '{"a": 7}')
        said = "the MCP server refused: it answered with something that is not a result: null"
        assert await call(server, "null_result") == (False, "tool_failed", said)


async def test_progress_keeps_a_long_call_alive_up_to_its_order_s_deadline(tmp_path: Path) -> None:
    """A server that says that it goes on is waited for; one that is silent, or goes on for ever, is not."""
    async with kept(tmp_path, "odd") as server:
        assert (await call(server, "steady", timeout_s=1.5))[2] == "did steady"
        assert (await call(server, "slow", timeout_s=0.6))[1] == "deadline_exceeded"
        began = asyncio.get_running_loop().time()
        times = CallTimes(0.6, 1.2)
        asked = ToolCall(call_id="002", tool_id="s__endless", arguments={})
        endless = await server.call(server.tools["s__endless"], asked, holder="S", idempotency_key="WO-8", times=times)
        assert endless.code == "deadline_exceeded" and asyncio.get_running_loop().time() - began < 30
        assert "ran over 1.200 s (its turn's time)" in endless.text


async def test_a_call_that_is_over_says_by_which_setting_and_that_its_server_had_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that went away under it, and is not back in time, is no long call."""
    async with kept(tmp_path) as server:
        assert "ran over 0.300 s (tools.timeout_ms)" in (await call(server, "slow", timeout_s=0.3))[2]
        ends = iter([HostGone("ended")])

        async def once(*_: object) -> ToolResult:
            for fault in ends:
                raise fault
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        monkeypatch.setattr(server, "_call_once", once)
        tool = replace(server.tools["s__effect"], idempotent=True)
        asked = ToolCall(call_id="001", tool_id=tool.tool_id, arguments={})
        found = await server.call(tool, asked, holder="S", idempotency_key="WO-7", times=CallTimes(0.2, 9.0))
        assert found.code == "deadline_exceeded"
        assert found.text.startswith("the MCP server of s__effect ended while the call was running; made again, ")


@pytest.mark.parametrize("how", ["cancel", "server dies"])
async def test_what_a_server_started_dies_with_it(tmp_path: Path, how: str) -> None:
    """A process that left its group and its parents is gone when the call is."""
    async with kept(tmp_path) as server:
        task = asyncio.get_running_loop().create_task(call(server, "daemon"))
        await until(lambda: bool(effects(tmp_path)))
        started = int(effects(tmp_path)[0].split()[1])
        assert lives(started)
        if how == "cancel":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not lives(started)
        else:
            os.kill(server_pid(tmp_path), signal.SIGKILL)
            assert (await task)[1] == "unknown_outcome"
            await until(lambda: not lives(started))


async def test_a_server_dies_with_its_worker_whatever_it_does(tmp_path: Path) -> None:
    """The worker is killed; its server, deaf for its input and for cancels, is gone too."""
    code = f"""
import asyncio, sys
from hobus.actors.ho1_executor.mcp_servers.server import CallTimes, McpSource
from hobus.bus.messages.work_order import ToolCall
from hobus.config.sections.tools import HttpServer, StdioServer
from hobus.config.snapshot import load_snapshot
async def main():
    fields = {scripted(tmp_path)!r}
    server = McpSource("s", StdioServer.model_validate(fields), load_snapshot().config.tools, given={{}}, random=lambda: 0.5,
                       on_change=lambda: None)
    task = asyncio.get_running_loop().create_task(server.keep())
    while server.state != "ready":
        await asyncio.sleep(0.01)
    call = ToolCall(call_id="001", tool_id="s__deaf", arguments={{}})
    await server.call(server.tools["s__deaf"], call, holder="S", idempotency_key="k", times=CallTimes(50, 50))
asyncio.run(main())
"""
    worker = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        await until(lambda: bool(effects(tmp_path)))
        server = server_pid(tmp_path)
        above = [process.pid for process in psutil.Process(server).parents()[:2]]  # what speaks MCP, and its keeper
        worker.kill()
        worker.wait()
        await until(lambda: not any(lives(pid) for pid in [server, *above]))
    finally:
        worker.kill()
        worker.wait()


async def test_a_session_has_a_process_of_its_own_where_a_server_is_per_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its calls go there and nobody else's; two at once as well. Without a call for long it goes, and the next is new."""
    async with kept(tmp_path, "stateful", per="session") as server:
        said = [await asyncio.gather(*[call(server, "count", holder=holder) for holder in "aabb"]) for _ in range(2)]
        texts = [text for batch in said for _, _, text in batch]
        assert sorted(text.partition(" ")[0] for text in texts) == sorted("11223344")
        pids = {
            holder: {texts[n].split()[2] for n in places}
            for holder, places in (("a", (0, 1, 4, 5)), ("b", (2, 3, 6, 7)))
        }
        assert len(pids["a"]) == len(pids["b"]) == 1 and pids["a"] != pids["b"]
        assert [(await call(server, "count", holder=holder))[2].split()[0] for holder in "ab"] == ["5", "5"]
        monkeypatch.setattr(
            limits, "MCP_IDLE_MS", 100
        )  # not before: a process may take long to begin, and a call to be made
        for holder in "ab":
            assert (await call(server, "count", holder=holder))[0]
        await until(lambda: not any(lives(int(pid)) for held in pids.values() for pid in held))
        await until(lambda: not defunct())
        assert (await call(server, "count", holder="a"))[2].startswith("1 in ")


async def test_of_many_holders_the_idle_ones_make_room_and_the_busy_ones_do_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(limits, "MCP_PROCESSES_MAX", 2)
    async with kept(tmp_path, "stateful", per="session") as server:
        assert len({(await call(server, "count", holder=holder))[2] for holder in "abc"}) == 3
        busy = [asyncio.get_running_loop().create_task(call(server, "polite", holder=holder)) for holder in "de"]
        await until(lambda: len(effects(tmp_path)) == 2)
        ok, code, text = await call(server, "count", holder="f")
        assert (ok, code, text.endswith("nothing was run: try again later")) == (False, "tool_failed", True)
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
        assert (await call(server, "count", holder="f"))[0]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, {"error": {"code": -32600, "message": "unknown"}}),
        (400, {"error": {"code": -32600, "message": "Bad Request"}}),
        (400, {"error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}, "id": None}),
        (400, {"error": {"code": -32000, "message": "No valid session ID"}}),
        (400, "Invalid session ID"),
        (200, {"error": {"code": -32001, "message": "Session not found"}}),
    ],
)
async def test_a_server_over_http_that_forgot_its_session_is_connected_anew_and_the_call_made(
    tmp_path: Path, status: int, said: Any
) -> None:
    """It took no such call, so one that must not run twice is made as well, once."""
    async with over_http(tmp_path, status, said) as server:
        assert [await call(server, "add") for _ in range(5)] == [(True, "", f"call {n}") for n in range(1, 6)]
        assert len((tmp_path / "calls").read_text().splitlines()) == 5


async def test_a_call_over_http_that_was_refused_says_how_and_costs_the_others_nothing(tmp_path: Path) -> None:
    """By its status: of a refusal nothing is in doubt; whoever is in flight, or comes next, is answered there."""
    async with over_http(tmp_path, 404, {}) as server:
        slow = asyncio.get_running_loop().create_task(call(server, "slow"))
        await asyncio.sleep(0.1)
        assert await call(server, "refused_429") == (False, "tool_failed", "the MCP server answered 429")
        assert await call(server, "refused_502") == (False, "unknown_outcome", "the MCP server answered 502")
        assert await slow == (True, "", "slow in 1")
        assert await call(server, "slow") == (True, "", "slow in 1")


@asynccontextmanager
async def over_http(directory: Path, status: int, said: Any) -> AsyncIterator[McpSource]:
    """The forgetful server, ready; nothing of it is left afterwards."""
    script = Path(__file__).with_name("forgetful_mcp_server.py")
    program = subprocess.Popen([sys.executable, str(script), str(directory), str(status), json.dumps(said)])
    try:
        await until((directory / "port").exists)
        url = f"http://127.0.0.1:{(directory / 'port').read_text()}/mcp"
        config = HttpServer.model_validate(http(url))
        server = McpSource("s", config, LIMITS, given={}, random=lambda: 0.5, on_change=lambda: None)
        task = asyncio.get_running_loop().create_task(server.keep())
        try:
            await until(lambda: server.state == "ready")
            yield server
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await server.close()
    finally:
        program.kill()
        program.wait()


def test_the_scripted_server_is_there() -> None:
    """Tests that start it would else tell of a server that does not start."""
    assert SCRIPTED.is_file()
