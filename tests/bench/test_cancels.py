"""How cancels are judged, and that the committed table is the committed figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cancels import GOAL_MS, RESULTS, TARGETS, DeadlineRow, Row, table
from bench.report import DOCUMENT, percentile

ROOT = Path(__file__).parents[2]
GOOD = Row("command", "tool", reached_ms=[float(n) for n in range(40)], asked_next=40, usable=40)


@pytest.mark.parametrize(("percent", "value"), [(50, 50.0), (99, 99.0), (100, 100.0)])
def test_a_percentile_is_a_measured_value(percent, value):
    """The smallest that so many percent do not exceed; of nothing 0."""
    assert percentile([float(n) for n in range(100, 0, -1)], percent) == value
    assert percentile([], percent) == 0.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reached_ms", [1.0, GOAL_MS + 1.0]),
        ("effects", 1),
        ("usable", 39),
        ("outcomes", {"error cancelled": 39, "success": 1}),
        ("record", "an order was ended twice"),
    ],
)
def test_each_miss_is_a_fault(field, value):
    """One at a time; a good row has none."""
    assert GOOD.faults == []
    assert len(replace(GOOD, **{field: value}).faults) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("latest_after_ms", GOAL_MS + 1.0), ("outcomes", {"error DEADLINE_EXCEEDED": 9, "fault expired": 1})],
)
def test_a_deadline_is_kept_by_an_honest_answer_before_it(field, value):
    """Late is a fault, and so is a client that only sees its own time run out."""
    good = DeadlineRow(1000, 10, 790.0, -210.0, {"error DEADLINE_EXCEEDED": 10}, 2.0)
    assert good.faults == []
    assert len(replace(good, **{field: value}).faults) == 1


def test_the_document_shows_the_committed_figures():
    """At least two hundred cancels, the goal met, no deadline missed."""
    figures = json.loads((ROOT / RESULTS).read_text())
    rows = [Row(**one) for one in figures["rows"]]
    deadlines = [DeadlineRow(**one) for one in figures["deadlines"]]
    assert table(rows, deadlines) in (ROOT / DOCUMENT).read_text()
    assert {(row.way, row.target) for row in rows} >= {("command", target) for target in TARGETS}
    assert all(len(row.reached_ms) >= 200 for row in rows) and [fault for row in rows for fault in row.faults] == []
    assert [fault for one in deadlines for fault in one.faults] == []
