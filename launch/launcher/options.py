"""What a start is told on the command line: `--config FILE`, `--scale ROLE=N`, `--listen` and `--http HOST:PORT`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hobus.launch.console.errors import UsageFault, next_here

SCALABLE = ("ho1", "ho2", "http")
PROCESSES_MAX = 1000
"""More is a slip of the finger on one machine, not a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """What is to be started; what is not given is as the configuration of the home, or the shipped one, has it."""

    config_file: Path | None = None
    scale: Sequence[str] = ()
    listen: str | None = None
    http: str | None = None

    def words(self) -> list[str]:
        """The words of a command line that say the same."""
        scale = [("--scale", item) for item in self.scale]
        given = [("--config", self.config_file), *scale, ("--listen", self.listen), ("--http", self.http)]
        return [word for name, value in given if value is not None for word in (name, str(value))]


def parse_scale(scale: Sequence[str], *, option: str = "--scale ") -> dict[str, int]:
    """`["ho1=4"]` as numbers per role. Raises CommandError, which names the option that it stood behind."""
    counts: dict[str, int] = {}
    for item in scale:
        found = re.fullmatch(r"([a-z0-9]+)=(\d{1,6})", item)
        if found is None or found[1] not in SCALABLE or not 1 <= int(found[2]) <= PROCESSES_MAX:
            roles = ", ".join(SCALABLE)
            raise UsageFault(
                f"{option}{item}: expected ROLE=N with ROLE one of {roles} and N from 1 to {PROCESSES_MAX}",
                hint=next_here("up --scale ho1=2" if option else "scale ho1=2"),
            )
        if found[1] in counts:
            raise UsageFault(f"{option}{item}: {found[1]} is named twice")
        counts[found[1]] = int(found[2])
    return counts
