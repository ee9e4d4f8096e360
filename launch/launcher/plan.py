"""What is to be started: the configuration and how many processes of each role."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hobus.config.snapshot import Snapshot, load_snapshot
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher.listen import check_http, check_listen
from hobus.launch.launcher.scale import parse_scale


@dataclass(frozen=True, slots=True)
class Plan:
    """One start of a cluster."""

    snapshot: Snapshot
    origin: str
    """Which admin_config.json it rests on."""
    counts: dict[str, int]
    """Processes per role; a role that is not named has one, `http` none."""


def make_plan(  # noqa: PLR0913 - one per option of `up`
    home: Home,
    *,
    config_file: Path | None,
    scale: Sequence[str],
    listen: str | None = None,
    http: str | None = None,
    given: Mapping[str, str] | None = None,
) -> Plan:
    """The plan for this home; `given`: of the user's environment, what is not in this process's own and tools may need.

    Raises ConfigError for the configuration, CommandError for `--scale`, `--listen` and `--http`.
    """
    if config_file is not None and not config_file.is_file():
        raise CommandError(
            f"--config {config_file}: no such file",
            hint="hobus up without --config uses the shipped one",
            exit_code=exit_codes.USAGE,
        )
    counts = parse_scale(scale)
    snapshot = load_snapshot(home.config if home.config.is_dir() else None, config_file)
    if snapshot.config.tools.entry_points:
        # By name: few clusters have any.
        importlib.import_module("hobus.launch.launcher.tool_check").require_entry_points(snapshot.config, given or {})
    if listen is not None:
        snapshot = snapshot.listening("bus", listen)
    if http is not None:
        snapshot = snapshot.listening("http", http)
    config = snapshot.config
    if config.bus.listen:
        check_listen(config.bus.listen)
    if config.http.listen:
        check_http(config.http.listen)
    elif "http" in counts:
        raise CommandError(
            "--scale http: this cluster has no HTTP door", hint="hobus up --http", exit_code=exit_codes.USAGE
        )
    shipped = {
        "ho1": config.ho1.count,
        "ho2": config.ho2.count,
        "ho3": 0 if config.memory is None else 1,
        "http": config.http.count if config.http.listen else 0,
    }
    origin = snapshot.origins.get("admin_config.json", "shipped")
    return Plan(snapshot=snapshot, origin=str(origin), counts=shipped | counts)
