"""Whether the configuration on disk, and what executors rest on beside it, is what a cluster runs under; in words."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hobus.bus.tool import parse_entry_point
from hobus.config.difference import NOT_THERE, Difference, list_differences
from hobus.config.files import ADMIN_CONFIG
from hobus.config.secret_refs import list_file_refs
from hobus.config.sections.tools import ToolsConfig
from hobus.config.snapshot import Snapshot, load_snapshot
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import find_layers
from hobus.launch.cluster.run_file import RunFile
from hobus.launch.cluster.takes_effect import sum_effects
from hobus.launch.cluster.tool_code import list_files
from hobus.launch.console.errors import format_next_command
from hobus.launch.console.output import as_json, format_cell

_NAMED = 5
_SHIPPED = "shipped"


class ChangedConfig(NamedTuple):
    """What differs between the configuration on disk and the one that runs."""

    said: str
    mend: str
    """The command that brings it in force."""


def find_changes(home: Home, run: RunFile, config_file: Path | None = None) -> ChangedConfig | None:
    """Return what a start of the same kind would take otherwise, and how that gets in force; None: nothing.

    `config_file`: where that start would have another one. Raises ConfigError for a configuration with faults.
    """
    try:
        running = Snapshot.from_bytes(home.snapshot.read_bytes())
    except OSError:
        return None  # it has just ended, or its run directory is gone, which is said where it matters
    given = config_file or find_given_file(home, run)
    found = list_differences(running, as_started(running, load_snapshot(find_layers(home, given))))
    if not found:
        return None
    is_other = config_file is not None and config_file != find_given_file(home, run)
    needs_a_stop = is_other or bool(sum_effects(found).refused)
    mend = describe_after_stop(home, given) if needs_a_stop else format_next_command("reload", home.root)
    return ChangedConfig(f"its configuration was changed after its start: {describe_changes(found)}", mend)


def describe_changes(found: Sequence[Difference], *, is_done: bool = False) -> str:
    """Return the first of these differences, and how many more there are; `is_done`: they are in force now."""
    said = "; ".join(_describe_change(one, is_done=is_done) for one in found[:_NAMED])
    return said + (f"; and {len(found) - _NAMED} more" if found[_NAMED:] else "")


def describe_after_stop(home: Home, given: Path | None) -> str:
    """Return what brings it in force where a running cluster cannot take it in; `given`: the file of `--config`."""
    again = "up" if given is None else f"up --config {given}"
    return f"{format_next_command('down', home.root)}, then {format_next_command(again, home.root)}"


def find_given_file(home: Home, run: RunFile) -> Path | None:
    """Return the file that this run was started with by `--config`, if it was."""
    is_own = run.config_origin in (_SHIPPED, str(home.config / ADMIN_CONFIG))
    return None if is_own else Path(run.config_origin)


def as_started(running: Snapshot, disk: Snapshot) -> Snapshot:
    """Return the snapshot with the addresses of `--listen` and `--http`, which stand in no file."""
    for section in ("bus", "http"):
        address = getattr(running.config, section).listen
        if address and not getattr(disk.config, section).listen:
            disk = disk.listening(section, address)
    return disk


def _describe_change(one: Difference, *, is_done: bool) -> str:
    if not one.is_setting:
        return f"{one.name} ({one.how})" if one.how else one.name
    form = "{} was {}, is {}" if is_done else "{} is {}, on disk {}"
    return form.format(one.name, _describe_value(one.before), _describe_value(one.after))


def _describe_value(value: Any) -> str:
    return "not there" if value is NOT_THERE else format_cell(as_json(value))


def list_changed_beside(tools: ToolsConfig, run: RunFile) -> list[str]:
    """Return code of tools in packages and secret files of MCP servers that changed after the oldest executor's start.

    Such an executor has the former content, while a tool process that follows another one has the new.
    """
    started = [row.started_at for row in run.children if row.role == "ho1" and row.started_at]
    if not started:
        return []
    since = min(started)
    modules = {name: parse_entry_point(entry)[1].rpartition(":")[0] for name, entry in tools.python_tools.items()}
    newest = {module: _find_newest(list_files(module)) for module in set(modules.values())}
    found = [f"the code of {name}" for name, module in modules.items() if newest[module] > since]
    refs = sorted(set(list_file_refs(tools.model_dump(mode="json"))))
    return [*found, *(f"file:{path}" for path in refs if _find_newest([Path(path).expanduser()]) > since)]


def _find_newest(files: Iterable[Path]) -> float:
    """Return when the last of the files was written, made or put into place."""
    newest = 0.0
    for path in files:
        try:
            newest = max(newest, os.stat(path).st_ctime)  # noqa: PTH116 - not what `touch` and installers set
        except OSError:
            continue
    return newest
