"""`hobus registry`: frameworks, invariants, specs, packages and the ownership of files, derived from the manifests."""

from __future__ import annotations

import click

from hobus.config.gates.finding import list_failed
from hobus.config.gates.ownership import find_breaches
from hobus.config.gates.run import View, look
from hobus.config.registries import list_rows
from hobus.launch.cli.commands.options import Output, with_json
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import find_layers
from hobus.launch.console.output import print_table

_NAMES = {name: name for name in ("frameworks", "invariants", "specs", "packages")} | {"files": "file_ownership"}
_SHOWN_HASH = 19


@click.command()
@click.argument("name", type=click.Choice(tuple(_NAMES)))
@with_json
def registry(*, home: Home, name: str) -> Output:
    """List frameworks, invariants with their checks, specs, packages or files of the next start.

    Files come with owner, hash, and whether the hash matches.
    """
    view = look(find_layers(home))
    states = _map_states(view) if name == "files" else {}
    rows = [{**row.fields, **states.get(row.row_id, {})} for row in list_rows(_NAMES[name], view.manifests, {})]
    headings = tuple(field.removesuffix("_id").replace("_", " ").upper() for field in rows[0]) if rows else ()
    cells = [tuple(_format_cell(field, value) for field, value in row.items()) for row in rows]
    return Output(
        {"registry": _NAMES[name], "rows": rows},
        lambda: print_table(headings, cells, spare=("SHA256", "PLANE", "RING")),
    )


def _map_states(view: View) -> dict[str, dict[str, str]]:
    """Map each file in force to its state: `ok`, or what gate G0 has against it."""
    faults: dict[str, str] = {}
    for one in list_failed(list(find_breaches(view.layers, is_checkout=view.is_checkout))):
        faults.setdefault(one.file, one.reason)
    held = {name: str(one.path) for layer in view.layers for name, one in layer.held.items()}
    return {name: {"state": faults.get(path, "ok")} for name, path in held.items()}


def _format_cell(field: str, value: str) -> str:
    return (value[:_SHOWN_HASH] if field == "sha256" else value) or "-"
