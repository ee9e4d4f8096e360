"""What the tests of the broker's core begin with."""

from __future__ import annotations

import pytest

from tests.bus.broker.rig import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()
