"""G1: package -> spec -> framework, assets inside their framework's places, dependencies with an order."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from hobus.config.files import SHIPPED_ROOT
from hobus.config.gates.links import is_in_place
from tests.config.gates.homes import FRAMEWORK, SPEC, clerk, found, package, said, write


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"spec_id": "SPEC-GHOST-001"}, "spec_id: there is no spec SPEC-GHOST-001; name one of "),
        ({"framework_id": "FMWK-999"}, "framework_id: there is no framework FMWK-999; name one of "),
        ({"framework_id": "FMWK-000"}, "framework_id: is FMWK-000, but its spec SPEC-CLERK-001 is of FMWK-900; make them equal"),
        ({"dependencies": ["PKG-CLERK-001"]}, "dependencies: it depends on itself; remove it from its own dependencies"),
        ({"dependencies": ["PKG-GHOST-001"]}, "dependencies: there is no package PKG-GHOST-001; install it first"),
        ({"dependencies": ["PKG-ADMIN-AGENT-001"], "layer": 1}, "dependencies: PKG-ADMIN-AGENT-001 is of layer 2, above its own (1)"),
    ],
)  # fmt: skip
def test_a_link_that_leads_nowhere_is_told_with_the_mend(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    clerk(tmp_path, **changed)
    assert any(one.startswith(told) for one in said(tmp_path, "G1")), said(tmp_path, "G1")


def test_everything_is_told_at_once(tmp_path: Path) -> None:
    clerk(tmp_path, spec_id="SPEC-GHOST-001", dependencies=["PKG-CLERK-001", "PKG-GHOST-001"])
    write(tmp_path, "specs/SPEC-CLERK-001/standard.md", "# Other\n")
    write(tmp_path, "admin_config.json", '{"ho2": {"history_turns_max": -1}, "bus": {"colour": 1}}')
    assert [one.gate for one in found(tmp_path)] == ["G0", "G1", "G1", "G1", "G1", "G2", "G2"]  # SPEC's file, too


def test_a_cycle_is_named(tmp_path: Path) -> None:
    clerk(tmp_path, dependencies=["PKG-B-001"])
    package(tmp_path, "PKG-B-001", assets=[], dependencies=["PKG-C-001"])
    package(tmp_path, "PKG-C-001", assets=[], dependencies=["PKG-CLERK-001"])
    (told,) = said(tmp_path, "G1")
    cycle = told.partition("lead back to themselves: ")[2].partition(";")[0].split(" -> ")
    assert cycle[0] == cycle[-1] and set(cycle) == {"PKG-CLERK-001", "PKG-B-001", "PKG-C-001"}
    follows = {"PKG-CLERK-001": "PKG-B-001", "PKG-B-001": "PKG-C-001", "PKG-C-001": "PKG-CLERK-001"}
    assert [follows[one] for one in cycle[:-1]] == cycle[1:]


@pytest.mark.parametrize(
    ("pattern", "is_told"),
    [("agents/*.json", False), ("agents/C*.json", False), ("*", True), ("*.json", True), ("agents/X/*", True), ("agents/c*.json", True)],
)  # fmt: skip
def test_an_asset_lies_where_its_framework_authorizes(tmp_path: Path, pattern: str, is_told: bool) -> None:
    """Part by part of its path: a star never stands for a directory in between."""
    agent = write(tmp_path, "agents/CLERK.json", "{}")
    clerk(tmp_path)
    text = FRAMEWORK.replace('"agents/*.json"', f'"{pattern}"')
    write(tmp_path, "frameworks/FMWK-900_Clerks/manifest.yaml", text)
    package(tmp_path, assets=[{"path": "agents/CLERK.json", "sha256": "sha256:" + "0" * 64, "classification": "agent"}])
    assert agent.is_file()
    told = [one for one in said(tmp_path, "G1") if "outside of what FMWK-900 authorizes" in one]
    assert bool(told) is is_told


def test_a_framework_has_the_specs_and_files_that_it_expects(tmp_path: Path) -> None:
    clerk(tmp_path)
    text = FRAMEWORK.replace("[SPEC-CLERK-001]", "[SPEC-CLERK-001, SPEC-GHOST-001, SPEC-ADMIN-001]")
    write(tmp_path, "frameworks/FMWK-900_Clerks/manifest.yaml", text.replace("[standard.md]", "[standard.md, more.md]"))
    write(tmp_path, "specs/SPEC-CLERK-001/manifest.yaml", SPEC.replace("]", ", agents/NOBODY.json, agents/ADMIN.json]"))
    package(tmp_path)
    assert sorted(said(tmp_path, "G1")) == [
        "assets: agents/ADMIN.json belongs to PKG-ADMIN-AGENT-001, which realises SPEC-ADMIN-001; give the spec a file that its own package owns",
        "assets: there is no agents/NOBODY.json; add the file, or take it off the list",
        "assets: there is no more.md beside the manifest; add the file, or take it off the list",
        "expected_specs: SPEC-ADMIN-001 is of FMWK-107; make its framework_id FMWK-900, or do not expect it",
        "expected_specs: there is no spec SPEC-GHOST-001; add it, or do not expect it",
    ]


@pytest.mark.parametrize(
    ("name", "alike"),
    [("packages/PKG-GOVERNANCE-OO1/manifest.json", "PKG-GOVERNANCE-001"), ("packages/PKG-PR0MPTS-001/manifest.json", "PKG-PROMPTS-001")],
)  # fmt: skip
def test_an_id_that_is_taken_for_another_s_is_told(tmp_path: Path, name: str, alike: str) -> None:
    """0 and O, 1, I and L, 5 and S: whoever reads it would trust the wrong one."""
    clerk(tmp_path)
    package(tmp_path, name.split("/")[1], assets=[])
    assert any(f"its id looks like {alike}, which {alike} owns" in one for one in said(tmp_path, "G1"))


def test_an_agent_that_is_taken_for_a_shipped_one_is_told(tmp_path: Path) -> None:
    agent = (Path(__file__).parents[3] / "config/agents/ADMIN.json").read_text()
    for name in ("ADM1N", "BOTI", "BOT1"):
        write(
            tmp_path, f"agents/{name}.json", agent.replace('"ADMIN",\n  "agent_class"', f'"{name}",\n  "agent_class"')
        )
    assert [one for one in said(tmp_path, "G1") if "looks like" in one] == [
        "its id looks like ADMIN, which PKG-ADMIN-AGENT-001 owns; give it an id that cannot be confused with that one"
    ]


@pytest.mark.parametrize("name", ["ADMIN_", "AD_MIN", "ADM1N__"])
def test_an_id_that_only_a_mark_between_letters_tells_apart_is_taken_for_it(tmp_path: Path, name: str) -> None:
    agent = (Path(__file__).parents[3] / "config/agents/ADMIN.json").read_text()
    write(tmp_path, f"agents/{name}.json", agent.replace('"ADMIN",\n  "agent_class"', f'"{name}",\n  "agent_class"'))
    assert any("its id looks like ADMIN," in one for one in said(tmp_path, "G1"))


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("contracts/PRC-CLASS1FY-001.json", "PRC-CLASSIFY-001"), ("prompt_packs/PRM-CLA55IFY-001.txt", "PRM-CLASSIFY-001"),
        ("attention/ATT-ADM1N-001.json", "ATT-ADMIN-001"),
    ],
)  # fmt: skip
def test_a_part_of_a_prompt_that_is_taken_for_another_s_is_told(tmp_path: Path, name: str, alike: str) -> None:
    """Contracts, packs and templates are named in other files: whoever reads one there would trust the wrong one."""
    kind, _, file = name.partition("/")
    text = (SHIPPED_ROOT / kind / f"{alike}.{file.partition('.')[2]}").read_text()
    write(tmp_path, name, text.replace(alike, file.partition(".")[0]))
    assert any(one.startswith(f"its id looks like {alike}, which PKG-") for one in said(tmp_path, "G1"))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"package_id": "PKG-\\u0410DMIN-001"', "not JSON"),
        (None, "schema_version"),
        ("[]", "not an object"),
        ('{"package_id": "PKG-X-001", "package_id": "PKG-X-001"}', "written twice"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_manifest_that_is_none_is_a_finding_and_never_a_crash(tmp_path: Path, text: str | None, part: str) -> None:
    clerk(tmp_path)
    if text is None:
        package(tmp_path, schema_version="9.0")
    else:
        write(tmp_path, "packages/PKG-X-001/manifest.json", text)
    assert any(part in f"{one.reason}" and one.severity == "fail" for one in found(tmp_path))


def test_letters_of_another_alphabet_are_no_id(tmp_path: Path) -> None:
    clerk(tmp_path)
    package(tmp_path, "PKG-\u0410DMIN-001", assets=[])
    assert any("package_id" in one.reason and one.severity == "fail" for one in found(tmp_path))


def test_a_bomb_in_a_manifest_is_refused_at_once(tmp_path: Path) -> None:
    clerk(tmp_path)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    write(tmp_path, "frameworks/FMWK-901_Bomb/manifest.yaml", "\n".join(lines))
    (told,) = [one for one in found(tmp_path) if "FMWK-901" in one.file]
    assert "an alias (*name)" in told.reason + told.mend and told.severity == "fail"


@pytest.mark.parametrize(
    ("path", "pattern", "lies"),
    [
        ("agents/A.json", "agents/A.json", True), ("agents/A.json", "agents/*", True), ("agents/A.json", "*/*", True),
        ("agents/A.json", "agents/*.json", True), ("agents/.json", "agents/*.json", True),
        ("agents/AXBXC", "agents/A*B*C", True), ("agents/AXXC", "agents/A*B*C", False),
        ("agents/AB", "agents/AB*B", False), ("agents/ABB", "agents/AB*B", True), ("agents/ABAB", "agents/*AB*AB", True),
        ("agents/AB", "agents/*AB*AB", False), ("agents/A", "agents/**A**", True), ("agents/a", "agents/A", False),
        ("frameworks/F/x", "frameworks/*", False), ("agents", "agents/*", False), ("agents/A", "*", False),
    ],
)  # fmt: skip
def test_a_star_stands_for_a_part_of_a_name(path: str, pattern: str, lies: bool) -> None:
    assert is_in_place(path, pattern) is lies


def test_no_pattern_takes_long() -> None:
    began = time.monotonic()
    assert not is_in_place("A" * 1000, "*A" * 400 + "B")
    assert time.monotonic() - began < 1
