"""`hobus config`: the governed configuration, checked, shown and changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from hobus.config.attention_template import make_template_schema
from hobus.config.files import ADMIN_CONFIG, OWN, SHIPPED, find
from hobus.config.load import merge
from hobus.config.mcp_block import KEY, PastedServer
from hobus.config.own_settings import (
    NoSuchSetting,
    describe_no_such,
    flatten_settings,
    lay_over,
    make_own_schema,
    take_away,
)
from hobus.config.parse import BadText, parse_json
from hobus.config.schema import AdminConfig
from hobus.config.secret_refs import redact
from hobus.launch.cli.commands.options import Family, Output, with_config_file, with_home, with_json
from hobus.launch.cluster import own_config, run_file
from hobus.launch.cluster.config_changed import find_changes
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import find_layers
from hobus.launch.cluster.own_config import Settings
from hobus.launch.cluster.run_file import find_gone
from hobus.launch.console.errors import UsageFault, format_next_command, format_next_here
from hobus.launch.console.output import (
    as_json,
    format_count,
    note,
    note_coloured,
    print_table,
    say,
    shorten_path,
    style,
)
from hobus.launch.launcher import tool_check
from hobus.launch.launcher.gates import make_checked_plan
from hobus.launch.launcher.options import StartOptions


@click.group(cls=Family)
def config() -> None:
    """Check, show and change the configuration."""


@config.command()
@with_config_file
@with_json
def check(*, home: Home, config_file: Path | None) -> Output:
    """Validate all governed files; print the digest and the origin of each file.

    Exit 3 if a gate fails for the files (hobus gates).
    """
    plan, found = make_checked_plan(home, StartOptions(config_file=config_file))
    snapshot, warned = plan.snapshot, [one for one in found if one.severity == "warn"]
    noted = [one for one in found if one.severity == "note" and one.gate == "G3"]
    withheld = tool_check.list_withheld(snapshot)
    origins = {str(name): str(origin) for name, origin in snapshot.origins.items()}

    def show() -> None:
        own = {name: "this home" for name, origin in origins.items() if origin == str(home.config / name)}
        print_table(("FILE", "ORIGIN"), list({**origins, **own}.items()))
        for told in withheld:
            note_coloured(f"warning: {told}", "yellow")
        for one in warned:
            note_coloured(f"warning: {one.line}", "yellow")
        for one in noted:
            note(f"note: {one.file}: {one.reason}")
        own_count = sum(origin != SHIPPED for origin in origins.values())
        say(
            style("ok", "green"),
            f"  {format_count(len(origins), 'file')}, {own_count} not shipped, digest {snapshot.digest}",
        )

    return Output(
        {
            "digest": snapshot.digest,
            "files": origins,
            "versions": {name: file.model_dump() for name, file in snapshot.files.items()},
            "withheld": withheld,
            "findings": [one._asdict() for one in found],
        },
        show,
    )


@config.command()
@click.argument("prefix", metavar="[SETTING]", default="")
@click.option("--origin", "with_origin", is_flag=True, help="Also show the origin of each value.")
@with_json
def show(*, home: Home, prefix: str, with_origin: bool) -> Output:
    """Show the settings of the next start, all or those at SETTING, such as ho2 or ho2.count.

    A secret in clear is hidden, and its place named.
    """
    rows, shown = list_rows(home, prefix)
    width = 3 if with_origin else 2
    cells = [(row["setting"], as_json(row["value"]), row["origin"])[:width] for row in rows]

    def show() -> None:
        print_table(("SETTING", "VALUE", "ORIGIN")[:width], cells)
        _say_hidden(shown)

    return Output({"settings": rows, "hidden": shown}, show)


def list_rows(home: Home, prefix: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return each setting with its value and origin, and which are hidden. Raises UsageFault where there is none."""
    own = own_config.read(home)
    whole = merge(own_config.read_shipped(), own)
    said, file = flatten_settings(own), str(own_config.make_path(home))
    rows = [
        {"setting": path, "value": value, "origin": file if _is_said(path, said) else "shipped"}
        for path, value in flatten_settings(redact(whole)).items()
        if not prefix or _is_below(path, prefix)
    ]
    if not rows:
        raise UsageFault(describe_no_such(prefix, whole), hint=format_next_here("config show"))
    return rows, [path for path in _list_hidden(whole) if not prefix or _is_below(path, prefix)]


