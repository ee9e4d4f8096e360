"""What is to be started: the configuration and how many processes of each role."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from config.snapshot import Snapshot, load_snapshot
from launch import exit_codes
from launch.errors import CommandError
from launch.home import Home

SCALABLE = ("ho1", "ho2")
PROCESSES_MAX = 1000
"""More is a slip of the finger on one machine, not a plan."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One start of a cluster."""

    snapshot: Snapshot
    origin: str
    """Which admin_config.json it rests on."""
    counts: dict[str, int]


def make_plan(home: Home, *, config_file: Path | None, scale: Sequence[str]) -> Plan:
    """The plan for this home. Raises ConfigError for the configuration, CommandError for `--scale`."""
    if config_file is not None and not config_file.is_file():
        raise CommandError(
            f"--config {config_file}: no such file",
            hint="hobus up without --config uses the shipped one",
            exit_code=exit_codes.USAGE,
        )
    counts = parse_scale(scale)
    snapshot = load_snapshot(home.config if home.config.is_dir() else None, config_file)
    shipped = {"ho1": snapshot.config.ho1.count, "ho2": snapshot.config.ho2.count}
    origin = snapshot.origins.get("admin_config.json", "shipped")
    return Plan(snapshot=snapshot, origin=str(origin), counts=shipped | counts)


def parse_scale(scale: Sequence[str]) -> dict[str, int]:
    """`["ho1=4"]` as numbers per role. Raises CommandError."""
    counts: dict[str, int] = {}
    for item in scale:
        found = re.fullmatch(r"([a-z0-9]+)=(\d{1,6})", item)
        if found is None or found[1] not in SCALABLE or not 1 <= int(found[2]) <= PROCESSES_MAX:
            roles = ", ".join(SCALABLE)
            raise CommandError(
                f"--scale {item}: expected ROLE=N with ROLE one of {roles} and N from 1 to {PROCESSES_MAX}",
                hint="hobus up --scale ho1=2",
                exit_code=exit_codes.USAGE,
            )
        counts[found[1]] = int(found[2])
    return counts
