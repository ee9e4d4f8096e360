"""`hobus init`: a home's own copies of the governed files, to be changed there."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from hobus.config.assets import AgentFile, Approval, Permissions
from hobus.config.files import ADMIN_CONFIG, GovernedFile, Layers, find
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.home import Home, make_private
from hobus.launch.cluster.installed import layers_of
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import RefusedFault, UsageFault, next_command, next_here, of_os_error
from hobus.launch.console.output import counted, say, short_path, styled, table

_WHAT = {
    "config": "every limit, budget, time-out and threshold",
    "agent": "who answers: its prompt packs, tools and rights",
    "contract": "what a prompt must be given and must answer",
    "prompt_pack": "the text of a prompt",
    "template": "an attention template: what a prompt is shown beside its message",
    "framework": "a framework: what governs, and which specs it holds",
    "standard": "the text of a framework, or of a spec",
    "spec": "a spec: what a package fulfils",
    "package": "a package: the files that it owns, with their hashes",
}
"""Kind -> what people change there."""
_WHAT_OF_AGENT = (
    "which tools are loaded, and which calls wait for an approval",
    "who answers: prompt, tools, rights",
    "the package of its tools: which functions are tools",
    "two tools",
    "a test of them, in a cluster of its own",
    "what each line of the agent's file means",
)
_AGENT = "[A-Z][A-Z0-9_]{0,63}"


@click.command()
@click.argument("names", metavar="[FILE]...", nargs=-1)
@click.option("--agent", metavar="NAME", help="Write an agent of this name instead, with two tools and a test of them.")
@with_home
def init(*, home: Home, names: tuple[str, ...], agent: str | None) -> int:
    """Copy governed files into <home>/config, where they replace the shipped ones; without FILE all but the packages.

    FILE is a name as `hobus config check` lists it, e.g. admin_config.json. With --agent NAME: a new agent there, and
    in ./<name>/ a Python package with its tools, to be changed into your own (docs/your-own-agent.md). Nothing is ever
    overwritten.
    """
    files, _faults = find(Layers(layers_of(home).packages))
    if agent is not None:
        return _init_agent(home, agent, files, names)
    wanted = _chosen(files, names)
    _copy({home.config / file.name: file.path.read_text(encoding="utf-8") for file in wanted}, home)
    table(("FILE", "WHAT IT IS"), [(file.name, _WHAT[file.kind]) for file in wanted])
    say(styled("ok", "green"), f"  {counted(len(wanted), 'file')} in {home.config}, in place of what is shipped")
    say(f"next: change what you like, then {next_command('config check', home.root)}")
    return exit_codes.OK


def _init_agent(home: Home, agent: str, files: dict[str, GovernedFile], names: tuple[str, ...]) -> int:
    if names or re.fullmatch(_AGENT, agent) is None:
        why = "takes no FILE" if names else "a name has a capital letter, then up to 63 more, digits and _"
        meant = agent.upper() if re.fullmatch(_AGENT, agent.upper()) else "CLERK"
        raise UsageFault(f"--agent {agent[:80]}: {why}", hint=next_here(f"init --agent {meant}"))
    if f"agents/{agent}.json" in files:
        raise UsageFault(
            f"--agent {agent}: the name is taken, by an agent that is {_brought(files[f'agents/{agent}.json'])}",
            hint=f"{next_here('init --agent CLERK')}, or another new name; to change {agent}: "
            f"{next_here(f'init agents/{agent}.json')}",
        )
    shipped = json.loads(files["agents/ADMIN.json"].path.read_text(encoding="utf-8"))
    package = Path(agent.lower())
    config, own = home.config / ADMIN_CONFIG, home.config / "agents" / f"{agent}.json"
    settings = config_document(agent)
    tools = {package / name: text for name, text in tool_files(agent, home.config.resolve()).items()}
    if os.path.lexists(own):
        raise RefusedFault(
            f"--agent {agent}: the name is taken; there already: {own}: nothing was written",
            hint=f"choose another name, or change that file; {next_command(f'agent show {agent}', home.root)}",
        )
    written = {own: agent_document(agent, shipped), **tools}
    is_new = not config.exists()
    _copy({config: settings, **written} if is_new else written, home)
    whats = dict(zip([config, *written], _WHAT_OF_AGENT, strict=True))
    table(
        ("FILE", "WHAT IT IS"), [(short_path(path), what) for path, what in whats.items() if path != config or is_new]
    )
    if not is_new:
        say(f"{short_path(config)} is there already; merge this into it:")
        say(settings.rstrip())
    say(f"next: pip install -e ./{package}, then {next_command('up --wait --detach', home.root)}")
    return exit_codes.OK


def _copy(texts: dict[Path, str], home: Home) -> None:
    """All of these files are there, or none. Raises CommandError (refused) where one is there already."""
    there = [str(path) for path in texts if os.path.lexists(path)]  # a link that leads nowhere, too
    if there:
        raise RefusedFault(
            f"there already: {', '.join(there[:3])}{' …' if len(there) > 3 else ''}: nothing was written",  # noqa: PLR2004 - three are enough to see what is meant
            hint=f"name the files you want, or move those away; {next_command('config check', home.root)}",
        )
    try:
        for path, text in texts.items():
            if home.config in path.parents:
                make_private(home.config)
                make_private(path.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        for path in texts:  # none of them was there before
            with suppress(OSError):
                path.unlink()
        raise of_os_error(error, doing="the files cannot be written, and none of them was") from error


def _chosen(files: dict[str, GovernedFile], names: tuple[str, ...]) -> list[GovernedFile]:
    unknown = [name for name in names if name not in files]
    if unknown:
        raise UsageFault(f"there is no governed file {', '.join(unknown)}", hint=next_here("config check"))
    # A package's manifest says the hashes of its files as they are shipped: beside a changed copy it would be untrue.
    whole = {name for name, file in files.items() if file.is_shipped and file.kind != "package"}
    return [file for name, file in files.items() if name in (names or whole)]


def _brought(file: GovernedFile) -> str:
    return "shipped" if file.is_shipped else f"of {file.layer}"


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


def agent_lines() -> Iterator[tuple[str, str]]:
    """Each line that the file of an agent has, and what it is for."""
    for name, field in AgentFile.model_fields.items():
        yield name, str(field.description)
    for block, model in (("permissions", Permissions), ("approval", Approval)):
        for name, field in model.model_fields.items():
            yield f"{block}.{name}", str(field.description)
