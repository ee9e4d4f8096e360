"""What README and docs say about commands, files and dependencies is so."""

from __future__ import annotations

import re
import shlex
import tomllib

import click
import pytest

from hobus.launch.cli.main import COMMANDS, hobus
from tests.architecture.source import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
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


@pytest.mark.parametrize("line", HOBUS)
def test_every_command_of_the_pages_parses(line: str) -> None:
    """Subcommand, options and arguments are accepted by the command line as it is."""
    command, rest = resolve(shlex.split(line))
    command.make_context("hobus", rest)


def test_readme_names_every_command_and_no_other() -> None:
    """The table of commands is the table of the command line."""
    assert set(re.findall(r"^\| `hobus (\w+)` \|", README, re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize(
    "row", re.findall(r"^\| `hobus (\w+)` \| (.*) \|$", README, re.MULTILINE), ids=lambda row: row[0]
)
def test_every_option_and_subcommand_of_the_table_exists(row: tuple[str, str]) -> None:
    """What a row puts in code font is an option, a subcommand or a value of that command."""
    name, text = row
    command = hobus.get_command(click.Context(hobus), name)
    assert command is not None
    known = options_of(command) | (set(command.commands) if isinstance(command, click.Group) else set())
    words = [quoted.split()[0] for quoted in re.findall(r"`([^`]+)`", text)]
    assert [word for word in words if word not in known] == []


def leaves_of(command: click.Command) -> list[click.Command]:
    """The command, or those of its family and of the families in it."""
    family = command.commands.values() if isinstance(command, click.Group) else ()
    return [leaf for member in family for leaf in leaves_of(member)] or [command]


def test_every_command_takes_a_home_and_every_listing_json() -> None:
    """As the README says of all of them."""
    for name in COMMANDS:
        command = hobus.get_command(click.Context(hobus), name)
        assert command is not None
        assert [leaf.name for leaf in leaves_of(command) if "--home" not in options_of(leaf)] == []
    for listing in ("ps", "ledger show"):
        assert "--json" in options_of(resolve(["hobus", *listing.split()])[0])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: object) -> None:
    """A link to a file of the project names a file that is there."""
    text = page.read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).is_file()] == []


def test_every_page_is_reached_from_the_readme() -> None:
    """A page that nobody finds helps nobody."""
    assert [page.name for page in PAGES[1:] if f"(docs/{page.name})" not in README] == []


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
    listed = set(re.findall(r"^\| ([a-z][a-z0-9-]*) \| .+ \|$", part, re.MULTILINE)) - {"package"}
    assert listed == {re.split(r"[\[>=<~! ]", requirement)[0] for requirement in requirements}


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
