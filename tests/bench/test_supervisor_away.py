"""How turns without a supervisor are judged, and that the committed table is the committed figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.report import DOCUMENT
from bench.supervisor_away import RESULTS, WAYS, Row, table
from tests.journals import check_record

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


def entry(sequence, event_type, run_seq, *, once=None):
    """One entry of a journal, as far as the invariants look at it."""
    return SimpleNamespace(
        sequence=sequence, event_type=event_type, stream="session/s", submission_id=f"{event_type}:s/in-{run_seq or 1}", once=once,
        provenance=SimpleNamespace(session_id="s", run_seq=run_seq, work_order_id=""), origin="ho2/1@a", tenure=None,
        bodies=[],
    )  # fmt: skip


def test_a_thawed_supervisor_that_writes_behind_the_answer_is_seen():
    """Whatever it is: the run was over when the host had answered."""
    answered = [entry(1, "RunRequested", 1), entry(2, "TurnDegraded", 0, once="turn:s/in-1")]
    check_record(answered)
    check_record([*answered, entry(3, "RunRequested", 2)])
    with pytest.raises(AssertionError, match="behind the host's answer"):
        check_record([*answered, entry(3, "RunFailed", 1)])


def test_the_document_shows_the_committed_figures():
    """All four ways, no fault."""
    rows = [Row(**one) for one in json.loads((ROOT / RESULTS).read_text())["rows"]]
    assert table(rows) in (ROOT / DOCUMENT).read_text()
    assert [row.way for row in rows] == list(WAYS) and [fault for row in rows for fault in row.faults] == []
