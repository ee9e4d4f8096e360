"""`hobus provider`: which models there are, whether they can be reached, and adding one."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from hobus.config.files import Layers
from hobus.config.load import merge, read_settings
from hobus.config.schema import AdminConfig
from hobus.config.sections.gateway import AnyProvider, GatewayConfig
from hobus.gateway_service.providers.keys import find_key_fault
from hobus.launch.cli.commands.options import Family, Output, with_home, with_json
from hobus.launch.cluster import own_config
from hobus.launch.cluster.home import Home, make_private
from hobus.launch.cluster.own_config import Settings
from hobus.launch.cluster.vendors import ADDRESSES, make_wire_settings
from hobus.launch.console import finding
from hobus.launch.console.errors import RefusedFault, UsageFault, format_next_command
from hobus.launch.console.output import is_terminal, say, style
from hobus.launch.console.view import Columns, print_rows

_PRICES = ("input_usd_per_million", "output_usd_per_million", "cached_usd_per_million")


@click.group(cls=Family)
def provider() -> None:
    """List, check and add providers of models; docs/providers.md describes each kind."""


@provider.command(name="list")
@with_json
def list_providers(*, home: Home) -> Output:
    """List the configured providers: kind, address, models, place of the key, routes."""
    gateway = _read_settings(home).gateway
    rows = [_make_row(provider_id, one, gateway) for provider_id, one in sorted(gateway.providers.items())]
    columns: Columns = {
        "PROVIDER": "provider_id", "KIND": "kind", "ADDRESS": "address",
        "MODELS": lambda row: ", ".join(row["models"] + ["any"] * row["any_model"]) or "none", "KEY": "key",
        "ROUTES": "routes",
    }  # fmt: skip
    return Output({"providers": rows}, lambda: print_rows(rows, columns))


def _read_settings(home: Home) -> AdminConfig:
    """Return what the home's settings say, whatever is wrong with its other files. Raises ConfigError."""
    own = own_config.make_path(home)
    return read_settings(Layers(config_file=own if own.is_file() else None))


def _make_row(provider_id: str, config: AnyProvider, gateway: GatewayConfig) -> dict[str, Any]:
    """Return address (unless in the gateway), where the key is, never the key, `default` and domain tags."""
    default = ["default"] if gateway.default_route.provider_id == provider_id else []
    tags = [tag for tag, route in sorted(gateway.domain_tag_routes.items()) if route.provider_id == provider_id]
    match config.kind:
        case "openai" | "anthropic":
            address = config.base_url
        case "plugin":
            address = f"entry point {config.entry_point}"
        case "offline":
            address = ""
    return {
        "provider_id": provider_id,
        "kind": config.kind,
        "address": address,
        "models": [model.model_id for model in config.models],
        "any_model": config.any_model,
        "key": "" if config.kind == "offline" else config.key or "",
        "routes": default + tags,
    }


@provider.command(name="check")
@click.argument("names", metavar="[PROVIDER]...", nargs=-1)
@with_json
def check_providers(*, home: Home, names: tuple[str, ...]) -> Output:
    """Load each provider's library, read its key, list its models; report which part fails and the fix.

    Default: all providers. It sends no prompt. Exit code 1 if anything fails.
    """
    from hobus.launch.cli.provider_check import check  # noqa: PLC0415 - loads the gateway

    config = _read_settings(home)
    known = config.gateway.providers
    if unknown := [name for name in names if name not in known]:
        raise UsageFault(
            f"there is no provider {', '.join(name[:64] for name in unknown)}; configured: {', '.join(known)}",
            hint=format_next_command("provider add", home.root),
        )
    given = dict(os.environ)  # before an SDK's own variables are taken away from it
    found = [one for name in names or sorted(known) for one in check(name, config, given)]
    code = finding.choose_code(found)
    return Output({"ok": not code, "checks": found}, lambda: finding.show(found), code)


