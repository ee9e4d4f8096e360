"""Who sees what of the environment that a cluster is started in: secrets of the user's shell reach who needs them alone."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.cluster import Cluster, eventually, family_in
from bench.far_worker import FarWorker, token_of, workers
from hobus.config.secret_refs import select_allowed
from hobus.config.snapshot import load_snapshot
from hobus.launch.cluster.kernel import keep_memory_private
from tests.actors.ho1_executor.tools.packages import entries, install
from tests.process.mcp_servers import ROOT, configure, stdio, use

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("launchers_are_executed")]

SECRET = "planted-3f9c2a71"  # noqa: S105 - it is no one's
"""In the environment of who starts the cluster, under names that nothing needs, and one that a server needs."""
NAMED = "named-8d1e44b0"
"""Of a variable that the configuration gives to tool processes."""
PLANTED = {"A_PROVIDER_KEY": SECRET, "HOBUS_API_KEY": SECRET, "SERVER_KEY": f"{SECRET}-server", "TOOL_KEY": NAMED}

TOOL = """
import os, resource
from pathlib import Path
from hobus import tool

@tool(idempotent=True, writes=False)
def look() -> dict:
    "Tells all that its process sees of itself."
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    memory = b""
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as file:
        for line in maps:
            where, rights = line.split()[:2]
            if rights.startswith("rw"):
                begin, end = (int(part, 16) for part in where.split("-"))
                file.seek(begin)
                try:
                    memory += file.read(end - begin)
                except OSError:
                    pass
    needle = bytes(reversed(b"17a2c9f3-detnalp"))
    return {
        "environ": dict(os.environ),
        "shown": Path("/proc/self/environ").read_bytes().decode(),
        "descriptors": {n: os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}") or os.path.islink(f"/proc/self/fd/{n}")},
        "no_new_privs": status["NoNewPrivs"].strip(),
        "in_memory": needle in memory,
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")},
    }
