"""What README and docs say about commands, files and dependencies is so."""

from __future__ import annotations

import re
import shlex
import tomllib
from contextvars import copy_context

import click
import pytest

from hobus.launch.cli.main import COMMANDS, hobus
from tests.architecture.source import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def console_commands(text: str) -> list[str]:
    """Lines that a console block tells the reader to type, split at `&&`."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [part.strip() for line in lines for part in line.split("&&")]


def hobus_commands(text: str) -> list[str]:
    """Those of them that call this project's command."""
    return [command for command in console_commands(text) if re.match(r"(\S*/)?hobus\b", command)]


HOBUS = sorted({command for page in PAGES for command in hobus_commands(page.read_text(encoding="utf-8"))})


def resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command behind `hobus a b --c`, and the words that are left for it."""
    context = click.Context(hobus)
    command: click.Command = hobus
    rest = words[1:]
    while isinstance(command, click.Group) and (rest or not command.invoke_without_command):
        found = command.get_command(context, rest[0])
        assert found is not None, f"no command {rest[0]!r}"
        command, rest = found, rest[1:]
    return command, rest


def options_of(command: click.Command) -> set[str]:
    """Every option string that a command knows."""
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def test_readme_shows_commands() -> None:
    """The tests below look at something."""
    assert len(hobus_commands(README)) >= 8


def test_every_command_of_the_pages_parses() -> None:
    """Subcommand, options and arguments are accepted by the command line as it is."""
    assert len(HOBUS) > 80
    assert {line: fault for line in HOBUS if (fault := not_parsed(line))} == {}


def not_parsed(line: str) -> str:
    """Why the command line does not take it; empty where it does."""
    try:
        command, rest = resolve(shlex.split(line))
        copy_context().run(command.make_context, "hobus", rest)  # it notes whose home is meant
    except (AssertionError, ValueError, click.ClickException) as fault:
        return f"{type(fault).__name__}: {fault}"
    return ""


def test_the_readme_is_read_in_five_minutes() -> None:
    """What stands in a reference stands there alone."""
    assert len(README.splitlines()) <= 150


def leaves_of(command: click.Command) -> list[click.Command]:
    """The command, or those of its family and of the families in it."""
    family = subcommands(command).values()
    return [leaf for member in family for leaf in leaves_of(member)] or [command]


def test_every_command_takes_a_home_and_every_listing_json() -> None:
    """As docs/commands.md says of all of them."""
    for name in COMMANDS:
        command = hobus.get_command(click.Context(hobus), name)
        assert command is not None
        assert [leaf.name for leaf in leaves_of(command) if "--home" not in options_of(leaf)] == []
    for listing in ("ps", "ledger show"):
        assert "--json" in options_of(resolve(["hobus", *listing.split()])[0])


def test_every_link_leads_somewhere() -> None:
    """A link to a file of the project names a file that is there."""
    links = [
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
        if "://" not in target
    ]
    assert len(links) > 50
    assert [f"{page.name}: {target}" for page, target in links if not (page.parent / target).is_file()] == []


def test_every_page_is_reached_from_the_readme() -> None:
    """A page that nobody finds helps nobody."""
    pages = [page.relative_to(ROOT).as_posix() for page in PAGES[1:-1]]
    assert [page for page in pages if f"({page})" not in README] == []


@pytest.mark.parametrize(
    ("section", "requirements"),
    [
        ("Base", PROJECT["project"]["dependencies"]),
        ("Tests", PROJECT["project"]["optional-dependencies"]["test"]),
    ],
)
def test_every_dependency_has_its_line_of_reason(section: str, requirements: list[str]) -> None:
    """docs/dependencies.md lists exactly what pyproject.toml asks for."""
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    part = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^- ([a-z0-9, -]+): ", part, re.MULTILINE)
    assert {name for line in lines for name in line.split(", ")} == {
        re.split(r"[\[>=<~! ]", requirement)[0] for requirement in requirements
    }


def test_scripts_that_the_readme_tells_to_run_are_executable() -> None:
    """`.ci/check` and `.ci/run` start."""
    for name in ("check", "run"):
        assert (ROOT / ".ci" / name).stat().st_mode & 0o111


def test_license_is_whole() -> None:
    """Apache-2.0, from its title to the end of its appendix."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert text.rstrip().endswith("limitations under the License.")


def subcommands(command: click.Command) -> dict[str, click.Command]:
    """Name -> subcommand; those that are imported when they are named, too."""
    if not isinstance(command, click.Group):
        return {}
    context = click.Context(command)
    return {name: one for name in command.list_commands(context) if (one := command.get_command(context, name))}
