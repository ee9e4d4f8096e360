"""Which version of each governed file is in force, whose it is, and that its bytes go with the snapshot."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from hobus.bus.errors import ConfigError
from hobus.bus.messages.base import compute_digest, pack
from hobus.config.assets import HOME_PACKAGE
from hobus.config.files import SHIPPED_ROOT, Layers, list_governed
from hobus.config.on_demand import read_contents
from hobus.config.snapshot import Snapshot, load_snapshot

ADMIN = "agents/ADMIN.json"


def own_agent(root: Path, name: str, prompt: str = "Mine.") -> Layers:
    """A home with one agent file of its own."""
    agent = json.loads((SHIPPED_ROOT / ADMIN).read_text(encoding="utf-8"))
    file = root / "agents" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(agent | {"agent_id": name, "system_prompt": prompt}), encoding="utf-8")
    return Layers(own=root)


def test_each_file_has_the_digest_that_manifests_state_and_its_owner() -> None:
    snapshot = load_snapshot()
    assert sorted(snapshot.files) == list_governed(SHIPPED_ROOT)
    for name, file in snapshot.files.items():
        assert file.sha256 == compute_digest((SHIPPED_ROOT / name).read_bytes())
    listed = {one.path: (one.sha256, package) for package, owner in snapshot.packages.items() for one in owner.assets}
    found = {name: (file.sha256, file.package_id) for name, file in snapshot.files.items()}
    assert listed == {name: one for name, one in found.items() if not name.startswith("packages/")}
    assert found["packages/PKG-PROMPTS-001/manifest.json"][1] == "PKG-PROMPTS-001"


def test_the_bytes_of_the_files_go_with_the_snapshot_that_was_loaded(tmp_path: Path) -> None:
    pack_file = tmp_path / "prompt_packs" / "PRM-MINE-001.txt"
    pack_file.parent.mkdir()
    pack_file.write_bytes(b"[[user]]\r\nhello\r\n")
    snapshot = load_snapshot(Layers(own=tmp_path))
    contents = read_contents(snapshot.contents)
    assert contents["prompt_packs/PRM-MINE-001.txt"] == b"[[user]]\r\nhello\r\n"
    assert snapshot.prompt_packs["PRM-MINE-001"] == "[[user]]\nhello\n"
    assert {name: f"sha256:{hashlib.sha256(data).hexdigest()}" for name, data in contents.items()} == {
        name: file.sha256 for name, file in snapshot.files.items()
    }
    again = Snapshot.from_bytes(snapshot.to_bytes())
    assert (again, again.files, again.contents) == (snapshot, snapshot.files, b"")
    assert snapshot.listening("bus", "127.0.0.1:1").contents == snapshot.contents


def test_files_of_a_home_alone_and_those_that_stand_in_are_the_homes(tmp_path: Path) -> None:
    own_agent(tmp_path, "CLERK")
    snapshot = load_snapshot(own_agent(tmp_path, "ADMIN"))
    owned = {name for name, file in snapshot.files.items() if file.package_id == HOME_PACKAGE}
    assert owned == {ADMIN, "agents/CLERK.json"}
    assert snapshot.map_agent_packages() == {"ADMIN": HOME_PACKAGE, "CLERK": HOME_PACKAGE}
    assert load_snapshot().map_agent_packages() == {"ADMIN": "PKG-ADMIN-AGENT-001"}


def test_a_package_of_the_home_owns_what_it_lists_and_an_installed_one_its_files(tmp_path: Path) -> None:
    own_agent(tmp_path / "own", "CLERK")
    own_agent(tmp_path / "installed", "GUEST")
    shipped = json.loads((SHIPPED_ROOT / "packages/PKG-ADMIN-AGENT-001/manifest.json").read_text(encoding="utf-8"))
    for layer, name, lists in (("own", "PKG-OWN-001", "CLERK"), ("installed", "PKG-GUEST-001", "GUEST")):
        listed = {"path": f"agents/{lists}.json", "sha256": f"sha256:{'0' * 64}", "classification": "agent"}
        manifest = tmp_path / layer / "packages" / name / "manifest.json"
        manifest.parent.mkdir(parents=True)
        manifest.write_text(json.dumps(shipped | {"package_id": name, "assets": [listed]}), encoding="utf-8")
    snapshot = load_snapshot(Layers(packages=(tmp_path / "installed",), own=tmp_path / "own"))
    assert snapshot.map_agent_packages() == {
        "ADMIN": "PKG-ADMIN-AGENT-001",
        "CLERK": "PKG-OWN-001",
        "GUEST": "PKG-GUEST-001",
    }


def test_templates_are_named_by_the_digest_of_their_files() -> None:
    snapshot = load_snapshot()
    assert set(snapshot.map_template_hashes()) == set(snapshot.templates)
    for name, found in snapshot.map_template_hashes().items():
        assert f"sha256:{found.hex()}" == snapshot.files[f"attention/{name}.json"].sha256


def test_what_is_too_large_for_the_record_with_its_files_is_refused(tmp_path: Path) -> None:
    standard = tmp_path / "own" / "frameworks" / "FMWK-004_Attention" / "standard.md"
    standard.parent.mkdir(parents=True)
    standard.write_text("x" * load_snapshot().config.ledger.bodies_max_bytes, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"ledger\.bodies_max_bytes"):
        load_snapshot(Layers(own=tmp_path / "own"))


@pytest.mark.parametrize("data", [b"", b"\xc1", pack([1]), pack({"a": "b"}), pack({1: b"b"})])
def test_what_holds_no_files_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^"):
        read_contents(data)


def test_a_snapshot_is_equal_by_its_digest_alone() -> None:
    """Where its files lie, and whether it has them, makes no other one of it."""
    snapshot = load_snapshot()
    assert replace(snapshot, contents=b"", origins={}) == snapshot