"""

SERVER = """
import json, os, sys
from pathlib import Path
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        told = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif asked["method"] == "tools/list":
        told = {"tools": [{"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}]}
    elif asked["method"] == "tools/call":
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        said = {"environ": dict(os.environ), "descriptors": sorted(os.listdir("/proc/self/fd")), "no_new_privs": status["NoNewPrivs"].strip()}
        told = {"content": [{"type": "text", "text": json.dumps(said)}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": told}), flush=True)
"""


def words_of(cluster: Cluster, directory: Path, **settings: Any) -> list[str]:
    """A tool and a server that tell what they see; each is given one variable by name."""
    packages = install(directory / "packages", "looking", TOOL)
    script = directory / "server.py"
    script.write_text(SERVER)
    cluster.env |= PLANTED | {"PYTHONPATH": f"{packages}:{ROOT}"}
    server = stdio(sys.executable, str(script), env={"KEY": "env:SERVER_KEY"}, reads=["*"], elsewhere=True)
    return list(
        configure(
            cluster, {"s": server}, tools=["look", "s__look"], permitted=["look", "s__*"],
            tools__entry_points=entries("looking", ["look"]), tools__environment=["TOOL_KEY"], **settings,
        )
    )  # fmt: skip


def shown(processes: list[psutil.Process], *needles: str) -> list[str]:
    """Processes that show one of these texts in their environment or command line, with what it was executed as."""
    found: list[str] = []
    for process in processes:
        for kind in ("environ", "cmdline"):
            try:
                text = Path(f"/proc/{process.pid}/{kind}").read_bytes().decode("utf-8", "replace")
            except (ProcessLookupError, FileNotFoundError):
                continue
            found += [f"{kind} of {process.pid} {process.name()}: {needle}" for needle in needles if needle in text]
    return found


def told(response: str) -> dict[str, Any]:
    """The JSON object in an answer, as it is or as a text within JSON."""
    text = response[response.index("{") : response.rindex("}") + 1]
    value = json.loads(text) if not text.startswith('{\\"') else json.loads(json.loads(f'"{text}"'))
    assert isinstance(value, dict)
    return value


def looks(cluster: Cluster, tool: str) -> dict[str, Any]:
    """What the tool told, out of the model's answer."""
    return told(cluster.ask(use(tool))["response"])


def with_one_server(family: list[psutil.Process]) -> tuple[list[psutil.Process], list[psutil.Process]] | None:
    """These processes and the MCP server among them; none while one that was killed is not gone yet."""
    try:
        server = [one for one in family if "server.py" in " ".join(one.cmdline())]
    except psutil.NoSuchProcess:  # also of one that is a zombie
        return None
    return (family, server) if len(server) == 1 else None


@contextmanager
def foreground(cluster: Cluster, words: list[str]) -> Generator[None]:
    silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    process = cluster.begin("up", *words, start_new_session=True, **silent)
    try:
        eventually(
            lambda: cluster.home.run_file.exists() and all(cluster.is_up(row.actor) for row in cluster.run().children)
        )
        yield
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def look(cluster: Cluster) -> None:
    """Only the server that is given a key has it."""
    eventually(lambda: {"look", "s__look"} <= {row["tool_id"] for row in cluster("tools", "--json").json["tools"]})
    family, server = eventually(lambda: with_one_server(family_in(cluster.home)))
    assert len(family) >= 12
    assert shown([one for one in family if one not in server], SECRET, NAMED) == []
    assert shown(server, SECRET, NAMED) == [f"environ of {server[0].pid} {server[0].name()}: {SECRET}"]
    names = {
        line.partition("=")[0] for one in family if one not in server
        for line in Path(f"/proc/{one.pid}/environ").read_bytes().decode().split("\0") if line.strip()
    }  # fmt: skip
    allow = load_snapshot().config.launcher.environment
    assert set(select_allowed(allow, dict.fromkeys(names, ""))) | {"HOBUS_GIVEN"} >= names


def test_nor_does_one_in_the_foreground(cluster: Cluster, tmp_path: Path):
    """Launcher, zygote, spare, services, tool processes, keepers."""
    with foreground(cluster, words_of(cluster, tmp_path)):
        look(cluster)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_no_process_shows_a_secret_of_the_shell(cluster: Cluster, tmp_path: Path, method: str):
    """However processes are started; a killed one's successor is given the same. A tool sees what it was given alone."""
    cluster.up(*words_of(cluster, tmp_path, launcher__start_method=method))
    look(cluster)
    killed = cluster.kill("ho1/1")
    eventually(lambda: cluster.is_up("ho1/1", other_than=killed.instance))
    look(cluster)
    _check_what_a_tool_sees(cluster)


def _check_what_a_tool_sees(cluster: Cluster) -> None:
    """Its variables, its descriptors, its memory, its limits; it can get no right that it has not."""
    config = load_snapshot().config
    seen = looks(cluster, "look")
    assert seen["environ"]["TOOL_KEY"] == NAMED
    allow = config.launcher.environment
    assert set(seen["environ"]) == set(select_allowed(allow, seen["environ"])) | {"TOOL_KEY"}
    assert SECRET not in json.dumps(seen["environ"]) + seen["shown"]
    assert NAMED not in seen["shown"]
    assert seen["in_memory"] is False
    assert seen["no_new_privs"] == "1"
    open_files = {
        int(number): target for number, target in seen["descriptors"].items() if not target.startswith("/proc/")
    }
    assert sorted(open_files)[:3] == [0, 1, 2]
    assert open_files[0] == "/dev/null"
    assert open_files[1] == open_files[2] and open_files[1].startswith("pipe:")  # what it prints, and nothing else
    others = sorted(target for number, target in open_files.items() if number > 2)
    # A channel for frames, and what its own event loop wakes itself by.
    assert others[0] == "anon_inode:[eventpoll]" and len(others) == 1 + 1 + 2
    assert all(re.fullmatch(r"socket:\[\d+\]", target) for target in others[1:])
    limits = config.tools.limits
    assert seen["limits"]["RLIMIT_CORE"] == [0, 0]
    assert seen["limits"]["RLIMIT_NOFILE"][1] <= limits.open_files
    server = looks(cluster, "s__look")
    assert server["environ"]["KEY"] == PLANTED["SERVER_KEY"]
    assert NAMED not in json.dumps(server)
    assert server["no_new_privs"] == "1"
    assert server["descriptors"][:3] == ["0", "1", "2"]
    assert len(server["descriptors"]) == 4  # the fourth is the listing's own


def test_a_worker_elsewhere_shows_no_secret_and_no_token(cluster: Cluster, tmp_path: Path):
    """Neither its shell's variables nor the token that it joined with, in itself and its tool processes."""
    words = words_of(cluster, tmp_path)
    cluster.up("--listen", "127.0.0.1:0", *words)
    token = token_of(cluster)
    with workers(tmp_path / "far") as started:
        started.append(FarWorker(tmp_path / "far" / "one", ["join", token], env=cluster.env))
        worker = started[0].works()
        eventually(lambda: len(worker.tree()) >= 6)
        tree = worker.tree()
        server = [one for one in tree if "server.py" in " ".join(one.cmdline())]
        assert shown([one for one in tree if one not in server], SECRET, NAMED, token) == []
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0


def test_memory_can_be_made_nobody_elses():
    """As the kernel tells the process itself; its maker's stays as it was."""
    pid = os.fork()
    if pid == 0:
        kept = keep_memory_private()
        os._exit(0 if kept and ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
