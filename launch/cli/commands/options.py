"""What commands take and how they end: `--home`, `--debug`, `--json`, filters, lengths of time."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import click

from hobus.launch.cluster.home import home_of
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import UsageFault, is_about
from hobus.launch.console.output import as_json as json_text
from hobus.launch.console.output import say
from hobus.launch.filters.meaning import Filter, S
from hobus.launch.filters.quantities import duration_of
from hobus.launch.filters.syntax import FilterError

DEFAULT_HOME = ".hobus"


def with_home(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets `home: Home` from `--home`, else HOBUS_HOME, else `.hobus` in the current directory."""

    @click.option("--home", "home_path", metavar="DIR", help="State directory (default: $HOBUS_HOME, else .hobus).")
    @click.option("--debug", "_debug", is_flag=True, help="Show tracebacks and the command's own log.")
    @click.pass_context
    @functools.wraps(command)
    def with_home_argument(ctx: click.Context, /, home_path: str | None, _debug: bool, **arguments: Any) -> Any:
        given = home_path or (ctx.find_root().obj or {}).get("home") or os.environ.get("HOBUS_HOME") or DEFAULT_HOME
        home = home_of(Path(given))
        is_about(home.root)
        return command(home=home, **arguments)

    return with_home_argument


class Output(NamedTuple):
    """What a command found: the document that programs get, what prints it for people, and the exit code."""

    document: Any
    show: Callable[[], object]
    exit_code: int = exit_codes.OK
    indent: int | None = 1


def with_json(command: Callable[..., Output] | None = None, *, says: str = "One JSON object.") -> Callable[..., Any]:
    """`--json` prints the document of what the command returns; else it is shown to a person."""
    if command is None:
        return functools.partial(with_json, says=says)

    @click.option("--json", "_as_json", is_flag=True, help=says)
    @functools.wraps(command)
    def printed(*, _as_json: bool, **arguments: Any) -> int:
        found = command(**arguments)
        if _as_json:
            say(json_text(found.document, indent=found.indent))
        else:
            found.show()
        return found.exit_code

    return printed


def wants_json() -> bool:
    """Whether this command was given `--json`."""
    return bool(click.get_current_context().params.get("_as_json"))


def filter_given(
    make: Callable[[tuple[str, ...]], Filter[S]], texts: tuple[str, ...], *, names: Iterable[str], example: str
) -> Filter[S]:
    """The filter behind the arguments. Raises UsageFault, which points at the place and names the fields."""
    try:
        return make(texts)
    except FilterError as error:
        fields = f"  fields: {', '.join(sorted(names))}"
        raise UsageFault(f"not a filter: {error.message}\n{error.pointed()}\n{fields}", hint=example) from None


def duration_given(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """The seconds behind `10m`, `90s`, `1h` or a plain number; None if nothing was given."""
    if value is None:
        return None
    try:
        return duration_of(value)
    except ValueError as error:
        raise click.BadParameter(f"{value}: {error}", ctx, parameter) from None
