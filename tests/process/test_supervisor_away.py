"""Turns without a supervisor, on real processes: a short run of R3."""

from __future__ import annotations

import pytest

from bench.supervisor_away import WAYS, run_way

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=() if way in ("given up", "frozen in the turn") else pytest.mark.matrix) for way in WAYS],
)
def test_every_turn_is_answered_as_degraded_and_stays_so(way: str):
    """In time, marked, one answer each; the supervisor that comes back changes nothing of it."""
    row = run_way(way, 6)
    assert row.faults == [] and row.degraded == row.turns == 6, row
