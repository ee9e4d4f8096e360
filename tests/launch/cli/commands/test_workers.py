"""`hobus workers`: what is said to a wrong word, and where the engine's commands are not there."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from hobus.launch.cli.main import run
from hobus.launch.cluster.endpoints import is_this_machine


@pytest.fixture(autouse=True)
def nothing_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any engine, and a person's own directory."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HOBUS_JOIN_TOKEN", raising=False)


@pytest.mark.parametrize(
    ("words", "missing", "mend"),
    [
        (["slurm", "--count", "2"], "squeue, sbatch, scancel", "login node"),
        (["kubernetes", "--count", "2", "--image", "i"], "kubectl", "install kubectl"),
        pytest.param(
            ["ray", "--count", "2"], "ray", "pip install ray",
            marks=pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is here"),
        ),
    ],
)  # fmt: skip
def test_an_engine_that_is_not_here_is_named_with_its_mend(tmp_path, capsys, words, missing, mend) -> None:
    """Exit 1 before a cluster is looked for or a token made."""
    assert run(["workers", "on", *words, "--home", str(tmp_path / "h")]) == 1
    said = capsys.readouterr().err
    assert missing in said
    assert mend in said
    assert not (tmp_path / "h").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["slurm"], ["nomad", "--count", "1"], ["slurm", "--count", "-1"], ["kubernetes", "--count", "2"],
        ["ray", "--count", "2", "--", "--partition=x"], ["kubernetes", "--min", "1", "--image", "i"],
    ],
)  # fmt: skip
def test_a_wrong_word_is_a_mistake_of_usage(tmp_path, words) -> None:
    """Exit 2, and nothing is made."""
    assert run(["workers", "on", *words, "--home", str(tmp_path / "h")]) == 2
    assert not (tmp_path / "h").exists()


def test_a_dry_run_without_a_cluster_says_that_there_is_none(tmp_path, capsys) -> None:
    """What would fail is not shown as if it would work."""
    assert run(["workers", "on", "ray", "--count", "2", "--dry-run", "--home", str(tmp_path / "h")]) == 4
    assert "hobus up" in capsys.readouterr().err


def test_a_dry_run_of_none_needs_no_cluster(tmp_path, capsys) -> None:
    """One JSON object with the commands; no token."""
    words = ["workers", "on", "kubernetes", "--count", "0", "--dry-run", "--json", "--home", str(tmp_path / "h")]
    assert run(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["token"], said["dry_run"], said["steps"][0]["command"][0]) == (None, True, "kubectl")


def test_a_token_from_elsewhere_needs_no_cluster_and_is_not_shown(tmp_path, capsys, monkeypatch) -> None:
    """As where the cluster is a pod, and kubectl on a desk."""
    monkeypatch.setenv("HOBUS_JOIN_TOKEN", "hobus1secret")
    words = ["workers", "on", "kubernetes", "--min", "1", "--max", "4", "--image", "i", "--dry-run"]
    assert run([*words, "--home", str(tmp_path / "h")]) == 0
    said = capsys.readouterr().out
    assert "kind: ScaledObject" in said
    assert "hobus1secret" not in said


@pytest.mark.parametrize(
    ("address", "is_it"),
    [("127.0.0.1:5", True), ("localhost", True), ("[::1]:7", True), ("10.0.0.7:5570", False), ("a.example", False)],
)
def test_which_addresses_no_pod_reaches(address: str, is_it: bool) -> None:
    """With a port or without one."""
    assert is_this_machine(address) is is_it
