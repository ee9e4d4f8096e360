"""The world outside a drilled cluster: tools with real effects, as a distribution on the import path of its processes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.builders import changed
from bench.cluster import Cluster, cluster_in
from hobus.config.files import SHIPPED_ROOT
from hobus.launch.launcher.children import make_environment

SOURCE = Path(__file__).parent / "outside_tools" / "hobus_outside.py"
TOOLS = ("charge_keyed", "charge_unkeyed", "charge_late", "sleep_async", "sleep_def", "block_async", "short_async")


def asking_for(tool_id: str) -> str:
    return f"use {tool_id}"


@dataclass(frozen=True, slots=True)
class Outside:
    root: Path

    @classmethod
    def at(cls, root: Path) -> Outside:
        """Installed, as far as an import path installs; nothing has happened yet."""
        (root / "site").mkdir(parents=True)
        (root / "seen").mkdir()
        shutil.copy(SOURCE, root / "site")
        return cls(root)

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, (str(self.root / "site"), make_environment().get("PYTHONPATH", ""))))
        return {"PYTHONPATH": path, "HOBUS_OUTSIDE": str(self.root / "seen")}

    def govern(self, home: Path, changes: Mapping[str, Any]) -> None:
        """The home's own configuration: the shipped one with these settings, and an agent that may use the tools."""
        (home / "config" / "agents").mkdir(parents=True)
        config = changed(json.loads((SHIPPED_ROOT / "admin_config.json").read_text()), changes.items())
        config["tools"]["entry_points"] = [f"{tool_id} = hobus_outside:{tool_id}" for tool_id in TOOLS]
        config["tools"]["environment"] = ["HOBUS_OUTSIDE"]
        (home / "config" / "admin_config.json").write_text(json.dumps(config))
        for agent_file in sorted((SHIPPED_ROOT / "agents").glob("*.json")):
            agent = json.loads(agent_file.read_text())
            agent["tools"] = [*agent["tools"], *TOOLS]
            agent["permissions"]["tools"] = [*agent["permissions"]["tools"], *TOOLS]
            (home / "config" / "agents" / agent_file.name).write_text(json.dumps(agent))

    def hold(self) -> None:
        (self.root / "seen" / "hold").touch()

    def release(self) -> None:
        (self.root / "seen" / "hold").unlink(missing_ok=True)

    def runs(self, tool_id: str) -> list[str]:
        """Each time that the tool was begun: pid and time."""
        return self.effects(tool_id, "runs")

    def effects(self, tool_id: str, kind: str = "effects") -> list[str]:
        path = self.root / "seen" / f"{tool_id}.{kind}"
        return path.read_text(encoding="ascii").splitlines() if path.exists() else []


def with_outside(directory: Path, changes: Mapping[str, Any]) -> tuple[Outside, Cluster]:
    """An outside, and a cluster that is not up yet, under these settings, whose agents may use its tools."""
    outside = Outside.at(directory / "outside")
    cluster = cluster_in(directory / "home", outside.environment())
    outside.govern(cluster.home.root, changes)
    return outside, cluster
