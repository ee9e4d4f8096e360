"""Clusters with a session host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.actors.session_host.rig import Hosted


@pytest.fixture
def make() -> Iterator[Callable[..., Hosted]]:
    """Starts clusters and closes them."""
    made: list[Hosted] = []

    def start(provider: Any = None, **sections: dict[str, Any]) -> Hosted:
        made.append(Hosted(provider, **sections))
        return made[-1]

    yield start
    for cluster in made:
        cluster.close()
