"""Hashes of the governed files that are shipped: told where they are stale, and written anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hobus.config.files import SHIPPED_ROOT
from hobus.config.gates.layer import SEAL
from hobus.config.gates.ownership import find_breaches
from hobus.config.manifests import main, read_shipped_layer, refresh

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


def faults(root: Path) -> list[str]:
    """Name, reason and mend of each breach."""
    return [
        f"{Path(one.file).relative_to(root)}: {one.reason}; {one.mend}"
        for one in find_breaches([read_shipped_layer(root)], is_checkout=True)
    ]


def test_every_shipped_file_is_owned_once_and_has_its_stated_hash() -> None:
    """If this fails after a change made on purpose: python -m hobus.config.manifests --write."""
    assert faults(SHIPPED_ROOT) == []


def test_changed_file_is_told_with_the_fix(root: Path) -> None:
    with (root / "agents/ADMIN.json").open("a", encoding="utf-8") as file:
        file.write("\n")
    (fault,) = faults(root)
    assert fault.startswith("agents/ADMIN.json: changed since PKG-ADMIN-AGENT-001 stated its hash")
    assert "python -m hobus.config.manifests --write" in fault
    assert refresh(root) == ["packages/PKG-ADMIN-AGENT-001/manifest.json", SEAL]
    assert faults(root) == []
    assert refresh(root) == []


def test_file_without_owner_is_told(root: Path) -> None:
    (root / "prompt_packs/PRM-EXTRA-001.txt").write_text("x", encoding="utf-8")
    assert faults(root) == [
        "prompt_packs/PRM-EXTRA-001.txt: no package owns it; add it to the assets of one packages/*/manifest.json"
    ]


def test_owned_file_that_is_gone_is_told(root: Path) -> None:
    (root / "agents/ADMIN.json").unlink()
    assert faults(root) == [
        "agents/ADMIN.json: PKG-ADMIN-AGENT-001 lists it, but it does not exist; restore it, or unlist it"
    ]


def test_a_manifest_that_is_changed_or_gone_is_told_by_the_seal(root: Path) -> None:
    manifest = root / "packages/PKG-ATTENTION-001/manifest.json"
    manifest.write_text(manifest.read_text().replace('"title": "Attention"', '"title": "Attentive"'))
    assert faults(root)[0].startswith("packages/PKG-ATTENTION-001/manifest.json: is not as packages/sealed.json has it")
    (root / SEAL).write_text("{")
    assert len(faults(root)) == 5


def test_command_answers_with_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
