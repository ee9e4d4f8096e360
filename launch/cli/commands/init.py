"""`hobus init`: a home's own copies of the governed files, to be changed there."""

from __future__ import annotations

import shutil

import click

from hobus.config.files import GovernedFile, find
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.home import Home, make_private
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, next_command, next_here, of_os_error
from hobus.launch.console.output import say, styled, table

_WHAT = {
    "config": "every limit, budget, time-out and threshold",
    "agent": "who answers: its prompt packs, tools and rights",
    "contract": "what a prompt must be given and must answer",
    "prompt_pack": "the text of a prompt",
    "framework": "a framework: what governs, and which specs it holds",
    "standard": "a framework's text",
    "spec": "a spec: what a package fulfils",
    "package": "a package: the files that it owns, with their hashes",
}
"""Kind -> what people change there."""


@click.command()
@click.argument("names", metavar="[FILE]...", nargs=-1)
@with_home
def init(*, home: Home, names: tuple[str, ...]) -> int:
    """Copy governed files into <home>/config, where they replace the shipped ones; without FILE all of them.

    FILE is a name as `hobus config check` lists it, e.g. admin_config.json. Nothing is ever overwritten.
    """
    files, _faults = find(None, None)
    wanted = _chosen(files, names)
    there = [file.name for file in wanted if (home.config / file.name).exists()]
    if there:
        raise CommandError(
            f"{home.config} already has {', '.join(there[:3])}{' …' if len(there) > 3 else ''}: nothing was copied",  # noqa: PLR2004 - three are enough to see what is meant
            hint=f"name the files you want, or move those away; {next_command('config check', home.root)}",
            exit_code=exit_codes.REFUSED,
        )
    try:
        make_private(home.config)
        for file in wanted:
            target = home.config / file.name
            make_private(target.parent)
            shutil.copyfile(file.path, target)
    except OSError as error:
        raise of_os_error(error, doing=f"nothing can be copied into {home.config}") from error
    table(("FILE", "WHAT IT IS"), [(file.name, _WHAT[file.kind]) for file in wanted])
    say(f"{styled('ok', 'green')}  {len(wanted)} files in {home.config}: from now on these count, not the shipped ones")
    say(f"next: change what you like, then {next_command('config check', home.root)}")
    return exit_codes.OK


def _chosen(files: dict[str, GovernedFile], names: tuple[str, ...]) -> list[GovernedFile]:
    unknown = [name for name in names if name not in files]
    if unknown:
        raise CommandError(
            f"there is no governed file {', '.join(unknown)}",
            hint=next_here("config check"),
            exit_code=exit_codes.USAGE,
        )
    return [file for name, file in files.items() if not names or name in names]
