"""`hobus workers`: what is said to a wrong word, and where the engine's commands are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hobus.launch.cli.main import run


@pytest.fixture(autouse=True)
def nothing_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any engine, and a person's own directory."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HOBUS_JOIN_TOKEN", raising=False)


@pytest.mark.parametrize(
    "words",
    [
        ["slurm"], ["nomad", "--count", "1"], ["slurm", "--count", "-1"], ["kubernetes", "--count", "2"],
        ["ray", "--count", "2", "--", "--partition=x"], ["kubernetes", "--min", "1", "--image", "i"], ["slurm", "--count", "2"],
    ],
)  # fmt: skip
def test_a_wrong_word_or_an_engine_that_is_not_here_is_told(tmp_path, capfd, words) -> None:
    """Exit 2 before a cluster is looked for or a token made, and no other reason than the engine's own."""
    assert run(["workers", "on", *words, "--home", str(tmp_path / "h")]) == 2
    said = capfd.readouterr().err
    assert not list(tmp_path.iterdir()) and said and "not support" not in said


def test_a_dry_run_shows_no_token_and_needs_no_cluster(tmp_path, capfd, monkeypatch) -> None:
    """As where the cluster is a pod, and kubectl on a desk."""
    monkeypatch.setenv("HOBUS_JOIN_TOKEN", "hobus1secret")
    words = ["workers", "on", "kubernetes", "--min", "1", "--max", "4", "--image", "i", "--dry-run"]
    assert run([*words, "--home", str(tmp_path / "h")]) == 0
    said = capfd.readouterr().out
    assert "kind: ScaledObject" in said and "<the token>" in said and "hobus1secret" not in said
