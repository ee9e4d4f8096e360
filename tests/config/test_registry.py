"""Registries derived from the manifests."""

from __future__ import annotations

import importlib
import re
from pathlib import Path, PurePosixPath

import pytest

from hobus.config.registry import file_owners, framework_rows, package_rows, spec_rows, unenforced
from hobus.config.snapshot import load_snapshot

SNAPSHOT = load_snapshot()
ROOT = Path(__file__).parents[2]


def test_package_registry_lists_every_package_once_in_order() -> None:
    """One row for each manifest, by id."""
    rows = package_rows(SNAPSHOT.packages)
    assert [row.package_id for row in rows] == sorted(SNAPSHOT.packages)
    assert {row.package_id: row.file_count for row in rows}["PKG-PROMPTS-001"] == len(
        SNAPSHOT.packages["PKG-PROMPTS-001"].assets
    )


def test_framework_registry_names_specs_and_packages() -> None:
    """The rows follow the links of the manifests backwards."""
    rows = {row.framework_id: row for row in framework_rows(SNAPSHOT.frameworks, SNAPSHOT.specs, SNAPSHOT.packages)}
    assert rows["FMWK-003"].specs == ("SPEC-ROUTING-001",)
    assert rows["FMWK-003"].packages == ("PKG-PROMPT-ROUTER-001",)
    assert rows["FMWK-004"].unenforced_count == len(unenforced(SNAPSHOT.frameworks["FMWK-004"]))


def test_spec_registry_names_the_packages_that_realise_a_spec() -> None:
    """Every shipped spec has one."""
    assert all(row.packages for row in spec_rows(SNAPSHOT.specs, SNAPSHOT.packages))


def test_every_governed_file_has_one_owner() -> None:
    """The ownership registry is a function."""
    assert all(len(owners) == 1 for owners in file_owners(SNAPSHOT.packages).values())


def test_links_of_the_shipped_manifests_hold() -> None:
    """Package -> spec -> framework exist, expected specs point back, dependencies go to lower layers."""
    for package in SNAPSHOT.packages.values():
        assert SNAPSHOT.specs[package.spec_id].framework_id == package.framework_id
        assert all(SNAPSHOT.packages[other].layer < package.layer for other in package.dependencies)
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
