"""Doors for tests that need no other than a plain one."""

import pytest

from tests.launch.http.door import SimulatedDoor


@pytest.fixture
def door():
    """One door, on a simulated cluster of its own."""
    with SimulatedDoor() as made:
        yield made
