"""Clusters of real processes, and servers for them to ask, ended after each test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.cluster import Cluster, cluster_in
from bench.gateway.servers import Behave, Server, serving


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[[str], Cluster]]:
    """Makes clusters by name, each in its own home; all are ended, and no broker of them has met a defect."""
    made: list[Cluster] = []

    def make(name: str) -> Cluster:
        made.append(cluster_in(tmp_path / name))
        return made[-1]

    yield make
    for cluster in made:
        cluster.end()
    assert [line for cluster in made for line in cluster.defects()] == []


@pytest.fixture
def cluster(make_cluster: Callable[[str], Cluster]) -> Cluster:
    """One cluster, not up yet."""
    return make_cluster("home")


@pytest.fixture
def server() -> Iterator:
    """Serves in a thread of its own, beside the commands of the test."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ends: list = []

    def start(behave: Behave) -> Server:
        manager = serving(behave)
        ends.append(manager)
        return asyncio.run_coroutine_threadsafe(manager.__aenter__(), loop).result()

    yield start
    for manager in ends:
        asyncio.run_coroutine_threadsafe(manager.__aexit__(None, None, None), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
