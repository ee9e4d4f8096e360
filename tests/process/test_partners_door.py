"""Clients that people have, as they are, through the door of a real cluster: words, streams, tools of their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cluster import Cluster
from tests.process.door_clients import CHECKS

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120
"""Of one client: their imports alone take seconds."""


def failure_of(package: str, url: str, key: str) -> str:
    """What a client said in the end, in a process of its own that reaches this machine alone; empty: all is well."""
    environment = os.environ | {"LANGSMITH_TRACING": "false", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.process.door_clients", url, key, package], cwd=ROOT, env=environment,
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    return "" if ended.returncode == 0 else f"exit {ended.returncode}: {ended.stderr[-2000:]}"


@pytest.mark.timeout(TIMEOUT_S * len(CHECKS))
def test_clients_ask_stream_and_have_their_tools_called(cluster: Cluster) -> None:
    """Each of them unchanged, against one door; every turn that they began was answered, and by no reduced answer."""
    if missing := [package for package in CHECKS if importlib.util.find_spec(package) is None]:
        pytest.skip(f"not installed: {', '.join(missing)} (the extra `clients`)")
    cluster.up("--http", "127.0.0.1:0")
    key = cluster("token create", "--role", "http", "--name", "alice").out.strip()
    url = f"http://{cluster.home.bound(http=True)}/v1"
    failures = {package: said for package in CHECKS if (said := failure_of(package, url, key))}
    assert not failures, "\n".join(f"{package}: {said}" for package, said in failures.items())
    ends = [entry.event_type for entry in cluster.entries("RunRequested", "RunCompleted", "RunFailed", "RunCancelled")]
    assert ends.count("RunCompleted") == ends.count("RunRequested") == len(ends) / 2
    assert cluster.entries("DEGRADATION") == []
    assert cluster("ledger verify").code == 0
