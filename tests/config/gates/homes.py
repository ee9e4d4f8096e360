"""Governed files of a home, made to break a gate or to pass them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hobus.bus.messages.base import compute_digest
from hobus.config.files import Layers
from hobus.config.gates.finding import Finding
from hobus.config.gates.run import look, run_gates

FRAMEWORK = """\
framework_id: FMWK-900
title: Clerks
version: "1.0.0"
status: active
ring: resident
plane_id: hot
created_at: "2026-11-25T00:00:00Z"
assets: [standard.md]
expected_specs: [SPEC-CLERK-001]
invariants:
  - level: MUST
    statement: A clerk asks before it writes
    enforced_by: ["tests/test_clerk.py::test_it_asks"]
path_authorizations: ["agents/*.json", "frameworks/FMWK-900_Clerks/*", "specs/SPEC-CLERK-001/*", "prompt_packs/*"]
required_gates: [G0, G1]
"""
SPEC = """\
spec_id: SPEC-CLERK-001
framework_id: FMWK-900
title: A clerk
version: "1.0.0"
assets: [specs/SPEC-CLERK-001/standard.md]
"""
FILES = {
    "frameworks/FMWK-900_Clerks/manifest.yaml": FRAMEWORK,
    "frameworks/FMWK-900_Clerks/standard.md": "# Clerks\n",
    "specs/SPEC-CLERK-001/manifest.yaml": SPEC,
    "specs/SPEC-CLERK-001/standard.md": "# A clerk\n",
}
MANIFEST = "packages/PKG-CLERK-001/manifest.json"


def write(root: Path, name: str, text: str | bytes) -> Path:
    """A file below the home's own ones."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def listed(root: Path, name: str) -> dict[str, str]:
    """An asset of a manifest, with its true hash."""
    return {"path": name, "sha256": compute_digest((root / name).read_bytes()), "classification": "doc"}


def package(root: Path, package_id: str = "PKG-CLERK-001", **changed: Any) -> Path:
    """A manifest of a home's own, by default over all files of this module that are there."""
    value: dict[str, Any] = {
        "package_id": package_id, "version": "1.0.0", "schema_version": "1.2", "title": "Clerk", "description": "A clerk.",
        "spec_id": "SPEC-CLERK-001", "framework_id": "FMWK-900", "plane_id": "hot", "layer": 2,
        "dependencies": ["PKG-GOVERNANCE-001"],
        "assets": [listed(root, name) for name in FILES if (root / name).is_file()],
    }  # fmt: skip
    return write(root, f"packages/{package_id}/manifest.json", json.dumps(value | changed))


def clerk(root: Path, **changed: Any) -> Path:
    """A framework, a spec and a package of a home's own that pass every gate, unless something is `changed`."""
    for name, text in FILES.items():
        write(root, name, text)
    return package(root, **changed)


def found(root: Path | None, *packages: Path, **options: Any) -> list[Finding]:
    """What the gates say, notes left out."""
    view = look(Layers(packages=packages, own=root))
    return [one for one in run_gates(view, **options) if one.severity != "note"]


def said(root: Path | None, gate: str) -> list[str]:
    """The failures of one gate as (reason; mend), in order."""
    return [f"{one.reason}; {one.mend}" for one in found(root) if one.gate == gate and one.severity == "fail"]
