"""A home in use without its logs, and a machine that slept."""

from __future__ import annotations

import shutil
import signal
import time

import pytest

from bench.cluster import Cluster, eventually
from hobus.launch.cluster import identity

pytestmark = pytest.mark.process


def test_without_its_logs_a_cluster_goes_on(cluster: Cluster) -> None:
    """Who is started anew makes them again, and who runs logs into the new ones."""
    cluster.up()
    shutil.rmtree(cluster.home.logs)
    before = cluster.kill("ho1/1")
    eventually(lambda: cluster.is_up("ho1/1", other_than=before.instance))
    assert cluster.home.log("ho1/1").exists()
    eventually(lambda: "state_changed" in cluster.home.log("launcher").read_text())
    assert cluster.ask("hello")["outcome"] == "success"


@pytest.mark.slow
def test_who_slept_with_its_launcher_is_not_killed_for_it(cluster: Cluster) -> None:
    """All stand still for longer than `launcher.stuck_after_ms`, as a machine does, and go on together."""
    cluster.up(settings={"launcher.stuck_after_ms": 5000, "launcher.client_timeout_ms": 1000})
    before = cluster.run()
    everybody = [(row.pid, row.mark) for row in before.processes()]
    for pid, mark in everybody:
        identity.end(pid, mark, signal.SIGSTOP)
    time.sleep(7)
    for pid, mark in everybody:  # the launcher first, which then sees nobody's beat
        identity.end(pid, mark, signal.SIGCONT)
        time.sleep(0.3)
    assert cluster.ask("hello")["outcome"] == "success"
    eventually(lambda: all(row.state == "ready" for row in cluster.run().children))
    assert [row.restarts for row in cluster.run().children] == [row.restarts for row in before.children]
