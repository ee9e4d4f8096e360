"""What a start is told on the command line: `--config FILE`, `--scale ROLE=N`, `--listen` and `--http HOST:PORT`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from hobus.config.sections.processes import LauncherConfig
from hobus.launch.console.errors import UsageFault, format_next_here

SCALABLE = ("ho1", "ho2", "http")


class StartOptions(Struct, frozen=True, kw_only=True):
    """What is to be started; what is not given is as the configuration of the home, or the shipped one, has it."""

    config_file: Path | None = None
    scale: Sequence[str] = ()
    listen: str | None = None
    http: str | None = None

    def words(self) -> list[str]:
        scale = [("--scale", item) for item in self.scale]
        given = [("--config", self.config_file), *scale, ("--listen", self.listen), ("--http", self.http)]
        return [word for name, value in given if value is not None for word in (name, str(value))]


def parse_scale(scale: Sequence[str], *, option: str = "--scale ") -> dict[str, int]:
    """Return `["ho1=4"]` as numbers per role. Raises CommandError, which names the option that it stood behind."""
    counts: dict[str, int] = {}
    for item in scale:
        found = re.fullmatch(r"([a-z0-9]+)=(\d{1,9})", item)
        if found is None or found[1] not in SCALABLE or int(found[2]) < 1:
            roles = ", ".join(SCALABLE)
            raise UsageFault(
                f"{option}{item}: expected ROLE=N with ROLE one of {roles} and N at least 1",
                hint=format_next_here("up --scale ho1=2" if option else "scale ho1=2"),
            )
        if found[1] in counts:
            raise UsageFault(f"{option}{item}: {found[1]} is named twice")
        counts[found[1]] = int(found[2])
    return counts


def explain_too_many(count: int, config: LauncherConfig) -> str:
    """Return why a cluster may not have so many processes; empty: it may."""
    if count <= config.processes_max:
        return ""
    return f"that would be {count} processes; {config.processes_max} are allowed (launcher.processes_max)"


def require_room(count: int, config: LauncherConfig) -> None:
    """Raise CommandError (usage) where a cluster may not have so many processes."""
    if fault := explain_too_many(count, config):
        raise UsageFault(fault, hint="start fewer processes, or raise launcher.processes_max if the machine allows it")


def require_file(config_file: Path | None) -> None:
    """Raise CommandError (usage) where `--config` names no file."""
    if config_file is not None and not config_file.is_file():
        hint = "name one that is there; without --config the home's own one is taken, or the shipped one"
        said = "a directory" if config_file.is_dir() else "not a plain file"
        said = f"is {said}" if config_file.exists() else "no such file"
        raise UsageFault(f"--config {config_file}: {said}", hint=hint)
