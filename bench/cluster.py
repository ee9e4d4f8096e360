"""A cluster in a temporary home, and what its processes have used, for the scripts that measure it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from hobus.config.files import ADMIN_CONFIG, SHIPPED_ROOT
from hobus.launch.cluster.client import place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import home_of
from hobus.launch.cluster.run_file import read as read_run


@dataclass(frozen=True)
class Cluster:
    """One that is up."""

    home: Path
    place: Place
    processes: dict[str, psutil.Process]

    @property
    def record(self) -> Path:
        return self.home / "ledger"

    def cpu_s(self) -> dict[str, float]:
        """Seconds of CPU that each process and what it started have used so far."""
        return {
            actor: sum(sum(member.cpu_times()[:2]) for member in (process, *process.children(recursive=True)))
            for actor, process in self.processes.items()
        }


@contextmanager
def cluster(changes: Mapping[str, Any], *words: str) -> Iterator[Cluster]:
    """Up with the shipped configuration and these settings (dotted path -> value); down and gone afterwards."""
    root = Path(tempfile.mkdtemp(prefix="hobus-bench-"))
    home = root / "home"
    try:
        config = changed(json.loads((SHIPPED_ROOT / ADMIN_CONFIG).read_text()), changes)
        (root / "config.json").write_text(json.dumps(config))
        try:
            _hobus(home, "up", "--wait", "--config", str(root / "config.json"), *words)
            run = read_run(home_of(home).run_file)
            if run is None:
                raise SystemExit("the cluster is gone")
            processes = {child.actor: psutil.Process(child.pid) for child in run.children}
            yield Cluster(home, place_of(home_of(home), run), processes)
        finally:
            _hobus(home, "down")
    finally:
        shutil.rmtree(root, ignore_errors=True)


def changed(config: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The same configuration, with these settings (dotted path -> value) in it."""
    for path, value in changes.items():
        *sections, name = path.split(".")
        section = config
        for step in sections:
            section = section[step]
        assert name in section, path
        section[name] = value
    return config


def machine() -> dict[str, Any]:
    """What the figures were taken on, and how busy it was when they were."""
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": [round(value, 2) for value in os.getloadavg()],
    }


def _hobus(home: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "hobus", "--home", str(home), *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
