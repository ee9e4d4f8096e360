"""MCP servers in turns of a whole cluster: the reference servers, where they run, and who stops them."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.cluster import Cluster, eventually
from bench.far_worker import FarWorker, token_of, workers
from hobus.bus.messages.session import Approve, Cancel
from hobus.bus.record.ends import read_order_receipt
from hobus.launch.cluster.client import connect_bus
from tests.process.mcp_servers import ROOT, configure, everything_server, http, scripted, stdio, use
from tests.sessions import Person, held_calls, stands_still

pytestmark = pytest.mark.process


def tools_of(cluster: Cluster) -> dict[str, Any]:
    return cluster("tools", "--json").json


def wait_ready(cluster: Cluster, *servers: str, workers: int = 1) -> None:
    def is_ready() -> bool:
        rows = tools_of(cluster)["sources"]
        return all(
            len([row for row in rows if (row["name"], row["state"]) == (name, "ready")]) == workers for name in servers
        )

    eventually(is_ready, within_s=60)


def test_a_pasted_block_is_all_that_a_server_needs(cluster: Cluster):
    """The example of docs/tools.md, word for word, beside an agent that may use it."""
    page = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    (block,) = (one for one in re.findall(r"```json\n(.*?)```", page, re.DOTALL) if '"mcpServers"' in one)
    configure(cluster, {}, tools=["time__*"], permitted=["time__*"])
    (cluster.home.config / "admin_config.json").write_text(block)
    checked = cluster("config check")
    assert checked.code == 0, checked.err
    cluster.env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    cluster.up()
    wait_ready(cluster, "time")
    assert "UTC" in cluster.ask(use("time__get_current_time", timezone="UTC"))["response"]
    schema = cluster("config schema").json["properties"]["mcpServers"]
    assert "args" in schema["additionalProperties"]["properties"]


def test_the_reference_everything_server_answers_in_a_turn(cluster: Cluster):
    """Text, an image that is told, and two calls side by side; what writes is refused without its exact name."""
    servers = {"everything": stdio(*everything_server(), reads=["echo", "get-tiny-image", "get-sum"])}
    words = configure(cluster, servers, tools=["everything__*"], permitted=["everything__*"])
    cluster.up(*words)
    wait_ready(cluster, "everything")
    text = "\n".join([use("everything__get-sum", a=40, b=2), use("everything__get-tiny-image")])
    result = cluster.ask(text)
    assert result["outcome"] == "success", result
    assert "is 42" in result["response"]
    assert "[image image-1.png, image/png, 4033 bytes]" in result["response"]
    refused = cluster.ask(use("everything__get-env"))
    assert "I was not given a tool everything__get-env" in refused["response"]


def test_the_reference_everything_server_over_http(cluster: Cluster):
    """Streamable HTTP; a server that is not there yet is found when it comes, and `hobus tools` says meanwhile."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    servers = {"far": http(f"http://127.0.0.1:{port}/mcp", reads=["*"])}
    words = configure(cluster, servers, tools=["far__*"], permitted=["*"])
    command = everything_server("streamableHttp")
    cluster.up(*words)
    eventually(lambda: [row for row in tools_of(cluster)["sources"] if row["state"] == "failed"])
    server = subprocess.Popen(
        command, env={"PORT": str(port), "PATH": "/usr/bin:/bin"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_ready(cluster, "far")
        assert "Echo: over http" in cluster.ask(use("far__echo", message="over http"))["response"]
    finally:
        server.kill()
        server.wait()


def count_in(cluster: Cluster, session: str = "") -> tuple[str, int, bool, str]:
    """Session, count and whether state is said to be gone, of one call of `count`; and its process."""
    words = ["--session", session] if session else []
    result = cluster("ask", "--json", *words, use("s__count")).json
    found = re.search(r"(\d+) in (\d+)", result["response"])
    assert found is not None, result
    return result["session_id"], int(found[1]), "was restarted" in result["response"], found[2]


def test_a_session_keeps_to_one_process_of_a_server_and_is_told_when_it_is_gone(cluster: Cluster, tmp_path: Path):
    """Two workers have one each, and a session's calls never jump; what another one put there is not shared."""
    server = scripted(tmp_path, reads=["*"], per="session")
    server["command"].append("stateful")
    cluster.up(*configure(cluster, {"s": server}, tools=["s__*"], permitted=["s__*"]), "--scale", "ho1=2")
    wait_ready(cluster, "s", workers=2)
    session, first, _, pid = count_in(cluster)
    told = [count_in(cluster, session) for _ in range(3)]
    assert [(count, is_gone, where) for _, count, is_gone, where in told] == [
        (first + n, False, pid) for n in range(1, 4)
    ]
    others = [count_in(cluster) for _ in range(2)]
    assert not any(is_gone for _, _, is_gone, _ in others)
    assert {count for _, count, _, _ in others} == {1} and len({where for *_, where in [*others, told[0]]}) == 3
    psutil.Process(int(pid)).kill()
    assert count_in(cluster, session)[1:3] == (1, True)
    assert count_in(cluster, session)[1:3] == (2, False)
    for name in ("ho1/1", "ho1/2"):
        killed = cluster.kill(name)
        eventually(lambda name=name, killed=killed: cluster.is_up(name, other_than=killed.instance))
    wait_ready(cluster, "s", workers=2)
    assert count_in(cluster, session)[1:3] == (1, True)
    assert cluster.verify().tail == "clean"


def test_a_cluster_with_a_server_that_cannot_be_is_ready_and_says_so(cluster: Cluster, tmp_path: Path):
    """`up --wait` returns, `ps`, `doctor` and `tools` name the server and what is wrong; turns go on."""
    servers = {"missing": stdio("no-such-program-anywhere"), "mute": scripted(tmp_path, connect_timeout_ms=300)}
    servers["mute"]["command"].append("silent")
    words = configure(cluster, servers, tools=["missing__x"], permitted=["missing__x"])
    cluster.up(*words)
    eventually(lambda: len([row for row in tools_of(cluster)["sources"] if row["state"] == "failed"]) == 2)
    told = cluster("tools").out
    assert "the command no-such-program-anywhere is not there" in told
    assert "within 0.3 s" in told
    assert "missing" in cluster("ps").out
    doctor = cluster("doctor").out
    assert "no-such-program-anywhere" in doctor
    assert cluster.ask("what packages are installed?")["outcome"] == "success"


def test_restarting_a_worker_does_not_wait_for_its_servers(cluster: Cluster, tmp_path: Path):
    """A server holds its handshake back; the worker is ready before, its tools come later."""
    servers = {"s": scripted(tmp_path, reads=["*"], connect_timeout_ms=120_000)}
    servers["s"]["command"].append("held")
    words = configure(cluster, servers, tools=["s__*"], permitted=["s__*"])
    cluster.up(*words)
    wait_ready(cluster, "s")
    (tmp_path / "hold").touch()
    old = cluster.kill("ho1/1").instance
    eventually(lambda: cluster.is_up("ho1/1", other_than=old))
    assert [row["state"] for row in tools_of(cluster)["sources"] if row["name"] == "s"] == ["starting"]
    (tmp_path / "hold").unlink()
    wait_ready(cluster, "s")


def test_a_worker_on_another_host(cluster: Cluster, tmp_path: Path):
    """It tells models of a server's tools also where it has not the server; calls go where they can run."""
    able = {"here": {"ho1/1"}, "both": {"ho1/1", "ho1/remote-1"}}
    for name in able:
        (tmp_path / name).mkdir()
    servers = {name: scripted(tmp_path / name, reads=["*"], elsewhere=name == "both") for name in able}
    tools = [f"{name}__*" for name in able]
    cluster.up(*configure(cluster, servers, tools=tools, permitted=tools, bus__listen="127.0.0.1:0"))
    wait_ready(cluster, "here")
    with workers(tmp_path / "far") as started:
        started.append(FarWorker(tmp_path / "far" / "one", ["join", token_of(cluster), "--slots", "8"]))
        started[0].works()
        wait_ready(cluster, "both", workers=2)
        for name, workers_of in able.items():
            before = len(cluster.entries("TOOL_STARTED"))
            for _ in range(4):
                assert "did effect" in cluster.ask(use(f"{name}__effect"))["response"]
            ran = {entry.origin.partition("@")[0] for entry in cluster.entries("TOOL_STARTED")[before:]}
            assert ran <= workers_of
            (row,) = [row for row in tools_of(cluster)["tools"] if row["tool_id"] == f"{name}__effect"]
            assert {worker.partition("@")[0] for worker in row["workers"]} == workers_of
        ended = [read_order_receipt(entry) for entry in cluster.entries("OrderEnded")]
        assert "ho1/remote-1" in [one.executed_by.partition("@")[0] for one in ended if one is not None]


def test_a_cancelled_session_stops_its_server_and_an_approved_call_runs_once(cluster: Cluster, tmp_path: Path):
    """Nothing runs before the operator's word; then it does, once; a cancel reaches the server, deaf as it is.

    An image of the server that is started anew is kept, and named among the answer's calls.
    """
    servers = {"s": scripted(tmp_path)}
    mine = ["s__deaf", "s__effect", "s__picture"]
    words = configure(cluster, servers, tools=["s__*"], permitted=mine, tools__approval=["s__eff*"])
    cluster.up(*words)
    wait_ready(cluster, "s")
    effects = tmp_path / "effects"

    async def story() -> None:
        place = cluster.place
        async with connect_bus(place, "operator", timeout_s=10) as bus:
            person = Person(bus, place.snapshot.config)
            await person.begin()
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(person.say(use("s__effect")))
                view = await person.until(stands_still)
                assert not effects.exists()
                await person.command(Approve(call_id=held_calls(view)["s__effect"]))
            assert "did effect" in asked.result().response
            assert effects.read_text().count("effect") == 1
            other = Person(bus, place.snapshot.config)
            await other.begin()
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(other.say(use("s__deaf")))
                while effects.read_text().count("deaf") == 0:
                    await asyncio.sleep(0.01)
                server = int((tmp_path / "pid").read_text())
                await other.command(Cancel(reason="enough"))
            assert asked.result().code == "cancelled"
            eventually(lambda: not psutil.pid_exists(server) or psutil.Process(server).status() == "zombie")

    asyncio.run(story())
    wait_ready(cluster, "s")
    assert effects.read_text().count("deaf") == 1
    result = cluster.ask(use("s__picture"))
    assert "[image image-1.png, image/png, 100 bytes]" in result["response"]
    (file,) = result["tool_calls"][0]["files"]
    assert (file["name"], file["media_type"], file["size_bytes"]) == ("image-1.png", "image/png", 100)
    assert cluster.verify().tail == "clean"
