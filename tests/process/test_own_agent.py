"""docs/your-own-agent.md, command by command, and what becomes of mistakes on the way."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cluster import cluster_in, eventually, hobus
from hobus.launch.console import exit_codes
from hobus.launch.launcher.children import environment
from tests.architecture.source import ROOT
from tests.process.pseudo_terminal import typing

pytestmark = pytest.mark.process
PAGE = (ROOT / "docs" / "your-own-agent.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """What the page says is typed, in its order."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def installed(where: Path) -> None:
    """What `pip install -e ./clerk` does, without a registry: its entry points are known to whoever has it on the path."""
    points = re.search(r'"hobus.tools"\]\n((?:\w+ = ".+"\n)+)', (where / "pyproject.toml").read_text())
    assert points is not None
    info = where / "clerk-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: clerk\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[hobus.tools]\n" + points.group(1).replace('"', ""))


@pytest.mark.timeout(300)
def test_the_page_from_its_first_command_to_its_last(tmp_path, monkeypatch):
    """Each command succeeds; the approval is asked for in a chat; the agent's own test passes."""
    monkeypatch.chdir(tmp_path)
    env = {"PYTHONPATH": str(tmp_path / "clerk"), "HOBUS_HOME": ".hobus"}
    env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    cluster = cluster_in(tmp_path / ".hobus", env)
    ran = list[str]()
    try:
        for line in commands():
            words = shlex.split(line)
            if words[0] == "pip":
                installed(tmp_path / "clerk") if "./clerk" in words else None
                continue
            if words[:2] == ["cd", "clerk"]:  # && python -m pytest
                done = subprocess.run(
                    [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path / "clerk",
                    env=environment() | env, capture_output=True, text=True, check=False,
                )  # fmt: skip
                assert done.returncode == 0, done.stdout + done.stderr
                ran.append("pytest")
                continue
            if words == ["hobus", "reload"]:
                approve_in_chat(cluster.home.root, env)
                add_the_server(tmp_path / ".hobus" / "config")
            if "get_current_time" in line:  # whoever types this is slower than a server's start
                eventually(lambda: "time__get_current_time" in hobus("tools", env=env).out)
            answer = hobus(*words[1:], env=env)
            assert answer.code == exit_codes.OK, (line, answer.out, answer.err)
            ran.append(line)
            if "get_current_time" in line:
                assert "Europe/Berlin" in answer.out
        assert len(ran) == len(commands()) - 3
    finally:
        cluster.end()
    assert (tmp_path / "clerk" / "notes.txt").read_text() == "buy milk\nbuy milk\n", "by the chat, and by the test"


def approve_in_chat(home: Path, env: dict[str, str]) -> None:
    """The conversation of the page."""
    with typing("chat", "--home", str(home), "--agent", "CLERK", columns=120, env=env) as chat:
        chat.at_prompt()
        chat.type('use clerk_note {"text": "buy milk"}')
        chat.until('the turn waits for your approval of call 001-92e10ddac0b3: clerk_note {"text": "buy milk"}')
        assert not (home.parent / "clerk" / "notes.txt").exists()
        chat.type("/approve")
        chat.until("call 001-92e10ddac0b3 may run")
        chat.until(" tokens · ")
        assert chat.leave() == exit_codes.OK


def add_the_server(config: Path) -> None:
    """The page's JSON where it says that it belongs."""
    found = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    settings = json.loads((config / "admin_config.json").read_text())
    settings |= json.loads("{" + found.group(1) + "}")
    (config / "admin_config.json").write_text(json.dumps(settings))
    path = config / "agents" / "CLERK.json"
    agent = json.loads(path.read_text())
    for tools in (agent["tools"], agent["permissions"]["tools"]):
        tools.append("time__*")
    path.write_text(json.dumps(agent))


def test_mistakes_on_the_way_are_told_with_what_to_do(tmp_path, monkeypatch):
    """A name that is none, files that are there already, tools that are not installed, a file that is half-written."""
    monkeypatch.chdir(tmp_path)
    env = {"HOBUS_HOME": ".hobus"}
    for name in ("clerk", "ADMIN", "A-B", ""):
        refused = hobus("init", "--agent", name, env=env)
        assert refused.code == exit_codes.USAGE and "hobus init --agent CLERK" in refused.err, name
    assert hobus("init", "--agent", "CLERK", "admin_config.json", env=env).code == exit_codes.USAGE
    assert not list(tmp_path.iterdir())
    assert hobus("init", "--agent", "CLERK", env=env).code == exit_codes.OK
    again = hobus("init", "--agent", "CLERK", env=env)
    assert again.code == exit_codes.REFUSED and "nothing was written" in again.err
    missing = hobus("up", env=env)
    assert missing.code == exit_codes.USAGE and "clerk_note" in missing.err and "no installed package" in missing.err
    own = tmp_path / ".hobus" / "config" / "agents" / "CLERK.json"
    before = own.read_text()
    own.write_text(before[:-30])
    assert "agents/CLERK.json" in hobus("config", "check", env=env).err
    own.write_text(before)
    second = hobus("init", "--agent", "BARD", env=env)
    assert second.code == exit_codes.OK and "merge this into it" in second.out and "bard_note" in second.out
