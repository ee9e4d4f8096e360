"""`hobus init`: a home's own copies of the governed files, to be changed there."""

from __future__ import annotations

import keyword
import os
import re
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import click

from hobus.config.files import GovernedFile, Layers, find
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.home import Home, make_private
from hobus.launch.cluster.installed import find_layers
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import RefusedFault, UsageFault, format_next_command, format_next_here, make_os_fault
from hobus.launch.console.output import format_count, print_table, say, shorten_path, style

_SCAFFOLD = Path(__file__).parents[3] / "scaffold"
"""examples/scaffold, as it is installed: an agent called clerk, and its test."""
_AGENT = "[A-Za-z][A-Za-z0-9_]{0,63}"


@click.command()
@click.argument("names", metavar="[FILE]...", nargs=-1)
@click.option(
    "--agent", metavar="NAME", help="Write a program with an agent of this name, two tools and a test instead."
)
@with_home
def init(*, home: Home, names: tuple[str, ...], agent: str | None) -> int:
    """Copy governed files into <home>/config, where they replace the shipped ones; without FILE all but the packages.

    FILE is a name that `hobus config check` lists, e.g. admin_config.json. With --agent NAME, write ./<name>.py, an
    agent with two tools, and its test, for you to change (docs/your-own-agent.md). It never overwrites a file.
    """
    files, _faults = find(Layers(find_layers(home).packages))
    if agent is not None:
        return _init_agent(home, agent, files, names)
    wanted = _choose(files, names)
    _copy({home.config / file.name: file.path.read_text(encoding="utf-8") for file in wanted}, home)
    for file in wanted:
        say(file.name)
    say(style("ok", "green"), f"  {format_count(len(wanted), 'file')} in {home.config}, in place of what is shipped")
    say(f"next: change what you like, then {format_next_command('config check', home.root)}")
    return exit_codes.OK


def _init_agent(home: Home, agent: str, files: dict[str, GovernedFile], names: tuple[str, ...]) -> int:
    name, file, fault = agent.lower(), f"agents/{agent.upper()}.json", ""
    if names or re.fullmatch(_AGENT, agent) is None:
        fault = "takes no FILE" if names else "a name has a letter, then up to 63 more, digits and _"
    elif file in files or os.path.lexists(home.config / file):
        fault = f"the name is taken, by an agent ({files[file].origin if file in files else home.config / file})"
    elif keyword.iskeyword(name) or find_spec(name) is not None:
        fault = f"{name} is a word or a module of Python already"
    if fault:
        raise UsageFault(
            f"--agent {agent[:80]}: {fault}", hint=f"{format_next_here('init --agent clerk')}, or another name"
        )
    program, test = Path(f"{name}.py").absolute(), Path(f"test_{name}.py").absolute()
    shipped = {program: "clerk.py", test: "test_clerk.py"}
    _copy({path: (_SCAFFOLD / one).read_text().replace("clerk", name) for path, one in shipped.items()}, home)
    rows = [(shorten_path(program), "an agent and two tools"), (shorten_path(test), "a test of them: pytest")]
    print_table(("FILE", "WHAT IT IS"), rows)
    say(f"next: python {shorten_path(program)}   or   {format_next_command(f'dev {shorten_path(program)}', home.root)}")
    return exit_codes.OK


def _copy(texts: dict[Path, str], home: Home) -> None:
    """Write all of these files, or none. Raises CommandError (refused) where one is there already."""
    there = [str(path) for path in texts if os.path.lexists(path)]  # a link that leads nowhere, too
    if there:
        raise RefusedFault(
            f"there already: {', '.join(there[:3])}{' …' if len(there) > 3 else ''}: nothing was written",  # noqa: PLR2004 - three are enough to see what is meant
            hint=f"name others, or move those away; {format_next_command('config check', home.root)}",
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
        raise make_os_fault(error, doing="the files cannot be written, and none of them was") from error


def _choose(files: dict[str, GovernedFile], names: tuple[str, ...]) -> list[GovernedFile]:
    unknown = [name for name in names if name not in files]
    if unknown:
        raise UsageFault(f"there is no governed file {', '.join(unknown)}", hint=format_next_here("config check"))
    # A package's manifest says the hashes of its files as they are shipped: beside a changed copy it would be untrue.
    whole = {name for name, file in files.items() if file.is_shipped and file.kind != "package"}
    return [file for name, file in files.items() if name in (names or whole)]
