"""How turns without a supervisor are judged, and that the committed table is the committed figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.documents import DOCUMENT
from bench.supervisor_away import RESULTS, WAYS, Row, table

ROOT = Path(__file__).parents[2]
GOOD = Row("drained", 9, 9, {}, 2700, 300, 2720, 0, 0, 0, 0, "ok")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("other", {"error": 1}),
        ("slowest_ms", 5001),
        ("unmarked", 1),
        ("answers_wrong", 1),
        ("changed_afterwards", 1),
        ("record", "x"),
    ],
)
def test_each_miss_is_a_fault(field, value):
    """One at a time; a good row has none."""
    assert GOOD.faults == []
    assert len(replace(GOOD, **{field: value}).faults) == 1


def test_the_document_shows_the_committed_figures():
    """All four ways, no fault."""
    rows = [Row(**one) for one in json.loads((ROOT / RESULTS).read_text())["rows"]]
    assert table(rows) in (ROOT / DOCUMENT).read_text()
    assert [row.way for row in rows] == list(WAYS) and [fault for row in rows for fault in row.faults] == []
