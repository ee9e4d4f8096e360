"""Clusters of real processes, and servers for them to ask, ended after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from bench.cluster import WARM, Cluster, cluster_in, environment
from bench.gateway.servers import served
from bench.warm import IS_POSSIBLE, Commands


@pytest.fixture(scope="session")
def loaded_commands() -> Iterator[Commands | None]:
    """A process that has loaded all commands; None where this system cannot wait for its forks."""
    with ExitStack() as stack:
        yield stack.enter_context(closing(Commands(environment()))) if IS_POSSIBLE else None


@pytest.fixture(scope="module")
def warm_commands(loaded_commands: Commands | None) -> Iterator[None]:
    """For tests that give many commands, of which none is about its own start: each is a fork of that process."""
    if loaded_commands is not None:
        WARM.append(loaded_commands)
    yield
    WARM.clear()


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
    with ExitStack() as stack:
        yield lambda behave: stack.enter_context(served(behave))
