"""An order that its requester takes back on real processes: the provider's call is given up, the tool's process dies."""

from __future__ import annotations

import pytest

from bench.cancels import TARGETS, measure

pytestmark = pytest.mark.process


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_taken_back_is_stopped(target: str):
    """Each one, and no card is charged afterwards; how fast, the benchmark says."""
    row = measure("order", target, 5)
    assert row.outcomes == {"taken back": 5} and len(row.reached_ms) == 5 and row.effects == 0, row
