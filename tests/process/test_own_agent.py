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
from hobus.launch.launcher.children import make_environment
from tests.architecture.source import ROOT
from tests.process.pseudo_terminal import typing

pytestmark = pytest.mark.process
PAGE = (ROOT / "docs" / "your-own-agent.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


@pytest.mark.timeout(300)
def test_the_page_from_its_first_command_to_its_last(tmp_path, monkeypatch):
    """Each command succeeds; the approval is asked for in a chat; the agent's own test passes."""
    monkeypatch.chdir(tmp_path)
    env = {"HOBUS_HOME": ".hobus"}
    env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    cluster = cluster_in(tmp_path / ".hobus", env)
    ran = list[str]()
    try:
        for line in commands():
            words = shlex.split(line)
            if words[0] == "pip":
                continue
            if words[0] == "python":
                words += ["-q", "-p", "no:cacheprovider"] if "pytest" in words else []
                done = subprocess.run(
                    [sys.executable, *words[1:]],
                    env=make_environment() | env,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, done.stdout + done.stderr
                ran.append(line)
                continue
            if words == ["hobus", "up", "clerk.py"]:
                approve_in_chat(cluster.home.root, env)
                add_the_server(tmp_path)
            if "get_current_time" in line:  # whoever types this is slower than a server's start
                eventually(lambda: "time__get_current_time" in hobus("tools", env=env).out)
            answer = hobus(*words[1:], env=env)
            assert answer.code == exit_codes.OK, (line, answer.out, answer.err)
            ran.append(line)
            if "get_current_time" in line:
                assert "Europe/Berlin" in answer.out
        assert len(ran) == len(commands()) - 2
    finally:
        cluster.end()
    assert (tmp_path / "notes.txt").read_text() == "buy milk\nbuy milk\n", "by the test, and by the chat"


def approve_in_chat(home: Path, env: dict[str, str]) -> None:
    with typing("chat", "--home", str(home), "--agent", "CLERK", columns=120, env=env) as chat:
        chat.at_prompt()
        chat.type('use clerk_note {"text": "buy milk"}')
        chat.until('the turn waits for your approval of call 001-4f60b407c616: clerk_note {"text": "buy milk"}')
        assert (home.parent / "notes.txt").read_text() == "buy milk\n"
        chat.type("/approve")
        chat.until("call 001-4f60b407c616 may run")
        chat.until(" tokens · ")
        assert chat.leave() == exit_codes.OK


def add_the_server(directory: Path) -> None:
    """The page's JSON and the tools' name, where it says that they belong."""
    found = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    settings = directory / ".hobus" / "config" / "admin_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | json.loads("{" + found.group(1) + "}")))
    program = directory / "clerk.py"
    program.write_text(
        program.read_text().replace("clerk_note],\n    approval", 'clerk_note, "time__*"],\n    approval')
    )


def test_mistakes_on_the_way_are_told_with_what_to_do(tmp_path, monkeypatch):
    """A name that is none, or is taken, files that are there already; and two of them live in one home."""
    monkeypatch.chdir(tmp_path)
    env = {"HOBUS_HOME": ".hobus"}
    for name in ("admin", "ADMIN", "A-B", "json", "class", ""):
        refused = hobus("init", "--agent", name, env=env)
        assert refused.code == exit_codes.USAGE and "hobus init --agent clerk" in refused.err, name
    assert hobus("init", "--agent", "clerk", "admin_config.json", env=env).code == exit_codes.USAGE
    assert not list(tmp_path.iterdir())
    assert hobus("init", "--agent", "CLERK", env=env).code == exit_codes.OK
    again = hobus("init", "--agent", "clerk", env=env)
    assert again.code == exit_codes.REFUSED and "nothing was written" in again.err
    assert hobus("init", "--agent", "bard", env=env).code == exit_codes.OK
    cluster = cluster_in(tmp_path / ".hobus")
    try:
        for program in ("clerk.py", "bard.py"):
            assert hobus("up", program, "--wait", env=env).code == exit_codes.OK
        assert hobus("reload", env=env).code == exit_codes.OK
        for name in ("clerk", "bard"):
            assert "[]" in hobus("ask", "--agent", name.upper(), f"use {name}_notes {{}}", env=env).out
    finally:
        cluster.end()
