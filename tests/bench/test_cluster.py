"""A cluster that is measured leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import cluster as module
from bench.cluster import alive, cluster, family_in
from hobus.launch.cluster.home import make_home


@pytest.mark.process
def test_a_cluster_that_is_not_ready_in_time_is_taken_down(monkeypatch):
    """`up --wait` gives up after 1 ms: the error is raised, and nothing lives below the launcher that was begun."""
    family, end = [], module.Cluster.end

    def ended(one):
        family.extend(family_in(one.home))
        end(one)

    monkeypatch.setattr(module.Cluster, "end", ended)
    with pytest.raises(AssertionError, match="not ready"), cluster({"launcher.ready_timeout_ms": 1}):
        pytest.fail("it was ready within a millisecond")
    assert family and alive(family) == []


HELD = "import signal; from bench.cluster import *\nwith cluster({}) as one: print(one.home.root, flush=True); signal.pause()"


@pytest.mark.process
def test_a_bench_that_is_told_to_end_takes_its_cluster_along():
    with subprocess.Popen([sys.executable, "-c", HELD], stdout=subprocess.PIPE, text=True) as bench:
        assert bench.stdout is not None
        family = family_in(make_home(Path(bench.stdout.readline().strip())))
        bench.terminate()
    assert family and alive(family) == []
