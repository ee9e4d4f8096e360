"""Ownership and hashes of governed files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hobus.config.files import SHIPPED_ROOT
from hobus.config.manifests import hash_of, main, ownership_faults, refresh

GOVERNED = ("admin_config.json", "agents", "attention", "contracts", "prompt_packs", "frameworks", "specs", "packages")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the governed files with true hashes."""
    for name in GOVERNED:
        source = SHIPPED_ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name)
        else:
            shutil.copy(source, tmp_path / name)
    refresh(tmp_path)
    return tmp_path


def edit(manifest: Path, **asset: str) -> None:
    """Change fields of a manifest's first asset."""
    value = json.loads(manifest.read_text(encoding="utf-8"))
    value["assets"][0] |= asset
    manifest.write_text(json.dumps(value), encoding="utf-8")


def test_every_shipped_file_is_owned_once_and_has_its_stated_hash() -> None:
    """If this fails after a change made on purpose: python -m hobus.config.manifests --write."""
    assert ownership_faults(SHIPPED_ROOT) == []


def test_changed_file_is_told_with_the_fix(root: Path) -> None:
    """One byte more, and its owner's hash is stale; the command that fixes it does."""
    with (root / "agents/ADMIN.json").open("a", encoding="utf-8") as file:
        file.write("\n")
    (fault,) = ownership_faults(root)
    assert fault.startswith("agents/ADMIN.json: changed since PKG-ADMIN-AGENT-001 stated its hash")
    assert "python -m hobus.config.manifests --write" in fault
    assert refresh(root) == ["packages/PKG-ADMIN-AGENT-001/manifest.json"]
    assert ownership_faults(root) == []
    assert refresh(root) == []


def test_file_without_owner_is_told(root: Path) -> None:
    """No orphans."""
    (root / "prompt_packs/PRM-EXTRA-001.txt").write_text("x", encoding="utf-8")
    assert ownership_faults(root) == [
        "prompt_packs/PRM-EXTRA-001.txt: no package owns it; add it to the assets of one packages/*/manifest.json"
    ]


def test_file_with_two_owners_is_told(root: Path) -> None:
    """Exactly one package owns a file."""
    edit(
        root / "packages/PKG-PROMPTS-001/manifest.json",
        path="agents/ADMIN.json",
        sha256=hash_of(root / "agents/ADMIN.json"),
    )
    faults = ownership_faults(root)
    assert any("agents/ADMIN.json: owned by PKG-ADMIN-AGENT-001 and by PKG-PROMPTS-001" in fault for fault in faults)


def test_owned_file_that_is_gone_is_told(root: Path) -> None:
    """A manifest names nothing that is not there."""
    (root / "agents/ADMIN.json").unlink()
    assert ownership_faults(root) == ["agents/ADMIN.json: PKG-ADMIN-AGENT-001 lists it, but it does not exist"]


@pytest.mark.parametrize(
    "outside", ["../secrets.txt", "/etc/passwd", "schema.py", "packages/PKG-PROMPTS-001/manifest.json"]
)
def test_path_where_no_governed_file_lives_is_told(root: Path, outside: str) -> None:
    """A package owns governed files and nothing else; the path is never followed."""
    edit(root / "packages/PKG-ATTENTION-001/manifest.json", path=outside)
    assert any(
        f"{outside}: PKG-ATTENTION-001 lists it, but no governed file lives there" in f for f in ownership_faults(root)
    )


def test_bare_hex_is_no_hash(root: Path) -> None:
    """The form is `sha256:<64 hex>`, also when the digits are right."""
    bare = hash_of(root / "agents/ADMIN.json").removeprefix("sha256:")
    manifest = root / "packages/PKG-ADMIN-AGENT-001/manifest.json"
    value = json.loads(manifest.read_text(encoding="utf-8"))
    (asset,) = [asset for asset in value["assets"] if asset["path"] == "agents/ADMIN.json"]
    asset["sha256"] = bare
    manifest.write_text(json.dumps(value), encoding="utf-8")
    assert ownership_faults(root) == [
        "agents/ADMIN.json: PKG-ADMIN-AGENT-001 states a hash that is not `sha256:` and 64 hex digits"
    ]


def test_command_answers_with_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """0 for true hashes, 2 for a wrong call, and the usage is said."""
    assert main(["--check"]) == 0
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
