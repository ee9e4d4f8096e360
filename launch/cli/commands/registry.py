"""`hobus registry`: frameworks, invariants, specs, packages and the ownership of files, derived from the manifests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import click

from hobus.config.gates.finding import failed
from hobus.config.gates.ownership import ownership
from hobus.config.gates.run import View, look
from hobus.config.registries import FIELDS, RegistryRow, rows_of
from hobus.launch.cli.commands.options import Family, Output, with_json
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import layers_of
from hobus.launch.console.errors import UsageFault, next_here
from hobus.launch.console.output import in_one_line, say, say_prose, table

_SHOWN_HASH = 19


@click.group(cls=Family)
def registry() -> None:
    """List frameworks, invariants, specs, packages and files as the next start would have them."""


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("filters", nargs=-1, metavar="[FIELD=VALUE]...")(command)


@registry.command()
@_filters
@with_json
def frameworks(*, home: Home, filters: tuple[str, ...]) -> Output:
    """List the frameworks: the rules that govern, and their state."""
    return _listed(home, "frameworks", filters)


@registry.command()
@_filters
@with_json
def invariants(*, home: Home, filters: tuple[str, ...]) -> Output:
    """List the invariants of the frameworks, each with the checks that enforce it."""
    return _listed(home, "invariants", filters, show=_show_invariants)


@registry.command()
@_filters
@with_json
def specs(*, home: Home, filters: tuple[str, ...]) -> Output:
    """List the specs, and the framework of each."""
    return _listed(home, "specs", filters)


@registry.command()
@_filters
@with_json
def packages(*, home: Home, filters: tuple[str, ...]) -> Output:
    """List the packages: shipped, installed, and PKG-HOME for what the home has of its own."""
    return _listed(home, "packages", filters)


@registry.command()
@_filters
@with_json
def files(*, home: Home, filters: tuple[str, ...]) -> Output:
    """List every governed file with its owner and its hash, and whether it is as its owner states it (STATE)."""
    return _listed(home, "file_ownership", filters, more=_states)


def _states(view: View) -> dict[str, dict[str, str]]:
    """Name of each file in force -> its state: `ok`, or what gate G0 has against it."""
    faults: dict[str, str] = {}
    for one in failed(list(ownership(view.layers, is_checkout=view.is_checkout))):
        faults.setdefault(one.file, one.reason)
    held = {name: str(one.path) for layer in view.layers for name, one in layer.held.items()}
    return {name: {"state": faults.get(path, "ok")} for name, path in held.items()}


def _listed(
    home: Home,
    name: str,
    filters: Sequence[str],
    *,
    show: Callable[[list[dict[str, str]]], None] | None = None,
    more: Callable[[View], Mapping[str, dict[str, str]]] | None = None,
) -> Output:
    """`more`: id of a row -> what is shown beside its fields."""
    wanted = dict(_filter(name, one) for one in filters)
    view = look(layers_of(home))
    there, beside = view.manifests, more(view) if more is not None else {}
    wanted = {field: _as_written(value, field, rows_of(name, there, {})) for field, value in wanted.items()}
    rows = [{**row.fields, **beside.get(row.row_id, {})} for row in rows_of(name, there, wanted)]
    return Output({"registry": name, "rows": rows}, lambda: (show or _show)(rows) if rows else say("none"))


def _as_written(value: str, field: str, rows: Sequence[RegistryRow]) -> str:
    """A value of this field as the rows have it, in whatever case it was given."""
    there = {row.fields[field] for row in rows}
    return value if value in there else next((one for one in there if one.casefold() == value.casefold()), value)


def _filter(name: str, text: str) -> tuple[str, str]:
    """Field and value. Raises UsageFault for what is none."""
    field, is_one, value = text.partition("=")
    if is_one and field in FIELDS[name]:
        return field, value
    near = get_close_matches(field, FIELDS[name], n=1)
    meant = f"; did you mean {near[0]}=…?" if near else ""
    fields = ", ".join(FIELDS[name])
    example = f"registry {'files' if name == 'file_ownership' else name} {FIELDS[name][0]}=…"
    raise UsageFault(f"{text[:80]}: not FIELD=VALUE with FIELD one of {fields}{meant}", hint=next_here(example))


def _show(rows: list[dict[str, str]]) -> None:
    headings = tuple(name.removesuffix("_id").replace("_", " ").upper() for name in rows[0])
    cells = [tuple(_cell(name, value) for name, value in row.items()) for row in rows]
    table(headings, cells, spare=("SHA256", "PLANE", "RING"))


def _show_invariants(rows: list[dict[str, str]]) -> None:
    for row in rows:
        say_prose(f"{row['invariant_id']}  ", in_one_line(f"{row['level']} {row['statement']}"))
        for check in row["enforced_by"].split(", "):
            say(f"    {in_one_line(check) or 'no check'}")


def _cell(name: str, value: str) -> str:
    return (value[:_SHOWN_HASH] if name == "sha256" else value) or "-"
