"""G0: each governed file has one owner, is there, and has its owner's hash."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from hobus.bus.messages.base import compute_digest
from hobus.config import files
from hobus.config.assets import HOME_PACKAGE
from hobus.config.files import SHIPPED_ROOT, Layers
from hobus.config.gates.layer import SEAL, read_layers_on_disk
from hobus.config.gates.ownership import find_breaches, map_owners
from hobus.config.gates.run import look, run_gates
from hobus.config.manifests import read_shipped_layer
from tests.config.gates.homes import FILES, MANIFEST, clerk, found, listed, package, said, write


def test_what_is_shipped_passes_every_gate() -> None:
    assert found(None) == []
    assert found(Path("/nowhere/at/all")) == []


def test_a_package_of_a_home_s_own_that_is_in_order_passes(tmp_path: Path) -> None:
    clerk(tmp_path)
    assert found(tmp_path) == []


def test_what_no_manifest_of_a_home_lists_belongs_to_the_home(tmp_path: Path) -> None:
    """No orphans; what stands in for another's file is said, and what is the same byte for byte is not."""
    agent = json.loads((SHIPPED_ROOT / "agents/ADMIN.json").read_text())
    write(tmp_path, "agents/CLERK.json", json.dumps(agent | {"agent_id": "CLERK"}))
    shutil.copytree(SHIPPED_ROOT / "prompt_packs", tmp_path / "prompt_packs")
    write(tmp_path, "admin_config.json", '{"ho2": {"history_turns_max": 8}}')
    assert found(tmp_path) == []
    write(tmp_path, "agents/ADMIN.json", json.dumps(agent | {"system_prompt": "You are somebody else."}))
    (warning,) = found(tmp_path)
    assert (warning.gate, warning.severity) == ("G0", "warn")
    assert warning.reason == "replaces agents/ADMIN.json, which PKG-ADMIN-AGENT-001 owns"
    owners = map_owners(read_layers_on_disk(Layers(own=tmp_path), max_bytes=None))
    assert owners["agents/CLERK.json"] == owners["agents/ADMIN.json"] == HOME_PACKAGE
    assert owners["contracts/PRC-CLASSIFY-001.json"] == "PKG-PROMPTS-001"


def test_a_home_has_no_manifest_with_the_id_of_another_package(tmp_path: Path) -> None:
    """Shipped or installed: else that package's files would be owned by nobody. The very same manifest changes nothing."""
    root = tmp_path / "PKG-CLERK-001-1.0.0-0123456789abcdef"
    clerk(root)
    own = tmp_path / "own"
    shipped = json.loads((SHIPPED_ROOT / "packages/PKG-PROMPTS-001/manifest.json").read_text())
    write(own, "packages/PKG-PROMPTS-001/manifest.json", json.dumps(shipped | {"version": "9.9.9", "assets": []}))
    package(own, assets=[])
    told = [(one.severity, one.reason) for one in found(own, root) if one.gate == "G0"]
    assert told == [
        ("fail", f"another package has the id {name}, and an id is one package's")
        for name in ("PKG-CLERK-001", "PKG-PROMPTS-001")
    ]


def test_a_changed_file_is_told_with_its_owner_and_the_mend(tmp_path: Path) -> None:
    clerk(tmp_path)
    path = write(tmp_path, "specs/SPEC-CLERK-001/standard.md", "# Another clerk\n")
    (finding,) = found(tmp_path)
    assert (finding.gate, finding.file) == ("G0", str(path))
    assert finding.reason == "changed since PKG-CLERK-001 stated its hash"
    assert compute_digest(path.read_bytes()) in finding.mend and MANIFEST in finding.mend


def test_a_bare_hash_fails_in_words_and_is_told_as_it_should_be(tmp_path: Path) -> None:
    clerk(tmp_path)
    assets = [listed(tmp_path, name) for name in FILES]
    assets[0]["sha256"] = assets[0]["sha256"].removeprefix("sha256:")
    package(tmp_path, assets=assets)
    (told,) = said(tmp_path, "G0")
    assert "PKG-CLERK-001 states a bare hash, without `sha256:` before it; write sha256:" in told
    assets[0]["sha256"] = "md5:12"
    package(tmp_path, assets=assets)
    assert "states no hash: `sha256:` and 64 hex digits" in said(tmp_path, "G0")[0]


def test_a_file_that_is_listed_twice_or_by_two_is_told(tmp_path: Path) -> None:
    clerk(tmp_path)
    assets = [listed(tmp_path, name) for name in FILES]
    package(tmp_path, assets=[*assets, assets[0]])
    assert said(tmp_path, "G0") == ["listed twice by PKG-CLERK-001; list it once"]
    package(tmp_path)
    package(tmp_path, "PKG-CLERK-002", assets=assets[:1])
    assert said(tmp_path, "G0") == ["owned by PKG-CLERK-001 and by PKG-CLERK-002; remove it from one of them"]


