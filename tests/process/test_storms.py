"""A few storms of two and three faults on real processes: a pair, one frozen, three, during a snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.storms.plan import Plan
from bench.storms.running import run_row

pytestmark = [pytest.mark.process, pytest.mark.slow]

STORMS = (
    Plan("killed at once", ("ho2", "zygote"), after_s=0.4),
    Plan("killed and frozen", ("ledger",), ("ho1",), frozen_s=1.2, after_s=0.3),
    Plan("three at once", ("gateway", "host", "ho1"), at_effect=True),
    Plan("killed during snapshot", ("ho2",), during="snapshot"),
)


@pytest.mark.timeout(400)
def test_nobody_is_left_unanswered_charged_twice_or_without_an_owner(tmp_path: Path):
    """Eight people, a run that nobody waits for and a follow-up in each storm; the record and the outside agree."""
    row = run_row(tmp_path, STORMS, seed=1)
    assert row.broken == [], row  # how long it took, `python -m bench.storms` judges
    assert all(len(storm.asked) >= 8 for storm in row.storms)
    assert row.shown > 60 and not any("moment" in who for storm in row.storms for who in storm.struck)
