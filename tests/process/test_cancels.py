"""An order that its requester takes back on real processes: the tool's process dies."""

from __future__ import annotations

import pytest

from bench.cancels import measure

pytestmark = pytest.mark.process


def test_a_tool_that_is_taken_back_is_stopped():
    """Each one, and no card is charged afterwards; how fast, the benchmark says."""
    row = measure("order", 5)
    assert row.outcomes == {"taken back": 5} and len(row.reached_ms) == 5 and row.effects == 0, row
