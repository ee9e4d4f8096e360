"""Whether the configuration on disk is still the one that a cluster runs under, and what differs, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hobus.bus.errors import ConfigError
from hobus.config.difference import NOT_THERE, Difference, differences
from hobus.config.files import ADMIN_CONFIG
from hobus.config.snapshot import Snapshot, load_snapshot
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import layers_of
from hobus.launch.cluster.run_file import RunFile
from hobus.launch.console.errors import next_command
from hobus.launch.console.output import as_json, cell

_NAMED = 5
_SHIPPED = "shipped"


def changed_since(home: Home, run: RunFile, config_file: Path | None = None) -> str:
    """What a start of the same kind would take otherwise than this run did, and how that gets in force; else empty.

    `config_file`: where that start would have another one. Raises ConfigError for a configuration with faults.
    """
    try:
        running = Snapshot.from_bytes(home.snapshot.read_bytes())
    except OSError:
        return ""  # it has just ended, or its run directory is gone, which is said where it matters
    given = config_file or _given_file(home, run)
    found = differences(running, _as_started(running, load_snapshot(layers_of(home, given))))
    if not found:
        return ""
    said = "; ".join(map(_words, found[:_NAMED])) + (f"; and {len(found) - _NAMED} more" if found[_NAMED:] else "")
    return f"its configuration was changed after its start: {said}"


def in_force_after(home: Home, run: RunFile) -> str:
    """What has to be done so that the next start's configuration is the one that runs."""
    given = _given_file(home, run)
    again = f"up again with --config {given}" if given is not None else "up again"
    return f"{next_command('down', home.root)}, then {again}"


def fault_of(error: ConfigError, home: Home) -> str:
    """In one line, where the configuration on disk cannot be loaded at all."""
    check = next_command("config check", home.root)
    fault = next(iter(error.facts.get("faults", ())), error.detail)
    return f"the configuration on disk cannot be loaded, so it would not start again: {cell(fault)}; {check}"


def _given_file(home: Home, run: RunFile) -> Path | None:
    """The file that this run was started with by `--config`, if it was."""
    is_own = run.config_origin in (_SHIPPED, str(home.config / ADMIN_CONFIG))
    return None if is_own else Path(run.config_origin)


def _as_started(running: Snapshot, disk: Snapshot) -> Snapshot:
    """With the addresses of `--listen` and `--http`, which stand in no file."""
    for section in ("bus", "http"):
        address = getattr(running.config, section).listen
        if address and not getattr(disk.config, section).listen:
            disk = disk.listening(section, address)
    return disk


def _words(one: Difference) -> str:
    return f"{one.name} is {_value(one.before)}, on disk {_value(one.after)}" if one.is_setting else one.name


def _value(value: Any) -> str:
    return "not there" if value is NOT_THERE else cell(as_json(value))
