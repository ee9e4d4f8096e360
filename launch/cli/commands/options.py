"""What commands take and how they end: `--home`, `--debug`, `--json`, filters, lengths of time."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hobus.bus.messages.base import SENDABLE_MAX
from hobus.launch.cluster.home import Home, is_worker, make_home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import DEFAULT_HOME, UsageFault, format_next_here, is_about
from hobus.launch.console.output import as_json as json_text
from hobus.launch.console.output import go_silent, say
from hobus.launch.filters.quantities import parse_duration

if TYPE_CHECKING:
    from hobus.launch.filters.meaning import S, Test


def _choose_home(ctx: click.Context, _parameter: click.Parameter, given: str | None) -> Home:
    """Return the home that is meant, before anything else is looked at: what is told of the rest names it."""
    meant: str = given or (ctx.find_root().obj or {}).get("home") or os.environ.get("HOBUS_HOME") or DEFAULT_HOME
    home = make_home(Path(meant))
    if ctx.resilient_parsing:
        return home
    is_about(home.root)
    if is_worker(home.root) and ctx.command.name != "logs":
        raise UsageFault(
            f"{home.root} is the directory of a worker: no cluster runs in it",
            hint="the cluster's commands run on its own host; the worker ends by Ctrl-C, or SIGTERM",
        )
    return home


def with_home(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command `home: Home` from `--home`, else HOBUS_HOME, else `.hobus` in the current directory."""
    said = "State directory (default: $HOBUS_HOME, else .hobus)."
    return click.option("--home", metavar="DIR", callback=_choose_home, is_eager=True, help=said)(
        click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks and the command's own log.")(
            command
        )
    )


class Family(click.Group):
    """Commands of one family; its help says the first sentence of each whole, in as many rows as that takes.

    `elsewhere`: name -> the module in `commands/` that has that command, imported when it is named.
    """

    def __init__(self, *given: Any, elsewhere: Mapping[str, str] | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self._elsewhere = elsewhere or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._elsewhere})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._elsewhere:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"hobus.launch.cli.commands.{self._elsewhere[cmd_name]}")
        found: click.Command = vars(module)[cmd_name]
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        members = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, one.get_short_help_str(limit=sys.maxsize)) for name, one in members if one is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Output(NamedTuple):
    """What a command found: the document that programs get, what prints it for people, and the exit code."""

    document: Any
    """Or a function that makes it, where that takes a while and people do not need it."""
    show: Callable[[], object]
    exit_code: int = exit_codes.OK
    indent: int | None = 1


with_config_file = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Settings that replace those of the shipped admin_config.json.",
)
"""The command gets `config_file: Path | None`."""

HTTP = "127.0.0.1:8420"
"""Where the HTTP door is when nobody says where: this machine alone."""
with_http = click.option(
    "--http",
    is_flag=False,
    flag_value=HTTP,
    metavar="[HOST:PORT]",
    help=f"Open the HTTP door, at {HTTP} by default; port 0: any free one.",
)
"""The command gets `http: str | None`."""


def with_json(command: Callable[..., Output]) -> Callable[..., Any]:
    """Print with `--json` the document of what the command returns, else show it to a person; `home` as `with_home`."""

    @click.option("--json", "_as_json", is_flag=True, help="One JSON object.")
    @with_home
    @functools.wraps(command)
    def printed(*, _as_json: bool, **arguments: Any) -> int:
        found = command(**arguments)
        document = found.document() if _as_json and callable(found.document) else found.document
        try:
            if _as_json:
                say(json_text(document, indent=found.indent))
            else:
                found.show()
        except BrokenPipeError:
            go_silent()  # `hobus gates --enforce | head -1`: what was found is no other thing for not being read
        return found.exit_code

    return printed


def filter_given(
    make: Callable[[tuple[str, ...]], Test[S]], texts: tuple[str, ...], *, names: Iterable[str], example: str
) -> Test[S]:
    """Return the filter behind the arguments. Raises UsageFault, which points at the place and names the fields."""
    from hobus.launch.filters.syntax import FilterError  # noqa: PLC0415 - of those that filter

    try:
        return make(texts)
    except FilterError as error:
        fields = f"  fields: {', '.join(sorted(names))}"
        told = f"not a filter: {error.message}\n{error.point_at()}\n{fields}"
        raise UsageFault(told, hint=format_next_here(example)) from None


class _Duration(click.ParamType[float]):
    """Seconds, from `90`, `500ms`, `1.5h`, `1h30m`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(f"{value}: {error}", param, ctx)


DURATION = _Duration()
"""The type of every option that takes a length of time."""


class Sent(click.IntRange):
    """A whole number that stands in a message."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return a number that the wire can carry. Fails as click does."""
        number = super().convert(value, param, ctx)
        if number > SENDABLE_MAX:
            self.fail(f"{value}: expected at most {SENDABLE_MAX}", param, ctx)
        return number
