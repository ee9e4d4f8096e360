"""Writing a provider into a home's own configuration: whole and checked, or not at all; a key into its own file."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from hobus.bus.errors import ConfigError
from hobus.config.files import ADMIN_CONFIG
from hobus.config.parse import BadText, json_value
from hobus.config.schema import GatewayConfig
from hobus.config.snapshot import load_snapshot
from hobus.launch.cluster.home import Home, make_private
from hobus.launch.console.errors import RefusedFault, UsageFault, next_command, of_os_error

_LOCK = ".admin_config.lock"
_PRICES = 3
_OF_OPENAI = "api.openai.com"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One new provider."""

    provider_id: str
    kind: str
    base_url: str
    models: tuple[str, ...]
    """`ID` or `ID=INPUT/OUTPUT/CACHED`, dollars per million tokens."""
    any_model: bool
    key: str | None
    """A reference."""
    becomes_default: bool
    entry_point: str = ""
    """Of kind `plugin`, in place of an address."""
    options: tuple[str, ...] = ()
    """Of kind `plugin`: `NAME=VALUE`, the value as JSON, else as the text that it is."""
    secret: str = field(default="", repr=False)
    """A key to be kept in the home; then `key` is where (`key_path`)."""


def key_path(home: Home, provider_id: str) -> Path:
    """Where the home keeps a key of this provider."""
    return home.keys / f"provider-{provider_id}"


def add(home: Home, wanted: Wanted) -> Path:
    """The home's configuration has it from now on; whoever adds at the same time adds one after the other.

    Raises CommandError, ConfigError (then nothing is changed).
    """
    own = home.config / ADMIN_CONFIG
    try:
        with _alone(home):
            before = _written(own)
            shipped = load_snapshot(home.config).config.gateway
            if wanted.provider_id in shipped.providers:
                raise RefusedFault(
                    f"there is a provider {wanted.provider_id} already",
                    hint=f"choose another name, or change it in {own}; {next_command('provider list', home.root)}",
                )
            _replace(home, own, _with(before, wanted, shipped), wanted)
    except OSError as error:
        raise of_os_error(error, doing=f"{own} cannot be written") from error
    return own


@contextmanager
def _stored(home: Home, wanted: Wanted) -> Generator[None]:
    """The key stands in a file of this user alone if what is done meanwhile succeeds; no older one is replaced."""
    if not wanted.secret:
        yield
        return
    path = key_path(home, wanted.provider_id)
    make_private(home.keys)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise RefusedFault(
            f"{path} holds a key already", hint=f"use it with --key file:{path}, or remove it first"
        ) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{wanted.secret}\n")
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def instance_of(wanted: Wanted, gateway: GatewayConfig) -> dict[str, Any]:
    """Its settings. Raises CommandError for a price, or an option, that is none."""
    instance: dict[str, Any] = {
        "kind": wanted.kind,
        "key": wanted.key,
        "models": [_model(text) for text in wanted.models],
        "any_model": wanted.any_model,
        "concurrency_max": gateway.providers["offline"].concurrency_max,
    }
    if wanted.kind == "plugin":
        options = dict(_option(text) for text in wanted.options)
        return instance | {"entry_point": wanted.entry_point, "options": options}
    # Anthropic's SDK has no word for a temperature any more, and its newer models refuse one.
    omit = ["temperature"] if wanted.kind == "anthropic" else []
    instance |= {"base_url": wanted.base_url, "structured": "json_schema", "omit": omit}
    if wanted.kind == "openai":
        instance["max_tokens_field"] = "max_completion_tokens" if _is_theirs(wanted.base_url) else "max_tokens"
    return instance


def _option(text: str) -> tuple[str, Any]:
    name, separator, said = text.partition("=")
    if not name or not separator:
        raise UsageFault(
            f"--option {text[:64]}: an option is NAME=VALUE", hint="--option prefix=hello, or --option depth=3"
        )
    try:
        return name, json_value(said)
    except BadText:
        return name, said


def _is_theirs(base_url: str) -> bool:
    try:
        return urlsplit(base_url).hostname == _OF_OPENAI
    except ValueError:  # no address at all: who checks the configuration says so
        return False


def _model(text: str) -> dict[str, Any]:
    model_id, separator, said = text.partition("=")
    prices: list[float | None] = [None] * _PRICES
    if separator:
        try:
            prices = [float(part) for part in said.split("/")]
        except ValueError:
            prices = []
        if len(prices) != _PRICES or not all(price is not None and 0 <= price < 1e6 for price in prices):  # noqa: PLR2004 - also false for nan
            raise UsageFault(
                f"--model {model_id}: a price is INPUT/OUTPUT/CACHED, dollars per million tokens",
                hint=f"--model {model_id}=2.5/10/1.25, or --model {model_id} where it is unknown",
            )
    names = ("input_usd_per_million", "output_usd_per_million", "cached_usd_per_million")
    return {"model_id": model_id, **dict(zip(names, prices, strict=True))}


def _with(before: Mapping[str, Any], wanted: Wanted, shipped: GatewayConfig) -> dict[str, Any]:
    """What the file held, and the new one."""
    after: dict[str, Any] = json.loads(json.dumps(before))
    gateway = _part(after, "gateway")
    _part(gateway, "providers")[wanted.provider_id] = instance_of(wanted, shipped)
    if wanted.becomes_default:
        model_id = wanted.models[0].partition("=")[0]
        gateway["default_route"] = {"provider_id": wanted.provider_id, "model_id": model_id}
    return after


def _part(value: dict[str, Any], name: str) -> dict[str, Any]:
    return cast("dict[str, Any]", value.setdefault(name, {}))


@contextmanager
def _alone(home: Home) -> Generator[None]:
    make_private(home.config)
    with (home.config / _LOCK).open("w", encoding="utf-8") as file:  # a hidden file is no governed one
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        yield


def _written(own: Path) -> dict[str, Any]:
    """What the file holds; nothing where there is none. A file with faults is left to who checks it."""
    try:
        value = json_value(own.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (UnicodeDecodeError, BadText) as error:
        raise ConfigError(f"{own}: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{own}: holds {type(value).__name__}, not an object")
    return cast("dict[str, Any]", value)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _replace(home: Home, own: Path, value: Mapping[str, Any], wanted: Wanted) -> None:
    """The file holds this if it is a valid configuration, and the key is kept; else all is as it was.

    Raises ConfigError, CommandError, OSError.
    """
    beside = own.with_name(f".{own.name}.new")
    try:
        with open(beside, "w", encoding="utf-8", opener=_private) as file:
            file.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            load_snapshot(home.config, beside)
        except ConfigError as fault:
            said = str(fault).replace(str(beside), str(own))
            raise ConfigError(f"{said}\nnothing was changed") from None
        with _stored(home, wanted):
            beside.replace(own)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
