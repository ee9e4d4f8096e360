"""A cluster that is measured leaves nothing behind."""

from __future__ import annotations

import subprocess

import pytest

from bench import cluster as module
from bench.cluster import cluster
from bench.real_cluster import alive, family_in
from hobus.launch.cluster.home import home_of


@pytest.mark.process
def test_a_cluster_that_is_not_ready_in_time_is_taken_down(tmp_path, monkeypatch):
    """`up --wait` gives up after 1 ms: the error is raised, and nothing lives below the launcher that was begun."""
    monkeypatch.setattr(module.tempfile, "mkdtemp", lambda **_: str(tmp_path))
    family = []

    def run(command, **options):
        if "down" in command:
            family.extend(family_in(home_of(tmp_path / "home")))
        return told(command, **options)

    told = subprocess.run
    monkeypatch.setattr(module.subprocess, "run", run)
    with pytest.raises(subprocess.CalledProcessError), cluster({"launcher.ready_timeout_ms": 1}):
        pytest.fail("it was ready within a millisecond")
    assert family and alive(family) == []