@config.command()
@with_json
def diff(*, home: Home) -> Output:
    """Show what differs from the shipped configuration: settings of admin_config.json, and other files of the home."""
    shipped = flatten_settings(own_config.read_shipped())
    whole = merge(own_config.read_shipped(), own_config.read(home))
    values = flatten_settings(redact(whole))
    paths = [path for path in {**shipped, **values} if shipped.get(path, _NONE) != values.get(path, _NONE)]
    found, _faults = find(find_layers(home))
    files = [name for name, file in found.items() if file.layer == OWN and name != ADMIN_CONFIG]
    installed = {name: file.layer for name, file in found.items() if file.layer not in (OWN, SHIPPED)}

    def show() -> None:
        if paths:
            cells = [(path, _format_cell(shipped, path), _format_cell(values, path)) for path in paths]
            print_table(("SETTING", "SHIPPED", "HERE"), cells)
        for name in files:
            say(f"file of this home: {shorten_path(home.config / name)}")
        for name, package_id in installed.items():
            say(f"file of {package_id}: {name}")
        if not paths and not files and not installed:
            say("nothing differs from what is shipped")
        _say_hidden(_list_hidden(whole))

    rows = [{"setting": path, "shipped": shipped.get(path), "here": values.get(path)} for path in paths]
    return Output({"settings": rows, "files": files, "installed": installed, "hidden": _list_hidden(whole)}, show)


@config.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("setting", metavar="SETTING")
@click.argument("value", metavar="VALUE")
@with_home
def set_(*, home: Home, setting: str, value: str) -> None:
    """Set SETTING to VALUE, for the next start or `hobus reload`. VALUE is JSON (7, true, ["a"]), else a text."""
    try:
        given = parse_json(value)
    except BadText:
        given = value
    _change(home, setting, lambda own: lay_over(own_config.read_shipped(), own, setting, given))


@config.command()
@click.argument("setting", metavar="SETTING")
@with_home
def unset(*, home: Home, setting: str) -> None:
    """Reset SETTING, and all below it, to the shipped value, for the next start or `hobus reload`."""

    def without(own: Settings) -> Settings:
        if said := describe_no_such(setting, merge(own_config.read_shipped(), own)):
            raise NoSuchSetting(said)
        return take_away(own, setting)

    _change(home, setting, without)


@config.command()
@click.option("--template", is_flag=True, help="The schema of an attention template instead.")
@with_home
def schema(*, home: Home, template: bool) -> None:
    """Print the JSON Schema of a home's admin_config.json, for editors."""
    del home  # the same for all of them
    if template:
        say(as_json(make_template_schema(), indent=1))
        return
    whole, pasted = AdminConfig.model_json_schema(), PastedServer.model_json_schema()
    whole["properties"][KEY] = {"type": "object", "additionalProperties": pasted, "description": pasted["description"]}
    say(as_json(make_own_schema(whole), indent=1))


_NONE = object()


def _change(home: Home, setting: str, change: Callable[[Settings], Settings]) -> None:
    """Replace the file whole, and say what holds of this setting then. Raises CommandError."""
    shipped = own_config.read_shipped()
    before = flatten_settings(merge(shipped, own_config.read(home)))

    def change_own(own: Settings) -> Settings:
        try:
            return change(own)
        except NoSuchSetting as error:
            raise UsageFault(str(error), hint=format_next_here("config show")) from None

    own, digest = own_config.change(home, change_own)
    after = merge(shipped, own)
    shown = flatten_settings(redact(after))
    for path, value in flatten_settings(after).items():
        is_other = before.get(path, _NONE) != value
        if is_other or path == setting:
            say(f"{path} = {as_json(shown[path])}" + ("" if is_other else ", as before"))
    say(style("ok", "green"), f"  {own_config.make_path(home)}, digest {digest}; {_read_in_force(home)}")


def _read_in_force(home: Home) -> str:
    if find_gone(home):
        return "in force from the next start on"
    run = run_file.read(home.run_file)
    if run is None or not home.snapshot.exists():
        return f"in force after {format_next_command('reload', home.root)}"
    found = find_changes(home, run)
    return "the running cluster already uses it" if found is None else f"in force after {found.mend}"


def _list_hidden(whole: Mapping[str, Any]) -> list[str]:
    shown = flatten_settings(redact(whole))
    return [path for path, value in flatten_settings(whole).items() if shown[path] != value]


def _say_hidden(paths: Sequence[str]) -> None:
    for path in paths:
        told = "holds a secret, by its name or form; only a reference belongs there (`env:NAME`, `file:PATH`)"
        note_coloured(f"hidden: {path} {told}", "yellow")


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}.")


def _is_said(path: str, said: Mapping[str, Any]) -> bool:
    """Return whether the own file says it, or something that it stands in."""
    return any(_is_below(path, one) for one in said)


def _format_cell(values: Mapping[str, Any], path: str) -> str:
    return as_json(values[path]) if path in values else "-"
