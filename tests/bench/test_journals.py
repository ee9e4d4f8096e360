"""The journals of `python -m bench.journals`: a few of them at every run of the tests, and the shipped table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.journals import Tally as Lives
from bench.journals import live, run
from bench.lives import differences

JOURNALS = 1000


@pytest.mark.parametrize("count", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_lives_break_no_invariant_and_fold_to_the_same_bytes(count: int) -> None:
    """Some seeds beyond those of the table; they are read from snapshots, too, and stand in more than one state."""
    tally = run(count, first_seed=1_000_001)
    assert tally.faults == []
    assert tally.snapshots > count
    assert tally.lifecycles.keys() >= {"Idle", "Running", "Cancelling"}


def test_difference_is_found() -> None:
    """A live record that is not what its journal says: every fold says so, the faults count."""
    tally = Lives()
    life = live(5, tally)
    life.record.total_tokens += 1
    life.record.last_run = None
    life.record.head = "another"
    assert differences(life.entries, life.record)
    assert replace(tally, different=["seed 5: replay 1"]).faults == ["seed 5: replay 1"]
