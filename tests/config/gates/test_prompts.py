"""G2 and G3: settings are whole and hold no secret; contracts run, render and fit their budgets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hobus.config.files import SHIPPED_ROOT, Layers
from hobus.config.gates.run import look, run_gates
from tests.config.gates.homes import found, said, write

CONTRACT = "contracts/PRC-CLASSIFY-001.json"


def contract(root: Path, **changed: Any) -> Path:
    """The shipped contract of classifications, changed, in place of the shipped one."""
    value = json.loads((SHIPPED_ROOT / CONTRACT).read_text())
    return write(root, CONTRACT, json.dumps(value | changed))


def changed_schema(**changed: Any) -> dict[str, Any]:
    """Its input schema, changed."""
    return json.loads((SHIPPED_ROOT / CONTRACT).read_text())["input_schema"] | changed


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"output_schema": {"type": "nonsense"}}, "output_schema: is no JSON Schema at $.type"),
        ({"output_schema": {"$ref": "https://example.org/x"}}, "output_schema: refers to something outside itself"),
        ({"output_schema": {"$ref": "#/$defs/none"}}, "output_schema: refers to a missing definition"),
        ({"boundary": {"max_tokens": 9000, "temperature": 0.0}}, "are above the budget `classify` of agent ADMIN (2000)"),
        ({"input_schema": changed_schema(properties={"user_input": {"type": "string"}})}, "shows {{ active_intent }}, which is no input"),
        ({"input_schema": changed_schema(required=[])}, "user_input may be left out and has no default"),
        ({"prompt_pack_id": "PRM-NOWHERE-001"}, "prompt_pack_id: no prompt_packs/PRM-NOWHERE-001.txt"),
        ({"required_context": {"file_refs": ["../../etc/passwd"]}}, "required_context.file_refs.0: leads outside by `..`"),
        ({"required_context": {"file_refs": ["/etc/passwd"]}}, "required_context.file_refs.0: is absolute"),
        ({"required_context": {"framework_refs": ["FMWK-999"]}}, "required_context.framework_refs.0: no framework FMWK-999"),
    ],
)  # fmt: skip
def test_a_contract_that_cannot_be_run_is_told(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    path = contract(tmp_path, **changed)
    failures = [one for one in found(tmp_path) if one.severity == "fail"]
    assert any(told in one.reason and one.gate == "G3" and one.file == str(path) and one.mend for one in failures)


def test_a_pack_that_alone_is_above_its_budget_is_told(tmp_path: Path) -> None:
    text = (SHIPPED_ROOT / "prompt_packs/PRM-CLASSIFY-001.txt").read_text()
    write(tmp_path, "prompt_packs/PRM-CLASSIFY-001.txt", text + "more words. " * 600)
    assert any("above the budget `classify`" in one for one in said(tmp_path, "G3"))


def test_a_contract_of_an_agents_own_is_held_to_that_agents_budget_and_noted_where_nobody_uses_it(
    tmp_path: Path,
) -> None:
    """As long as nobody names it, it is a note, and no fault; then the budget of its purpose bounds it."""
    poem = json.loads((SHIPPED_ROOT / "contracts/PRC-SYNTHESIZE-001.json").read_text())
    poem |= {"contract_id": "PRC-POET-001", "boundary": {"max_tokens": 100_000, "temperature": 0.0}}
    path = write(tmp_path, "contracts/PRC-POET-001.json", json.dumps(poem))
    agent = json.loads((SHIPPED_ROOT / "agents/ADMIN.json").read_text())
    write(tmp_path, "agents/POET.json", json.dumps(agent | {"agent_id": "POET"}))
    [note] = [one for one in run_gates(look(Layers(packages=(), own=tmp_path))) if one.file == str(path)]
    assert note.severity == "note" and "no agent uses it" in note.reason
    write(
        tmp_path,
        "agents/POET.json",
        json.dumps(agent | {"agent_id": "POET", "contracts": {"synthesize": "PRC-POET-001"}}),
    )
    [fault] = [one for one in found(tmp_path) if one.file == str(path)]
    assert fault.severity == "fail" and "above the budget `synthesize` of agent POET" in fault.reason


def test_a_template_above_its_cap_is_told(tmp_path: Path) -> None:
    value = json.loads((SHIPPED_ROOT / "attention/ATT-TURN-001.json").read_text())
    value["budget"]["max_context_tokens"] = 99_000
    write(tmp_path, "attention/ATT-TURN-001.json", json.dumps(value))
    (told,) = said(tmp_path, "G3")
    assert told.startswith("budget.max_context_tokens: 99000 is above budget.projection_budget (10000)")


@pytest.mark.parametrize("path", ["../../etc/passwd", "/srv/../etc", "etc"])
def test_an_agent_s_path_means_one_place(tmp_path: Path, path: str) -> None:
    agent = json.loads((SHIPPED_ROOT / "agents/ADMIN.json").read_text())
    agent["permissions"]["paths"] = [path]
    write(tmp_path, "agents/ADMIN.json", json.dumps(agent))
    (told,) = said(tmp_path, "G2")
    assert told.startswith("permissions.paths.0: ")


def test_a_missing_budget_is_told(tmp_path: Path) -> None:
    write(tmp_path, "admin_config.json", '{"budget": {"classify_budget": null}}')
    assert said(tmp_path, "G2")[0].startswith("budget.classify_budget: ")


def test_a_secret_in_a_setting_fails_and_is_never_repeated(tmp_path: Path) -> None:
    secret = "sk-" + "a1b2c3d4" * 3
    settings = {"tools": {"mcp_servers": {}}, "host": {"agent_id": "ADMIN"}, "launcher": {"environment": [secret]}}
    write(tmp_path, "admin_config.json", json.dumps(settings))
    failures = found(tmp_path)
    assert any("launcher.environment: holds a secret" in one.reason and "env:NAME" in one.mend for one in failures)
    assert secret not in str(failures)


def test_a_text_that_looks_like_a_secret_is_a_warning(tmp_path: Path) -> None:
    """It may be an example, and every prompt would show it."""
    secret = "ghp_" + "a1b2c3d4" * 3
    text = (SHIPPED_ROOT / "prompt_packs/PRM-DEGRADED-001.txt").read_text()
    write(tmp_path, "prompt_packs/PRM-DEGRADED-001.txt", f"{text}\n{secret}\n")
    (warning,) = [one for one in found(tmp_path) if one.gate == "G2"]
    assert warning.severity == "warn" and secret not in str(warning)
