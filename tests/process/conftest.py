"""Clusters of real processes, and servers for them to ask, ended after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.cluster import FORGE, Cluster, cluster_in
from bench.gateway.servers import served
from hobus.launch.launcher.children import make_environment
from tests.process.commands import CommandForge


@pytest.fixture(scope="session", autouse=True)
def commands_are_forked() -> Iterator[None]:
    """For all tests here: each command is a process of its own, and none of them loads everything anew."""
    FORGE.append(CommandForge(make_environment()))
    yield
    FORGE.pop().close()


@pytest.fixture
def launchers_are_executed() -> Iterator[None]:
    """Where a start itself is tested, or what the system shows of an interpreter: its environment, its command line."""
    FORGE[0].forks_launchers = False
    yield
    FORGE[0].forks_launchers = True


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
    return make_cluster("home")


@pytest.fixture
def server() -> Iterator:
    """Serves in a thread of its own, beside the commands of the test."""
    with ExitStack() as stack:
        yield lambda behave: stack.enter_context(served(behave))
