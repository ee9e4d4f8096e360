"""`hobus init`: a home's own copies of the governed files, to be changed there."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path

import click

from hobus.config.files import ADMIN_CONFIG, GovernedFile, find
from hobus.launch.cli import agent_files
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.home import Home, make_private
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
    files, _faults = find()
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
            f"--agent {agent}: the name is taken, by an agent that is shipped",
            hint=f"{next_here('init --agent CLERK')}, or another new name; to change {agent}: "
            f"{next_here(f'init agents/{agent}.json')}",
        )
    shipped = json.loads(files["agents/ADMIN.json"].path.read_text(encoding="utf-8"))
    package = Path(agent.lower())
    config, own = home.config / ADMIN_CONFIG, home.config / "agents" / f"{agent}.json"
    settings = agent_files.config_document(agent)
    tools = {package / name: text for name, text in agent_files.tool_files(agent, home.config.resolve()).items()}
    if os.path.lexists(own):
        raise RefusedFault(
            f"--agent {agent}: the name is taken; there already: {own}: nothing was written",
            hint=f"choose another name, or change that file; {next_command(f'agent show {agent}', home.root)}",
        )
    written = {own: agent_files.agent_document(agent, shipped), **tools}
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
    return [file for name, file in files.items() if (name in names if names else file.kind != "package")]
