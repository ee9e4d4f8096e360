"""`hobus provider`: which models there are, whether they can be reached, and adding one."""

from __future__ import annotations

import os
import sys

import click

from hobus.gateway_service.providers.keys import key_fault
from hobus.launch.cli import checkup
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cli.providers.add import Wanted, add, key_path
from hobus.launch.cli.providers.check import check
from hobus.launch.cli.providers.rows import provider_lines
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import UsageFault, next_command
from hobus.launch.console.output import as_json, is_terminal, say, styled, table
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan import make_plan

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
_ADDRESSES = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}


@click.group()
def provider() -> None:
    """List, check and add providers of models; docs/providers.md tells of each kind."""


@provider.command(name="list")
@click.option("--json", "as_json_", is_flag=True, help="One JSON array.")
@with_home
def list_providers(*, home: Home, as_json_: bool) -> int:
    """List what the home's configuration has: kinds, addresses, models, where keys are, and what is routed there."""
    lines = provider_lines(make_plan(home, StartOptions()).snapshot.config.gateway)
    if as_json_:
        say(as_json([line.model_dump() for line in lines], indent=1))
        return exit_codes.OK
    table(
        ("PROVIDER", "KIND", "ADDRESS", "MODELS", "KEY", "ROUTES"),
        [
            (
                line.provider_id,
                line.kind,
                line.address or "-",
                ", ".join(line.models + (["any"] if line.any_model else [])) or "none",
                line.key or "-",
                ", ".join(line.routes) or "-",
            )
            for line in lines
        ],
    )
    return exit_codes.OK


@provider.command(name="check")
@click.argument("names", metavar="[PROVIDER]...", nargs=-1)
@click.option("--json", "as_json_", is_flag=True, help="One JSON object.")
@with_home
def check_providers(*, home: Home, names: tuple[str, ...], as_json_: bool) -> int:
    """Load each provider's library, read its key, ask it for its models; say which part fails and what mends it.

    Without PROVIDER all of them. No prompt is sent. Exit code 1 if anything fails.
    """
    snapshot = make_plan(home, StartOptions()).snapshot
    known = snapshot.config.gateway.providers
    if unknown := [name for name in names if name not in known]:
        raise UsageFault(
            f"there is no provider {', '.join(name[:64] for name in unknown)}; configured: {', '.join(known)}",
            hint=next_command("provider add", home.root),
        )
    given = dict(os.environ)  # before an SDK's own variables are taken away from it
    found = [one for name in names or sorted(known) for one in check(name, snapshot, given)]
    code = checkup.code_of(found)
    if as_json_:
        say(as_json({"ok": code == exit_codes.OK, "checks": [one.model_dump() for one in found]}, indent=1))
        return code
    width = max(len(one.check) for one in found)
    for one in found:
        say(f"{styled(one.verdict.ljust(4), _COLOURS[one.verdict])}  {one.check.ljust(width)}  {one.said}")
        if one.mend:
            say(f"      {' ' * width}  next: {one.mend}")
    return code


@provider.command(name="add")
@click.argument("name", required=False)
@click.option(
    "--kind",
    type=click.Choice(["openai", "anthropic", "plugin"]),
    help="openai: any server of chat completions; plugin: a class of an installed package.",
)
@click.option("--base-url", metavar="URL", help="Where it is; without it the maker's own address.")
@click.option(
    "--model",
    "models",
    metavar="ID[=IN/OUT/CACHED]",
    multiple=True,
    help="A model, and its prices in $ per million tokens.",
)
@click.option("--any-model", is_flag=True, help="Others may be asked for, too, at an unknown price.")
@click.option("--key", metavar="REF", help="env:NAME, file:PATH, stdin (kept in a file of this user alone) or none.")
@click.option("--entry-point", metavar="NAME", help="Of kind plugin: its name in the group hobus.providers.")
@click.option(
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    help="Of kind plugin: what it is given (JSON, or a text).",
)
@click.option("--default", "becomes_default", is_flag=True, help="What names no provider goes to its first model.")
@with_home
def add_provider(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    name: str | None,
    kind: str | None,
    base_url: str | None,
    models: tuple[str, ...],
    any_model: bool,
    key: str | None,
    entry_point: str | None,
    options: tuple[str, ...],
    becomes_default: bool,
) -> int:
    """Add a provider to the home's configuration; on a terminal what is missing is asked for.

    A key never stands in the configuration, only where it is.
    """
    asks = is_terminal(sys.stdin) and is_terminal(sys.stderr)
    name = name or _asked("Name", asks, flag="NAME")
    kind = kind or _asked("Kind (openai, anthropic, plugin)", asks, flag="--kind", default="openai")
    for flag, is_given in (("--entry-point", bool(entry_point)), ("--option", bool(options))):
        if is_given and kind != "plugin":
            raise UsageFault(f"{flag} is for kind plugin")
    if kind == "plugin":
        if base_url is not None:
            raise UsageFault("--base-url is for kinds openai and anthropic")
        entry_point = entry_point or _asked("Entry point", asks, flag="--entry-point")
    elif base_url is None:
        base_url = _asked("Address", asks, flag="", default=_ADDRESSES.get(kind, ""))
    if not models and not any_model:
        said = _asked("Models, with commas between them", asks, flag="--model")
        models = tuple(part.strip() for part in said.split(",") if part.strip())
    if key is None:
        key = _asked("Key: env:NAME, file:PATH, stdin to type it, or none", asks, flag="--key", default="none")
    if becomes_default and not models:
        raise UsageFault("--default needs a --model")
    secret = ""
    if key == "stdin":
        secret, key = _secret(asks=asks), f"file:{key_path(home, name)}"
    wanted = Wanted(
        provider_id=name,
        kind=kind,
        base_url=(base_url or "").rstrip("/"),
        models=models,
        any_model=any_model,
        key=None if key == "none" else key,
        becomes_default=becomes_default,
        entry_point=entry_point or "",
        options=options,
        secret=secret,
    )
    path = add(home, wanted)
    say(f"{styled('ok', 'green')}  provider {name} is in {path}")
    say(f"next: {next_command(f'provider check {name}', home.root)}; a running cluster knows it after down and up")
    return exit_codes.OK


def _asked(what: str, asks: bool, *, flag: str, default: str | None = None) -> str:
    """What somebody types; without a terminal the default, where leaving the flag out is an answer."""
    if asks:
        return str(click.prompt(what, default=default, err=True))
    if flag and default is None:
        raise UsageFault(f"missing {flag}", hint="hobus provider add --help")
    return default or ""


def _secret(*, asks: bool) -> str:
    """A key from standard input, not shown where it is typed. Raises CommandError for what is none."""
    try:
        text = str(click.prompt("Key", hide_input=True, err=True)) if asks else sys.stdin.readline()
    except UnicodeDecodeError:
        raise UsageFault("standard input holds no key: it is not UTF-8") from None
    key = text.removesuffix("\n").removesuffix("\r")
    if (fault := key_fault(key)) is not None:
        said, mend = fault
        raise UsageFault(f"standard input holds no key: it {said}", hint=mend)
    return key
