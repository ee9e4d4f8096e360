"""`hobus registry` and `hobus gates`: what the files of a home say, without a cluster."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from hobus.launch.cli import main as cli
from hobus.launch.console import exit_codes
from tests.config.gates.homes import clerk, package, write


@pytest.fixture
def run(tmp_path, capsys):
    """A command about the home in `tmp_path`: what it printed, after it ended with this code."""

    def run(*words: str, code: int = exit_codes.OK) -> str:
        assert cli.run(["--home", str(tmp_path), *words]) == code
        printed = capsys.readouterr()
        return printed.out + printed.err

    return run


def rows(run, *words: str) -> list[dict[str, str]]:
    return json.loads(run("registry", *words, "--json"))["rows"]


def test_each_registry_is_shown(run):
    """A table for people, the same rows for programs; every MUST names its check."""
    assert "FMWK-004" in run("registry", "frameworks") and "SPEC-ROUTING-001" in run("registry", "specs")
    assert "PKG-PROMPTS-001" in run("registry", "packages") and "agents/ADMIN.json" in run("registry", "files")
    owned = [one for one in rows(run, "files") if one["package_id"] == "PKG-PROMPTS-001"]
    assert owned and all(one["sha256"].startswith("sha256:") and one["state"] == "ok" for one in owned)
    musts = [one for one in rows(run, "invariants") if one["level"].startswith("MUST")]
    assert len(musts) > 20 and all(one["enforced_by"] for one in musts)
    assert "hobus.config.consistency:find_inconsistencies" in " ".join(run("registry", "invariants").split())


def test_gates_report_and_enforce(run, tmp_path):
    """0 and a report; 3 where a start would be refused. Warnings and notes are no failure."""
    assert "ok    G0" in run("gates", "--enforce") and "signatures are not checked" in run("gates")
    document = json.loads(run("gates", "--json", "--enforce"))
    assert document["ok"] and set(document["gates"]) == {f"G{n}" for n in range(7)}
    clerk(tmp_path / "config", dependencies=["PKG-GHOST-001"])
    said = run("gates")
    assert "fail  G1" in said and "there is no package PKG-GHOST-001" in said and "next: install it first" in said
    assert run("gates", "--enforce", code=exit_codes.INTEGRITY) == said
    (finding,) = json.loads(run("gates", "--json"))["findings"][:1]
    assert set(finding) == {"gate", "file", "reason", "mend", "severity"}
    package(tmp_path / "config")
    run("gates", "--enforce")


def test_a_reader_that_went_away_changes_no_verdict(run, tmp_path, monkeypatch):
    """`hobus gates --enforce | head -1` ends as it does alone; so does what passes."""
    for code in (exit_codes.OK, exit_codes.INTEGRITY):
        for words in (("gates", "--enforce"), ("gates", "--enforce", "--json"), ("config", "check")):
            reader, writer = os.pipe()
            os.close(reader)
            with monkeypatch.context() as patched:
                patched.setattr(sys, "stdout", open(writer, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - closed below
                there = sys.stdout
                assert cli.run(["--home", str(tmp_path), *words]) == code
                for one in {there, sys.stdout}:
                    with suppress(BrokenPipeError):
                        one.close()
        clerk(tmp_path / "config", dependencies=["PKG-GHOST-001"])


def test_a_check_of_the_configuration_runs_the_gates(run, tmp_path):
    """3 for what a gate refuses, all of it at once; 2 where only a setting is wrong; a warning is said."""
    config = tmp_path / "config"
    clerk(config, spec_id="SPEC-GHOST-001")
    assert "there is no spec SPEC-GHOST-001" in run("config", "check", code=exit_codes.INTEGRITY)
    write(config, "admin_config.json", '{"ho2": {"history_turns_max": -1}}')
    assert "ho2.history_turns_max" in run("config", "check", code=exit_codes.USAGE)
    write(config, "admin_config.json", "{}")
    clerk(config)
    agent = (Path(__file__).parents[4] / "config/agents/ADMIN.json").read_text()
    write(config, "agents/ADMIN.json", agent.replace("You are", "You surely are"))
    assert "warning: G0" in run("config", "check")


def test_the_gates_look_at_other_settings_too(run, tmp_path):
    other = write(tmp_path / "elsewhere", "other.json", '{"ho2": {"history_turns_max": -1}}')
    assert json.loads(run("gates", "--json"))["ok"]
    assert not json.loads(run("gates", "--json", "--config", str(other)))["ok"]
    assert "no such file" in run("gates", "--config", str(tmp_path / "gone.json"), code=exit_codes.USAGE)
