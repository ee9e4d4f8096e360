"""G5 and G6, and all gates together: order, policy, what is handed in."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from hobus.bus.messages.base import compute_digest
from hobus.config import files
from hobus.config.files import Layers
from hobus.config.gates.finding import TITLES, Finding, list_failed
from hobus.config.gates.layer import Layer
from hobus.config.gates.run import RecordFault, View, look, run_gates
from hobus.config.schema import AdminConfig
from tests.config.gates.homes import clerk, found, write


class Policy(BaseModel):
    """Section `governance`, as far as a gate asks."""

    signatures: str


class WithPolicy(AdminConfig):
    """Settings with that section."""

    governance: Policy


def with_policy(view: View, signatures: str) -> View:
    """The view under this policy, whatever its settings say."""
    settings = dict(view.reading.config or ()) | {"governance": Policy(signatures=signatures)}
    return replace(view, reading=replace(view.reading, config=WithPolicy.model_construct(**settings)))


def of_g5(view: View, **options: Any) -> list[tuple[str, str, str]]:
    """Severity, file and reason of what G5 says."""
    return [(one.severity, one.file, one.reason) for one in run_gates(view, **options) if one.gate == "G5"]


def test_under_dev_it_is_said_that_nothing_is_checked() -> None:
    assert of_g5(look()) == [
        ("note", "governance.signatures", "signatures are not checked (governance.signatures: dev)")
    ]


def test_a_package_whose_signature_does_not_hold_fails_under_either_policy(tmp_path: Path) -> None:
    root = tmp_path / "PKG-CLERK-001-1.0.0-0123456789abcdef"
    clerk(root)
    view = look(Layers(packages=(root,)))
    for policy in ("dev", "signed"):
        told = of_g5(with_policy(view, policy), verify=lambda _root: "the signature does not hold")
        assert ("fail", str(root), "the signature does not hold") in told
        assert [one for one in of_g5(with_policy(view, policy), verify=lambda _root: "") if one[0] == "fail"] == []


def test_the_bytes_that_were_loaded_are_those_that_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is put back, or taken away, between loading and judging was loaded as it was; settings below others, too."""
    shipped = tmp_path / "shipped"
    shutil.copytree(files.SHIPPED_ROOT, shipped, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    monkeypatch.setattr(files, "SHIPPED_ROOT", shipped)
    package = tmp_path / "PKG-CLERK-001-1.0.0-0123456789abcdef"
    clerk(package)
    own = tmp_path / "own"
    write(own, "admin_config.json", "{}")
    changed = [
        shipped / "prompt_packs/PRM-SYNTHESIZE-001.txt",
        shipped / "packages/PKG-PROMPTS-001/manifest.json",
        shipped / "admin_config.json",
        package / "frameworks/FMWK-900_Clerks/manifest.yaml",
    ]
    before = [path.read_bytes() for path in changed]
    for path, data in zip(changed, before, strict=True):
        path.write_bytes(data + b"\n")
    stray = write(package, "agents/BOT.json", "{}")
    seen: list[bytes] = []

    def put_back(_config: AdminConfig) -> list[str]:
        for path, data in zip(changed, before, strict=True):
            path.write_bytes(data)
        stray.unlink()
        return []

    def verify(layer: Layer) -> str:
        seen.extend(held.content for name, held in layer.held.items() if files.find_kind(name) == "package")
        return ""

    view = look(Layers(packages=(package,), own=own), further=put_back)
    told = {one.file for one in list_failed(run_gates(view, verify=verify)) if one.gate == "G0"}
    assert told >= {*map(str, changed), str(stray)}
    assert seen == [(package / "packages/PKG-CLERK-001/manifest.json").read_bytes()]
    named = view.reading.files["prompt_packs/PRM-SYNTHESIZE-001.txt"]
    assert compute_digest(named.content) == view.layers[0].held[named.name].sha256


@pytest.mark.parametrize(
    ("name", "changed", "reason", "mend"),
    [
        ("packages/PKG-CLERK-001/manifest.json", {"schema_version": "1.0"}, "schema_version: is '1.0'", "write '1.2'"),
        ("packages/PKG-CLERK-001/manifest.json", {"schema_version": 1.2}, "schema_version: is 1.2", "write '1.2'"),
        ("packages/PKG-CLERK-001/manifest.json", {"assets": 1}, "assets: is 1", "write a list"),
        ("packages/PKG-CLERK-001/manifest.json", {"layer": 1.5}, "layer: is 1.5", "write a whole number"),
        (
            "packages/PKG-CLERK-001/manifest.json",
            {"layer": -1},
            "layer: is -1",
            "write a number greater than or equal to 0",
        ),
        ("packages/PKG-CLERK-001/manifest.json", {"title": ""}, "title: is blank", "write a text that is not blank"),
        ("agents/ADMИN.json", {"agent_id": "ADMИN"}, "agent_id: has another form", "64 at most, such as CLERK"),
        ("contracts/PRC-CLASSIFY-001.json", {"required_context": []}, "required_context: is a list", "write an object"),
    ],
)
def test_what_a_load_refuses_has_its_reason_and_its_mend(
    tmp_path: Path, name: str, changed: dict[str, Any], reason: str, mend: str
) -> None:
    clerk(tmp_path)
    like = tmp_path / name
    if not like.exists():
        like = files.SHIPPED_ROOT / ("agents/ADMIN.json" if name.startswith("agents") else name)
    path = write(tmp_path, name, json.dumps(json.loads(like.read_text()) | changed))
    told = [(one.reason, one.mend) for one in found(tmp_path) if one.file == str(path) and one.gate in ("G2", "G3")]
    assert any(said.startswith(reason) and what.endswith(mend) for said, what in told), told
    assert not any("instance of" in one for pair in told for one in pair)


def test_where_nobody_can_verify_a_signed_package_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "PKG-CLERK-001-1.0.0-0123456789abcdef"
    clerk(root)
    view = look(Layers(packages=(root,)))
    assert [one[0] for one in of_g5(with_policy(view, "signed"))] == ["fail"]
    assert [one[0] for one in of_g5(with_policy(view, "dev"))] == ["note"]


def test_under_signed_a_home_has_settings_of_its_own_and_nothing_else(tmp_path: Path) -> None:
    own = write(tmp_path, "prompt_packs/PRM-MINE-001.txt", "[[user]]\nx")
    write(tmp_path, "admin_config.json", '{"ho2": {"history_turns_max": 8}}')
    ((severity, file, reason),) = of_g5(with_policy(look(Layers(own=tmp_path)), "signed"))
    assert (severity, file) == ("fail", str(own)) and "only signed packages are taken" in reason


def test_what_the_record_says_is_handed_in() -> None:
    fault = RecordFault("ledger/segments/0.seg", "byte 7: torn", "restore a copy")
    (one,) = list_failed(run_gates(look(), check_record=lambda: fault))
    assert one == Finding("G6", *fault) and one.line == "G6  ledger/segments/0.seg: byte 7: torn; restore a copy"
    assert list_failed(run_gates(look(), check_record=lambda: None)) == []


def test_findings_come_in_the_order_of_the_gates_and_once_each(tmp_path: Path) -> None:
    clerk(tmp_path, dependencies=["PKG-GHOST-001"])
    write(tmp_path, "specs/SPEC-CLERK-001/standard.md", "# Changed\n")
    write(tmp_path, "admin_config.json", '{"ho2": {"history_turns_max": -1}}')
    write(tmp_path, "prompt_packs/PRM-DEGRADED-001.txt", "no section")
    text = (tmp_path / "frameworks/FMWK-900_Clerks/manifest.yaml").read_text()
    write(
        tmp_path, "frameworks/FMWK-900_Clerks/manifest.yaml", text.replace("tests/test_clerk.py::test_it_asks", "care")
    )
    findings = found(tmp_path, check_record=lambda: RecordFault("x", "y", "z"))
    gates = [one.gate for one in findings]
    assert gates == sorted(gates) and set(gates) == {"G0", "G1", "G2", "G3", "G4", "G6"} and set(TITLES) > set(gates)
    assert len(set(findings)) == len(findings)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"bus": 7}', "\ufeff{}", '{"bus": {"x": 1e999}}'])
def test_settings_that_are_none_are_findings_and_never_a_crash(tmp_path: Path, text: str) -> None:
    write(tmp_path, "admin_config.json", text)
    assert any(one.gate == "G2" and one.severity == "fail" and one.mend for one in found(tmp_path))
