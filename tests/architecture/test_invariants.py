"""Every invariant of the shipped frameworks has its check, and every check that one names is there."""

from __future__ import annotations

import importlib
import re
from importlib.util import find_spec

from bench.builders import shipped_snapshot
from tests.architecture.source import ROOT

SNAPSHOT = shipped_snapshot()
CHECKS = sorted(
    {check for framework in SNAPSHOT.frameworks.values() for rule in framework.invariants for check in rule.enforced_by}
)


def test_every_check_that_a_shipped_framework_names_is_there() -> None:
    """A test in this tree, or something that can be imported: what gate G4 reads off the text is so."""
    assert len(CHECKS) > 40
    assert [check for check in CHECKS if not is_there(check)] == []


def is_there(check: str) -> bool:
    """Whether a test has this name in its file, or a module has something of it."""
    if check.startswith("tests/"):
        path, _, test = check.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
        return re.search(rf"^(async )?def {re.escape(test)}\(", text, re.MULTILINE) is not None
    module, _, name = check.partition(":")
    return find_spec(module) is not None and hasattr(importlib.import_module(module), name)


def test_no_invariant_that_must_hold_is_left_without_a_check() -> None:
    """Of FMWK-000, 003, 004 and 107, and in the words of their level."""
    assert set(SNAPSHOT.frameworks) == {"FMWK-000", "FMWK-003", "FMWK-004", "FMWK-107"}
    for framework in SNAPSHOT.frameworks.values():
        assert framework.status == "active"
        assert all(rule.enforced_by for rule in framework.invariants if rule.level in ("MUST", "MUST NOT"))


def test_each_spec_has_a_standard_of_its_own() -> None:
    """Owned by the package that realises it, not its framework's page."""
    owners = {asset.path: package for package in SNAPSHOT.packages.values() for asset in package.assets}
    for spec_id, spec in SNAPSHOT.specs.items():
        standard = f"specs/{spec_id}/standard.md"
        assert standard in spec.assets and owners[standard].spec_id == spec_id
        assert (ROOT / "config" / standard).read_text().startswith(f"# {spec_id}: {spec.title}\n")
