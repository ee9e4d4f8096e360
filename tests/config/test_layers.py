"""Three layers of governed files: shipped, installed packages, a home's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hobus.bus.errors import ConfigError
from hobus.config.files import SHIPPED_ROOT, Layers, find
from hobus.config.snapshot import load_snapshot

ADMIN: dict[str, Any] = json.loads((SHIPPED_ROOT / "agents/ADMIN.json").read_text(encoding="utf-8"))
MANIFEST: dict[str, Any] = json.loads(
    (SHIPPED_ROOT / "packages/PKG-ADMIN-AGENT-001/manifest.json").read_text(encoding="utf-8")
)


def file(root: Path, name: str, value: Any) -> Path:
    """A file below this root, which is handed back."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(json.dumps(value), encoding="utf-8")
    return root


def package(root: Path, package_id: str, agent_id: str) -> Path:
    """The directory of a package that brings one agent."""
    file(root, f"packages/{package_id}/manifest.json", MANIFEST | {"package_id": package_id, "assets": []})
    file(root, "signature.json", {})
    return file(root, f"agents/{agent_id}.json", ADMIN | {"agent_id": agent_id, "system_prompt": package_id})


def faults(layers: Layers) -> list[str]:
    """What a load of these layers says."""
    with pytest.raises(ConfigError) as caught:
        load_snapshot(layers)
    found: list[str] = caught.value.facts["faults"]
    return found


def test_a_package_adds_its_files_and_each_knows_its_layer(tmp_path: Path) -> None:
    root = package(tmp_path / "a", "PKG-A", "CLERK")
    own = file(tmp_path / "own", "agents/MINE.json", ADMIN | {"agent_id": "MINE"})
    found, told = find(Layers(packages=(root,), own=own))
    layers = {name: one.layer for name, one in found.items()}
    assert told == [] and "signature.json" not in layers
    assert layers["agents/ADMIN.json"] == "shipped" and layers["agents/MINE.json"] == "own"
    assert layers["agents/CLERK.json"] == layers["packages/PKG-A/manifest.json"] == "PKG-A"
    snapshot = load_snapshot(Layers(packages=(root,), own=own))
    assert {"ADMIN", "CLERK", "MINE"} == set(snapshot.agents) and "PKG-A" in snapshot.packages
    assert snapshot.origins["agents/CLERK.json"] == "PKG-A"
    assert snapshot.origins["agents/MINE.json"] == str(own / "agents/MINE.json")


def test_the_homes_own_file_stands_for_an_installed_one(tmp_path: Path) -> None:
    root = package(tmp_path / "a", "PKG-A", "CLERK")
    own = file(tmp_path / "own", "agents/CLERK.json", ADMIN | {"agent_id": "CLERK", "system_prompt": "Mine."})
    snapshot = load_snapshot(Layers(packages=(root,), own=own))
    assert snapshot.agents["CLERK"].system_prompt == "Mine."
    assert load_snapshot(Layers(packages=(root,))).agents["CLERK"].system_prompt == "PKG-A"


def test_no_package_replaces_a_file_that_is_there(tmp_path: Path) -> None:
    root = package(tmp_path / "a", "PKG-A", "ADMIN")
    (fault,) = faults(Layers(packages=(root,)))
    assert fault.startswith(f"{root}/agents/ADMIN.json: shipped has a file of this name")
    one, two = package(tmp_path / "b", "PKG-B", "CLERK"), package(tmp_path / "c", "PKG-C", "CLERK")
    (fault,) = faults(Layers(packages=(one, two)))
    assert fault.startswith(f"{two}/agents/CLERK.json: PKG-B has a file of this name")


def test_a_package_holds_no_settings_and_nothing_that_has_no_place(tmp_path: Path) -> None:
    """What would change the cluster silently, or do nothing silently."""
    root = file(package(tmp_path / "a", "PKG-A", "CLERK"), "admin_config.json", {"ho1": {"count": 9}})
    file(root, "agents/deeper/CLERK.json", {})
    said = faults(Layers(packages=(root,)))
    assert any("a package holds no settings" in one for one in said)
    assert any("agents/deeper/CLERK.json: no governed file has this place" in one for one in said)


@pytest.mark.parametrize(("count", "said"), [(0, "0 package manifests"), (2, "2 package manifests")])
def test_a_directory_that_is_no_package_is_a_fault(tmp_path: Path, count: int, said: str) -> None:
    root = tmp_path / "a"
    root.mkdir()
    for number in range(count):
        package(root, f"PKG-{number}", "CLERK")
    (fault,) = faults(Layers(packages=(root,)))
    assert fault.startswith(f"{root}: {said}")
    (fault,) = faults(Layers(packages=(tmp_path / "gone",)))
    assert fault.startswith(f"{tmp_path}/gone: no such directory")
