"""`hobus config`: the governed configuration, checked, shown and changed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from hobus.bus.errors import ConfigError
from hobus.config.files import ADMIN_CONFIG, SHIPPED_ROOT, find
from hobus.config.load import merged
from hobus.config.own_settings import NoSuchSetting, laid_over, schema_of_own, settings_in, taken_away
from hobus.config.parse import BadText, json_value
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import load_snapshot
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.home import Home, make_private
from hobus.launch.cluster.run_file import cluster_gone
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, next_command, of_os_error
from hobus.launch.console.output import as_json, say, styled, table
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan import make_plan

_JSON = click.option("--json", "as_json_", is_flag=True, help="One JSON object.")


@click.group()
def config() -> None:
    """Check, show and change the configuration."""


@config.command()
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="Laid over the shipped admin_config.json."
)
@_JSON
@with_home
def check(*, home: Home, config_file: Path | None, as_json_: bool) -> int:
    """Load, validate and freeze everything governed; print the digest and where each file came from."""
    snapshot = make_plan(home, StartOptions(config_file=config_file)).snapshot
    origins = {str(name): str(origin) for name, origin in snapshot.origins.items()}
    if as_json_:
        say(as_json({"digest": snapshot.digest, "files": origins}, indent=1))
        return exit_codes.OK
    table(("FILE", "ORIGIN"), list(origins.items()))
    replaced = sum(1 for origin in origins.values() if origin != "shipped")
    say(f"{styled('ok', 'green')}  {len(origins)} files, {replaced} replaced, digest {snapshot.digest}")
    return exit_codes.OK


@config.command()
@click.argument("prefix", metavar="[SETTING]", default="")
@click.option("--origin", "with_origin", is_flag=True, help="Also where each value comes from.")
@_JSON
@with_home
def show(*, home: Home, prefix: str, with_origin: bool, as_json_: bool) -> int:
    """Show every setting as the next start would use it, or SETTING and those below it, such as ho2 or ho2.runs_max."""
    own = _own(home)
    said, values = settings_in(own), settings_in(merged(_shipped(), own))
    found = {path: value for path, value in values.items() if not prefix or _is_below(path, prefix)}
    if not found:
        raise CommandError(f"there is no setting {prefix}", hint="hobus config show", exit_code=exit_codes.USAGE)
    origins = {path: _file_of(home) if _is_said(path, said) else "shipped" for path in found}
    if as_json_:
        rows = [{"setting": path, "value": value, "origin": origins[path]} for path, value in found.items()]
        say(as_json({"settings": rows}, indent=1))
    elif with_origin:
        table(("SETTING", "VALUE", "ORIGIN"), [(path, _json_text(one), origins[path]) for path, one in found.items()])
    else:
        table(("SETTING", "VALUE"), [(path, _json_text(value)) for path, value in found.items()])
    return exit_codes.OK


@config.command()
@_JSON
@with_home
def diff(*, home: Home, as_json_: bool) -> int:
    """Show what differs from the shipped configuration: settings of admin_config.json, and other files of the home."""
    shipped, own = settings_in(_shipped()), _own(home)
    values = settings_in(merged(_shipped(), own))
    paths = [path for path in {**shipped, **values} if shipped.get(path, _NONE) != values.get(path, _NONE)]
    found, _faults = find(_overrides(home), None)
    files = [name for name, file in found.items() if not file.is_shipped and name != ADMIN_CONFIG]
    if as_json_:
        rows = [{"setting": path, "shipped": shipped.get(path), "here": values.get(path)} for path in paths]
        say(as_json({"settings": rows, "files": files}, indent=1))
        return exit_codes.OK
    if paths:
        cells = [(path, _cell(shipped, path), _cell(values, path)) for path in paths]
        table(("SETTING", "SHIPPED", "HERE"), cells)
    for name in files:
        say(f"file of this home: {home.config / name}")
    if not paths and not files:
        say("everything is as it is shipped")
    return exit_codes.OK


@config.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("setting", metavar="SETTING")
@click.argument("value", metavar="VALUE")
@with_home
def set_(*, home: Home, setting: str, value: str) -> int:
    """Give SETTING another value from the next start on. VALUE is JSON (7, true, ["a"]), else it is a text."""
    try:
        given = json_value(value)
    except BadText:
        given = value
    return _changed(home, _laid_over(home, setting, given))


@config.command()
@click.argument("setting", metavar="SETTING")
@with_home
def unset(*, home: Home, setting: str) -> int:
    """Let SETTING, and all below it, be as it is shipped from the next start on."""
    try:
        changed = taken_away(_own(home), setting)
    except NoSuchSetting as error:
        raise _refused(error) from None
    return _changed(home, changed)


@config.command()
@with_home
def schema(*, home: Home) -> int:
    """Print the JSON Schema of a home's admin_config.json, for editors that complete and check it."""
    del home  # the same for all of them
    say(as_json(schema_of_own(AdminConfig.model_json_schema()), indent=1))
    return exit_codes.OK