@pytest.mark.parametrize(
    "path", ["../secrets.txt", "/etc/passwd", "schema.py", MANIFEST, "agents/../../x.json", "a\0b"]
)
def test_a_path_where_no_governed_file_lives_is_told_and_never_followed(tmp_path: Path, path: str) -> None:
    clerk(tmp_path)
    assets = [listed(tmp_path, name) for name in FILES]
    package(tmp_path, assets=[*assets, {**assets[0], "path": path}])
    (told,) = said(tmp_path, "G0")
    assert "and no governed file lives there; remove it from assets" in told


def test_a_listed_file_that_is_gone_or_is_a_directory_is_told(tmp_path: Path) -> None:
    clerk(tmp_path)
    standard = tmp_path / "specs/SPEC-CLERK-001/standard.md"
    standard.unlink()
    assert said(tmp_path, "G0") == [
        f"PKG-CLERK-001 lists it, but it does not exist; put it there, or remove it from the assets of {tmp_path / MANIFEST}"
    ]
    standard.mkdir()
    assert len(said(tmp_path, "G0")) == 2  # what it is, too


def test_an_installed_package_holds_what_it_lists_and_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "PKG-CLERK-001-1.0.0-0123456789abcdef"
    clerk(root)
    assert found(None, root) == []
    write(root, "prompt_packs/PRM-EXTRA-001.txt", "[[user]]\nx")
    write(root, "specs/SPEC-CLERK-001/standard.md", "# Changed\n")
    (root / "frameworks/FMWK-900_Clerks/standard.md").unlink()
    (root / "frameworks/FMWK-900_Clerks/standard.md").symlink_to("/etc/hostname")
    told = {Path(one.file).name: one for one in found(None, root) if one.gate == "G0"}
    assert told["PRM-EXTRA-001.txt"].reason == "no package owns it"
    assert told["standard.md"].gate == "G0"
    assert sorted(one.reason for one in found(None, root) if one.gate == "G0") == [
        "changed since PKG-CLERK-001 stated its hash", "is not a plain file", "no package owns it",
    ]  # fmt: skip
    assert all("install the package again" in one.mend for one in told.values() if one.reason != "is not a plain file")


def test_an_installed_package_never_stands_in_for_another_s_file(tmp_path: Path) -> None:
    root = tmp_path / "PKG-CLERK-001-1.0.0-0123456789abcdef"
    clerk(root)
    write(root, "agents/ADMIN.json", (SHIPPED_ROOT / "agents/ADMIN.json").read_bytes())
    assets = [listed(root, name) for name in [*FILES, "agents/ADMIN.json"]]
    package(root, assets=assets)
    failures = [one for one in found(None, root) if one.gate == "G0"]
    assert len(failures) == 1 and "which no package may replace" in failures[0].reason


def test_a_file_of_a_gigabyte_is_refused_unread(tmp_path: Path) -> None:
    clerk(tmp_path)
    for name in ("agents/HUGE.json", "prompt_packs/PRM-HUGE-001.txt", "frameworks/FMWK-901_Huge/standard.md"):
        path = write(tmp_path, name, b"")
        with path.open("r+b") as file:
            file.truncate(1 << 30)
    told = [one for one in found(tmp_path) if "1073741824 bytes" in one.reason]
    assert {Path(one.file).name for one in told} == {"HUGE.json", "PRM-HUGE-001.txt", "standard.md"}
    assert all("ledger.bodies_max_bytes" in one.reason for one in told)
    assert len(told) == 3 and {one.mend for one in told} == {"shorten it, or remove it"}  # once each, with its mend


def test_settings_of_a_gigabyte_are_refused_unread(tmp_path: Path) -> None:
    """By the bound that is shipped: it has to be known before they are read."""
    path = write(tmp_path, "admin_config.json", b"")
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    assert any("1073741824 bytes" in one.reason for one in found(tmp_path))


def shipped_copy(root: Path) -> Path:
    """Every governed file that is shipped."""
    for name in (*files.list_governed(SHIPPED_ROOT), SEAL):
        write(root, name, (SHIPPED_ROOT / name).read_bytes())
    return root


@pytest.mark.parametrize("places", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_no_byte_of_what_is_shipped_can_change_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    root = shipped_copy(tmp_path)
    monkeypatch.setattr(files, "SHIPPED_ROOT", root)
    assert run_gates(look(), has_tests=False)[-1].severity == "note"
    draw = random.Random(15)
    for name in (*files.list_governed(root), SEAL):
        path = root / name
        data = path.read_bytes()
        ends = (0, len(data) - 1)
        some = [draw.randrange(len(data)) for _ in range(places)]
        for at in {draw.choice(ends), *some} if places == 1 else {*ends, *some}:
            changed = bytearray(data)
            changed[at] ^= draw.choice((1, 2, 4, 8, 16, 32, 64, 128, 255))
            path.write_bytes(changed)
            assert list(find_breaches([read_shipped_layer(root)], is_checkout=False)), (
                f"{name}: byte {at} may be {changed[at]:#x} instead of {data[at]:#x}"
            )
        path.write_bytes(data)
