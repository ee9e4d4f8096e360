"""What the kill matrix demands of a cell, and that the committed table is the committed figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.kills import BEGIN, DEADLINE_S, DOCUMENT, END, MOMENTS, PROCESSES, RESULTS, Cell, faults_of, table

ROOT = Path(__file__).parents[2]
GOOD = Cell(
    process="ho1", moment="tool", outcome="success", code="", answered_after_ms=900, answers=1, same_again=True,
    prompts=3, prompts_unknown=0, prompts_open=0, tool_orders=1, tool_starts=2, tool_ends=1, record="ok",
)  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("outcome", "error"),
        ("answered_after_ms", DEADLINE_S * 1000),
        ("answers", 0),
        ("answers", 2),
        ("same_again", False),
        ("prompts_open", 1),
        ("tool_ends", 2),
        ("record", "a fenced owner wrote"),
    ],
)
def test_each_thing_that_guarantee_1_demands_is_missed(field, value):
    """A cell that lacks one thing has exactly one fault; a whole one has none."""
    assert faults_of(GOOD) == []
    assert len(faults_of(replace(GOOD, **{field: value}))) == 1


def test_the_document_shows_the_committed_figures():
    """The table in docs/reliability.md is made from bench/results/kills.json, has every cell, and no cell has a fault."""
    cells = [Cell(**cell) for cell in json.loads((ROOT / RESULTS).read_text())["cells"]]
    shown = (ROOT / DOCUMENT).read_text().partition(BEGIN)[2].partition(END)[0]
    assert table(cells) in shown
    assert {(cell.process, cell.moment) for cell in cells} >= {(p, m) for p in PROCESSES for m in MOMENTS}
    assert [fault for cell in cells for fault in faults_of(cell)] == []
