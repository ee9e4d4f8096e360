"""Workers on a Ray cluster, by deploy/ray: real raylets on this machine, one of them killed under load. Needs Ray (pip install ray)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.cluster import cluster as standing
from bench.cluster import eventually
from bench.far_worker import token_of

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.process
WORKERS = Path(__file__).parents[2] / "deploy" / "ray" / "workers.py"


@pytest.fixture
def nodes() -> Iterator[Any]:
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - only where there is Ray

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield made
    ray.shutdown()
    made.shutdown()


def test_workers_on_ray_survive_their_node(nodes: Any) -> None:
    """A node is killed at work: every turn is answered, every order ends once; a new node gets a worker; the surplus drains."""
    doomed, _ = nodes.add_node(num_cpus=2), nodes.add_node(num_cpus=2)
    with standing({"gateway.providers.offline.latency_ms": 2500, "bus.listen": "127.0.0.1:0"}) as up:
        token = token_of(up, "--uses", "20", "--ephemeral", "10m")
        environ = {**os.environ, "HOBUS_JOIN_TOKEN": token, "RAY_ADDRESS": nodes.address}

        def scale(count: int) -> str:
            words = [sys.executable, str(WORKERS), "--count", str(count)]
            done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=200, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        def ready() -> list[dict[str, Any]]:
            return [row for row in up("ps", "--json").json["actors"] if row["host"] and row["state"] == "ready"]

        assert scale(3).count("started") == 3
        eventually(lambda: len(ready()) == 3, within_s=120)
        assert "already" in scale(3)
        assert scale(5).count("waits for a free CPU") == 1
        began = time.monotonic()
        scale(3)
        assert time.monotonic() - began < 60
        asking = [up.start_ask("How many packages are installed?") for _ in range(6)]
        eventually(lambda: any(row["in_flight"] for row in ready()))
        nodes.remove_node(doomed, allow_graceful=False)
        for one in asking:
            out, err = one.communicate(timeout=200)
            assert json.loads(out)["outcome"] == "success", err
        assert not up.entries("WO_FAILED")
        ids = [entry.submission_id for entry in up.entries("OrderEnded")]
        assert len(ids) == len(set(ids)) > 0
        nodes.add_node(num_cpus=2)
        eventually(lambda: len(ready()) == 3, within_s=120)
        assert scale(1).count("ended") == 2
        eventually(lambda: len(ready()) == 1)
        assert scale(0).count("ended") == 1
        eventually(lambda: not ready())
        up.verify()
