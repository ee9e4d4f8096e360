"""Links of the manifests: who owns which file, who realises which spec, what enforces which invariant."""

from __future__ import annotations

import importlib
import re
from pathlib import Path, PurePosixPath

import pytest

from hobus.config.snapshot import load_snapshot

SNAPSHOT = load_snapshot()
ROOT = Path(__file__).parents[2]


def test_every_governed_file_has_one_owner() -> None:
    """No package lists what another one does."""
    owned = [asset.path for package in SNAPSHOT.packages.values() for asset in package.assets]
    assert len(owned) == len(set(owned))


def test_links_of_the_shipped_manifests_hold() -> None:
    """Package -> spec -> framework exist, expected specs point back, dependencies go to lower layers, and each spec is realised."""
    for package in SNAPSHOT.packages.values():
        assert SNAPSHOT.specs[package.spec_id].framework_id == package.framework_id
        assert all(SNAPSHOT.packages[other].layer < package.layer for other in package.dependencies)
    assert {package.spec_id for package in SNAPSHOT.packages.values()} == set(SNAPSHOT.specs)
    for framework in SNAPSHOT.frameworks.values():
        assert all(SNAPSHOT.specs[spec].framework_id == framework.framework_id for spec in framework.expected_specs)


def test_every_asset_lies_where_its_framework_allows() -> None:
    """A package owns nothing outside its framework's path_authorizations."""
    for package in SNAPSHOT.packages.values():
        allowed = SNAPSHOT.frameworks[package.framework_id].path_authorizations
        for asset in package.assets:
            assert any(PurePosixPath(asset.path).match(pattern) for pattern in allowed), asset.path


ENFORCERS = sorted(
    {check for framework in SNAPSHOT.frameworks.values() for rule in framework.invariants for check in rule.enforced_by}
)


@pytest.mark.parametrize("check", ENFORCERS)
def test_check_that_an_invariant_names_exists(check: str) -> None:
    """An invariant claims only a test or a run-time check that is there."""
    if check.startswith("tests/"):
        path, _, test = check.partition("::")
        assert re.search(
            rf"^ *(async )?def {re.escape(test)}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE
        )
    else:
        module, _, name = check.partition(":")
        assert hasattr(importlib.import_module(module), name)
