"""`python -m bench.ledger_drills`: a sample of every drill at every run of the process tests."""

from __future__ import annotations

import pytest

from bench.ledger_drills.__main__ import rows
from bench.ledger_drills.rig import Row
from bench.ledger_drills.stored import segments


@pytest.mark.process
@pytest.mark.timeout(600)
def test_no_drill_loses_or_accepts_anything(tmp_path):
    """Each kind of harm, each with the outcome that docs/ledger.md promises for it."""
    done = rows(tmp_path, full=False, jobs=1)
    assert [example for row in done for example in row.examples] == []
    assert sum(row.lost + row.wrong for row in done) == 0
    assert all(row.cases for row in done)


@pytest.mark.slow
def test_segments_in_the_wrong_place_are_told_without_an_index(memory_path):
    """Swapped, foreign, copied, removed, renamed, cut: the start reads everything then, and refuses."""
    row = segments(memory_path, with_index=False)
    assert row.examples == [] and row.outcomes == {"refused": row.cases}


def test_an_outcome_that_was_not_promised_counts():
    """A loss as a loss, everything else as wrong, and an example of each."""
    row = Row("x", "none")
    row.count("whole", ("refused",), "a")
    row.count("lost", ("whole", "repaired"), "b")
    row.count("refused", ("refused", "told"), "c")
    assert (row.cases, row.lost, row.wrong) == (3, 1, 1) and row.examples == ["x: a: whole", "x: b: lost"]
