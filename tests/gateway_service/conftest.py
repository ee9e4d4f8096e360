"""A gateway in a cluster of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway_service.rig import Cluster, Scripted


@pytest.fixture
def clusters() -> Iterator[list[Cluster]]:
    made: list[Cluster] = []
    yield made
    for cluster in made:
        cluster.close()


@pytest.fixture
def make(clusters: list[Cluster]):
    def start(provider: Scripted | None = None, **sections) -> Cluster:
        clusters.append(Cluster(provider, **sections))
        return clusters[-1]

    return start
