"""A turn that its operator cancels on real processes while its tool runs: the tool's process dies."""

from __future__ import annotations

import pytest

from bench.cancels import STOPPED, measure

pytestmark = pytest.mark.process


def test_a_turn_that_is_cancelled_stops_its_tool():
    """Each one, no card is charged afterwards, and its session goes on; how fast, the benchmark says."""
    row = measure(5)
    assert row.outcomes == {STOPPED: 5} and len(row.reached_ms) == 5, row
    assert (row.effects, row.unusable, row.record) == (0, 0, "ok"), row
