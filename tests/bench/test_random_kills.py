"""What a storm of kills must not leave, and that the committed table is the committed figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.random_kills import RESULTS, Storm, told
from bench.report import DOCUMENT

ROOT = Path(__file__).parents[2]
GOOD = Storm(
    sessions=2,
    seconds=10.0,
    kills={"ho1": 5},
    turns={"success": 3, "degraded": 1},
    answered_when_asked_again=0,
    p50_s=1.0,
    slowest_s=2.0,
    record="ok",
)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lost", ["in-1: expired"]),
        ("answered_twice", ["in-1"]),
        ("told_otherwise", ["in-1"]),
        ("shown_and_lost", ["RunCompleted:s-1"]),
        ("not_in_the_record", ["the answer to in-1"]),
        ("record", "a fenced owner wrote"),
        ("wrongly_charged", ["WO-1 by charge_keyed: 2 effects"]),
    ],
)
def test_each_loss_is_a_fault(field, value):
    """A turn without an answer, one with two, a record that is missing or broken; a whole storm has none."""
    assert GOOD.faults == []
    assert len(replace(GOOD, **{field: value}).faults) == 1


def test_the_document_shows_the_committed_figures():
    """The table in docs/reliability.md is made from bench/results/random_kills.json: 1,000 kills and no fault."""
    figures = json.loads((ROOT / RESULTS).read_text())
    figures.pop("machine")
    storm = Storm(**figures)
    assert told(storm) in (ROOT / DOCUMENT).read_text()
    assert all(charges["calls"] for charges in storm.charges.values()) and len(storm.charges) == 2
    assert sum(storm.kills.values()) >= 1000 and storm.faults == []