@provider.command(name="add")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["openai", "anthropic"]),
    default="openai",
    show_default=True,
    help="openai: any server of chat completions.",
)
@click.option("--base-url", metavar="URL", help="Address of its API; default: the vendor's own.")
@click.option(
    "--model",
    "models",
    metavar="ID[=IN/OUT/CACHED]",
    multiple=True,
    help="A model, and its prices in $ per million tokens.",
)
@click.option("--any-model", is_flag=True, help="Allow other models, at an unknown price.")
@click.option("--sees", is_flag=True, help="Its models take images.")
@click.option("--context-tokens", type=click.IntRange(min=1), help="Window of its models; default: as the server says.")
@click.option(
    "--key",
    metavar="REF",
    default="none",
    show_default=True,
    help="env:NAME, file:PATH, stdin (stored in a private file) or none.",
)
@click.option("--default", "becomes_default", is_flag=True, help="Make its first model the default.")
@with_home
def add_provider(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    name: str,
    kind: str,
    base_url: str | None,
    models: tuple[str, ...],
    any_model: bool,
    sees: bool,
    context_tokens: int | None,
    key: str,
    becomes_default: bool,
) -> None:
    """Add a provider to the home's configuration.

    The configuration holds a reference to the key, never the key.
    """
    if not models and not any_model:
        raise UsageFault("missing --model", hint="hobus provider add --help")
    if becomes_default and not models:
        raise UsageFault("--default needs a --model")
    secret = _read_secret() if key == "stdin" else ""
    kept = home.keys / f"provider-{name}"
    instance = {
        "kind": kind,
        "key": {"stdin": f"file:{kept}", "none": None}.get(key, key),
        "models": [{**_parse_model(text), "sees": sees, "context_tokens": context_tokens} for text in models],
        "any_model": any_model,
        **make_wire_settings(kind, (base_url or ADDRESSES[kind]).rstrip("/")),
    }

    def with_it(own: Settings) -> Settings:
        gateway = _read_settings(home).gateway
        if name in gateway.providers:
            raise RefusedFault(
                f"there is a provider {name} already",
                hint=f"choose another name, or change it in {path}; {format_next_command('provider list', home.root)}",
            )
        shared = {"concurrency_max": gateway.providers["offline"].concurrency_max}
        added: dict[str, Any] = {"providers": {name: instance | shared}}
        if becomes_default:
            added["default_route"] = {"provider_id": name, "model_id": models[0].partition("=")[0]}
        return merge(own, {"gateway": added})

    path = own_config.make_path(home)
    own_config.change(home, with_it, beside=_store_key(home, kept, secret) if secret else None)
    say(style("ok", "green"), f"  provider {name} is in {path}")
    say(
        f"next: {format_next_command(f'provider check {name}', home.root)}; a running cluster uses it after "
        f"{format_next_command('reload', home.root)}"
    )


def _read_secret() -> str:
    """Read a key from standard input, not shown where it is typed. Raises CommandError for what is none."""
    try:
        is_typed = is_terminal(sys.stdin) and is_terminal(sys.stderr)
        text = str(click.prompt("Key", hide_input=True, err=True)) if is_typed else sys.stdin.readline()
    except UnicodeDecodeError:
        raise UsageFault("standard input holds no key: it is not UTF-8") from None
    key = text.removesuffix("\n").removesuffix("\r")
    if (fault := find_key_fault(key)) is not None:
        said, fix = fault
        raise UsageFault(f"standard input holds no key: it {said}", hint=fix)
    return key


@contextmanager
def _store_key(home: Home, path: Path, secret: str) -> Generator[None]:
    """Store the key in a private file if what is done meanwhile succeeds; replace no older one."""
    make_private(home.keys)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise RefusedFault(
            f"{path} holds a key already", hint=f"use it with --key file:{path}, or remove it first"
        ) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{secret}\n")
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _parse_model(text: str) -> dict[str, Any]:
    model_id, separator, said = text.partition("=")
    if not separator:
        return {"model_id": model_id, **dict.fromkeys(_PRICES)}
    try:
        prices = dict(zip(_PRICES, map(float, said.split("/")), strict=True))
        if all(0 <= price < 1e6 for price in prices.values()):  # noqa: PLR2004 - also false for nan
            return {"model_id": model_id, **prices}
    except ValueError:
        pass
    raise UsageFault(
        f"--model {model_id}: a price is INPUT/OUTPUT/CACHED, dollars per million tokens",
        hint=f"--model {model_id}=2.5/10/1.25, or --model {model_id} where it is unknown",
    )
