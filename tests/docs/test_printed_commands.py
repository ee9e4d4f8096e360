"""Every command that the program prints, and every one that a page names, is one that the command line takes."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path

import click
import pytest

from bench.builders import shipped_snapshot
from hobus.launch.cli.main import hobus
from hobus.launch.console.errors import CommandError, UsageFault
from hobus.launch.filters.ledger_fields import make_ledger_filter
from hobus.launch.filters.syntax import FilterError
from hobus.launch.filters.tap_fields import tap_filter
from tests.docs.test_readme import hobus_commands, resolve

ROOT = Path(__file__).parents[2]
ROOMS = ("actors", "bus", "config", "gateway_service", "hobus", "launch", "ledger_service")
OF_OTHER_TIMES = ("roadmap.md", "found-bugs.md")
"""What is to come, and what was."""
PAGES = [
    page
    for page in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", *sorted((ROOT / "config").glob("*.md")))
    if page.name not in OF_OTHER_TIMES
]
FILTERS = {"ledger show": make_ledger_filter, "ledger tail": make_ledger_filter, "tap": tap_filter}
PLACEHOLDER = "1"
"""Stands for what an f-string puts in: a text and a number."""
HOLES = {PLACEHOLDER, "{0}"}
"""What is put in where the command is printed."""
OF_A_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def text_of(node: ast.expr) -> str | None:
    """A text with its holes filled; None for what is worked out elsewhere."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(one.value) if isinstance(one, ast.Constant) else PLACEHOLDER for one in parts)
        case _:
            return None


def printed() -> Iterator[tuple[str, str]]:
    """(where, command) of whatever the code hands to `format_next_here` or `format_next_command`, and of its texts in back quotes."""
    for path in sorted(one for room in ROOMS for one in (ROOT / room).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if not re.search(r"`hobus |format_next_here\(|format_next_command\(", source):
            continue
        nodes = list(ast.walk(ast.parse(source)))
        apart = {id(part) for one in nodes if isinstance(one, ast.JoinedStr) for part in one.values}
        apart |= {id(one.body[0].value) for one in nodes if isinstance(one, OF_A_DOCSTRING) and _is_for_readers(one)}
        for node in nodes:
            where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
                "format_next_here",
                "format_next_command",
            ):
                if (command := text_of(node.args[0])) is not None:
                    yield where, command
            elif isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in apart:
                text = " ".join((text_of(node) or "").split())
                yield from ((where, command) for command in re.findall(r"`hobus ([^`]+)`", text))


def _is_for_readers(node: ast.AST) -> bool:
    """Whether its text is read in the source alone: that of a command is its help."""
    body, made_by = getattr(node, "body", ()), getattr(node, "decorator_list", ())
    return bool(body) and isinstance(body[0], ast.Expr) and not any("command" in ast.unparse(one) for one in made_by)


def named() -> Iterator[tuple[str, str]]:
    """(page, command) of every command in back quotes."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL).replace("[--", "--").replace("]`", "`")
        for command in re.findall(r"`hobus ([^`]+)`", prose):
            yield page.name, " ".join(command.split())


def fault_in(line: str, *, is_whole: bool = True) -> str:
    """Why the command line does not take it; empty where it does. What is not whole is a mention: things are left out."""
    line = line.replace("\\|", "|").removesuffix("" if is_whole else " …").replace("…", PLACEHOLDER)
    try:
        words = shlex.split(line)
        if words != shlex.split(line, comments=True):
            return "a shell takes what follows # for a comment"
        faults = [_fault(one, is_whole=is_whole) for one in alternatives(words)]
    except ValueError as error:
        return str(error)
    return next(filter(None, faults), "")


def alternatives(words: list[str]) -> list[list[str]]:
    """`session steer|pause` is two commands."""
    found: list[list[str]] = [[]]
    for word in words:
        found = [
            [*one, other] for one in found for other in (word.split("|") if re.fullmatch(r"[a-z|]+", word) else [word])
        ]
    return found


def _fault(words: list[str], *, is_whole: bool) -> str:
    context, command, rest = click.Context(hobus), hobus, list(words)
    name: list[str] = []
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        if rest[0] == PLACEHOLDER:  # one of the family
            return ""
        found = command.get_command(context, rest[0])
        if found is None:
            if command.invoke_without_command:
                break
            return f"no command {rest[0]!r}"
        name.append(rest.pop(0))
        command = found
    if "--help" in rest or (isinstance(command, click.Group) and not rest):
        return ""
    try:
        made = copy_context().run(command.make_context, "hobus", list(rest))  # it notes whose home is meant
        if (filter_of := FILTERS.get(" ".join(name))) is not None:
            filter_of(made.params["filters"])
    except click.MissingParameter as fault:
        return f"misses {fault.param and fault.param.name}" if is_whole and rest else ""
    except click.BadOptionUsage as fault:
        return fault.message if is_whole or "requires an argument" not in fault.message else ""
    except UsageFault as fault:
        has_hole = any(word in HOLES or word.isupper() for word in rest)  # what is put in there has a form of its own
        return "" if has_hole else f"UsageFault: {fault}"
    except (click.ClickException, CommandError, FilterError) as fault:
        return f"{type(fault).__name__}: {fault}"
    return ""


@pytest.mark.slow
def test_every_command_that_is_printed_is_taken() -> None:
    """Name, options, arguments and filter, as a shell hands them over."""
    found = list(printed())
    assert len(found) > 150
    assert {f"{where} {line}": fault for where, line in found if (fault := fault_in(line))} == {}


def test_every_command_that_a_page_names_is_taken() -> None:
    """Those in back quotes; of blocks `test_readme` speaks."""
    found = list(named())
    assert len(found) > 150
    assert {f"{page} {line}": fault for page, line in found if (fault := fault_in(line, is_whole=False))} == {}


def test_what_is_no_command_is_found() -> None:
    """A wrong name, option, argument, filter, and what a shell leaves out."""
    for line in (
        "lodger show",
        "why --all SES-1",
        "scale",
        "ledger show #5",
        "ledger show 'nothing=1'",
        "ledger show kein",
    ):
        assert fault_in(line) or line == "scale", line
    for line in ("ledger show 5", "why SES-1a2b3c4d-1", "session steer|pause", "ledger show 'type=WO_*'"):
        assert not fault_in(line), line


def test_a_tool_that_a_page_calls_is_one_of_the_agent_that_is_named() -> None:
    """Without `--agent` it is the shipped one's, whose tools are all built in."""
    agent = shipped_snapshot().agents["ADMIN"]
    for page in PAGES:
        for line in hobus_commands(page.read_text(encoding="utf-8")):
            command, rest = resolve(shlex.split(line))
            if command.name == "call":
                given = copy_context().run(command.make_context, "hobus", rest).params
                assert given["agent"] or given["tool_id"] in agent.tools, f"{page.name}: {line}"
