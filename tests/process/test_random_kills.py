"""A short storm of random kills under load, on real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.random_kills import run_storm

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_random_kills_under_load_lose_and_double_nothing(tmp_path: Path):
    """Thirty kills of whoever is there: each question answered once, each answer in the record, the record whole."""
    looked, found = run_storm(tmp_path, kills=30, sessions=3, pause_s=0.4, seed=1)
    assert looked.faults == [], looked
    assert sum(found["kills"].values()) == 30 and len(found["kills"]) >= 4
    assert found["shown"] > 0
    assert looked.turns.get("success", 0) > 0
