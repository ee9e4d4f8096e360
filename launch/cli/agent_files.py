"""The files of an agent of one's own, as `hobus init --agent` writes them; `#` lines are their reasons. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hobus.config.reference import agent_lines

_TOOLS = '''"""What {agent} can do. Each function below is a tool: the model is shown its name, types and docstring."""

from pathlib import Path

from hobus import Invocation, ToolFault, tool

NOTES = Path(__file__).with_name("notes.txt")


# It may run again after a crash (idempotent), and changes nothing (writes): no approval is ever needed.
@tool(idempotent=True, writes=False)
def {package}_notes() -> list[str]:
    """Lists all notes."""
    return NOTES.read_text().splitlines() if NOTES.exists() else []


# It changes something, so that {agent} needs its exact name in permissions.tools; and it must not run twice, so that
# hobus never tries it again by itself. `call.idempotency_key` is the same for every try of one call.
@tool(idempotent=False, writes=True)
def {package}_note(text: str, *, call: Invocation) -> dict[str, int | str]:
    """Keeps a note, and gives its number."""
    if not text.strip():
        raise ToolFault("a note needs a text")  # the model is told this sentence, of any other exception its class
    with NOTES.open("a") as notes:
        notes.write(" ".join(text.split()) + "\\n")
    return {{"number": len(NOTES.read_text().splitlines()), "call": call.idempotency_key}}
'''

_PROJECT = """[project]
name = "hobus-agent-{package}"
version = "0.1.0"
dependencies = ["hobus"]

# The group `hobus.tools` tells which functions are tools; admin_config.json tells which of them a cluster loads.
[project.entry-points."hobus.tools"]
{package}_notes = "{package}_tools:{package}_notes"
{package}_note = "{package}_tools:{package}_note"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
only-include = ["{package}_tools.py"]
"""

_TEST = '''"""{agent} in a cluster of its own: `pytest`. The embedded model uses a tool that it is told to use."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from {package}_tools import NOTES

CONFIG = Path({config!r})


def hobus(home, *words):
    """A command that has to succeed; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "hobus", "--home", str(home), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def home(tmp_path):
    """A home with the same configuration, and its cluster."""
    shutil.copytree(CONFIG, tmp_path / "config")
    hobus(tmp_path, "up", "--wait", "--detach")
    yield tmp_path
    hobus(tmp_path, "down")


def test_a_note_is_kept_once_somebody_has_approved(home):
    """Nothing is written before that; then once."""
    before = NOTES.read_text().count("buy milk") if NOTES.exists() else 0
    question = 'use {package}_note {{"text": "buy milk"}}'
    asked = subprocess.Popen(
        [sys.executable, "-m", "hobus", "--home", str(home), "ask", "--json", "--agent", "{agent}", question],
        stdout=subprocess.PIPE, text=True,
    )
    deadline, waiting = time.monotonic() + 30, []
    while not waiting and time.monotonic() < deadline:
        sessions = json.loads(hobus(home, "session", "list", "--json"))["sessions"]
        waiting = [one["session_id"] for one in sessions if one["held_calls"]]
        time.sleep(0.2)
    assert waiting, "the call waits for an approval"
    assert (NOTES.read_text().count("buy milk") if NOTES.exists() else 0) == before
    hobus(home, "session", "approve", waiting[0])
    answer = json.loads(asked.communicate(timeout=30)[0])
    assert answer["outcome"] == "success" and answer["tool_calls"][0]["status"] == "Succeeded"
    assert NOTES.read_text().count("buy milk") == before + 1
'''


def tool_files(agent: str, config: Path) -> dict[str, str]:
    """Name -> text of the Python package of this agent's tools; its test starts clusters with this configuration."""
    names = {"agent": agent, "package": agent.lower(), "config": str(config)}
    return {
        "pyproject.toml": _PROJECT.format(**names),
        f"{agent.lower()}_tools.py": _TOOLS.format(**names),
        f"test_{agent.lower()}.py": _TEST.format(**names),
        "README.md": _about(agent, config),
    }


def _about(agent: str, config: Path) -> str:
    """What each line of the agent's file means, which as JSON can hold no reasons itself."""
    rows = "".join(f"| `{name}` | {told} |\n" for name, told in agent_lines())
    return (
        f"# {agent}\n\n`{config}/agents/{agent}.json`, line by line; `hobus config check` says what is wrong in it.\n\n"
        f"| line | what for |\n| --- | --- |\n{rows}"
    )


def agent_document(agent: str, shipped: Mapping[str, Any]) -> str:
    """`agents/<agent>.json`: the shipped one's form, with tools of its own and two that only read."""
    tools = ["list_tools", "cluster_status", f"{agent.lower()}_notes", f"{agent.lower()}_note"]
    document = {
        **shipped,
        "agent_id": agent,
        "agent_class": "RESIDENT",
        "system_prompt": f"You are {agent.title()}. You keep the user's notes. Look them up with your tools before you "
        "speak of them. Answer in the user's language, briefly.",
        "tools": tools,
        "permissions": {**shipped["permissions"], "tools": tools},
    }
    return f"{json.dumps(document, indent=2)}\n"


def config_document(agent: str) -> str:
    """`admin_config.json`, what differs from the shipped one: the tools that are loaded, and their approvals."""
    package = agent.lower()
    changed = {"tools": {"entry_points": [f"{package}_notes", f"{package}_note"], "approval": [f"{package}_note"]}}
    return f"{json.dumps(changed, indent=2)}\n"