_NONE = object()


def _laid_over(home: Home, setting: str, value: Any) -> dict[str, Any]:
    """The home's own file with this setting. Raises CommandError (usage)."""
    try:
        return laid_over(_shipped(), _own(home), setting, value)
    except NoSuchSetting as error:
        raise _refused(error) from None


def _refused(error: NoSuchSetting) -> CommandError:
    return CommandError(str(error), hint="hobus config show", exit_code=exit_codes.USAGE)


def _changed(home: Home, own: dict[str, Any]) -> int:
    """The file is replaced whole, once the configuration with it was found good. Raises CommandError, ConfigError."""
    before = settings_in(merged(_shipped(), _own(home)))
    target, text = home.config / ADMIN_CONFIG, f"{json.dumps(own, indent=2, ensure_ascii=False)}\n"
    with tempfile.TemporaryDirectory() as directory:
        candidate = Path(directory) / ADMIN_CONFIG
        candidate.write_text(text, encoding="utf-8")
        try:
            digest = load_snapshot(_overrides(home), candidate).digest
        except ConfigError as error:
            faults = error.detail.replace(str(candidate), str(target))
            raise CommandError(
                f"nothing was changed: {faults}", hint="hobus config show", exit_code=exit_codes.USAGE
            ) from None
    try:
        make_private(home.config)
        new = target.with_name(f".{target.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(target)
    except OSError as error:
        raise of_os_error(error, doing=f"{target} cannot be written") from error
    after = settings_in(merged(_shipped(), own))
    for path, value in after.items():
        if before.get(path, _NONE) != value:
            say(f"{path} = {_json_text(value)}")
    when = "from the next start on" if cluster_gone(home) else f"after {next_command('down', home.root)} and a start"
    say(f"{styled('ok', 'green')}  {target}, digest {digest}; it holds {when}")
    return exit_codes.OK


def _shipped() -> dict[str, Any]:
    return json_value((SHIPPED_ROOT / ADMIN_CONFIG).read_text(encoding="utf-8"))


def _own(home: Home) -> dict[str, Any]:
    """What the home's own file says; nothing where there is none. Raises CommandError (usage)."""
    path = home.config / ADMIN_CONFIG
    try:
        value = json_value(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (BadText, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: {error}", hint="mend the file", exit_code=exit_codes.USAGE) from None
    except OSError as error:
        raise of_os_error(error, doing=f"{path} cannot be read") from error
    if not isinstance(value, dict):
        raise CommandError(f"{path}: not an object", hint="mend the file", exit_code=exit_codes.USAGE)
    return value


def _overrides(home: Home) -> Path | None:
    return home.config if home.config.is_dir() else None


def _file_of(home: Home) -> str:
    return str(home.config / ADMIN_CONFIG)


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}.")


def _is_said(path: str, said: Mapping[str, Any]) -> bool:
    """Whether the own file says it, or something that it stands in."""
    return any(_is_below(path, one) for one in said)


def _cell(values: Mapping[str, Any], path: str) -> str:
    return _json_text(values[path]) if path in values else "-"


def _json_text(value: Any) -> str:
    """The value as it is typed."""
    return as_json(value)
