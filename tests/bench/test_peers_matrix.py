"""The tables of the side-by-side matrix, and that the committed ones are the committed figures."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bench.kills import POINTS
from bench.peers_matrix import (
    OURS,
    OURSELVES,
    PEERS,
    RESULTS,
    Cancelled,
    Crash,
    cancel_table,
    crash_table,
    faults,
    not_measured,
)
from bench.report import DOCUMENT

ROOT = Path(__file__).parents[2]
STOPPED = Cancelled(
    OURSELVES, 9.0, effect_after_cancel=False, late_result_kept=False, usable=True, transcript_valid=True
)


def test_a_cell_says_calls_effects_and_what_is_more_to_say():
    """A life without an answer, and a call in doubt that was reported, are not left out."""
    found = [
        Crash("a", "llm1_done", 3, 1, "done"),
        Crash("a", "tool_effect", 2, 2, None, "why"),
        Crash("b", "llm1_done", 2, 1, "done"),
        Crash("b", "tool_effect", 2, 1, "done", "in doubt: reported"),
        Crash("c", "llm1_done", 2, 1, "done", faults=("one recorded answer",)),
        Crash("c", "tool_effect", 2, 1, "done"),
    ]
    assert crash_table(found).splitlines()[2:] == [
        "| a | 3, 1 | 2, 2 (no answer) |", "| b | 2, 1 | 2, 1 (reported) |", "| c | 2, 1 (NOT one recorded answer) | 2, 1 |",
    ]  # fmt: skip


@pytest.mark.parametrize("note", ["", "in doubt: reported"])
def test_a_single_fault_of_ours_fails_the_run(note):
    """Whatever else the cell says; of the peers nothing is demanded."""
    good, away = (
        Crash(OURS["charge_keyed"], "in_llm2", 2, 1, "success", note),
        replace(STOPPED, runtime="a", effect_after_cancel=True, usable=False),
    )
    assert faults([good], [away, STOPPED]) == []
    assert len(faults([replace(good, faults=("one effect",))], [])) == 1


@pytest.mark.parametrize(
    "changed", [{"effect_after_cancel": True}, {"usable": False}, {"transcript_valid": False}], ids=str
)
def test_a_cancel_of_ours_that_did_not_stop_fails_the_run(changed):
    """A card charged all the same, a session that is stuck, a record that is broken."""
    assert len(faults([], [replace(STOPPED, **changed)])) == 1


def test_a_part_of_the_matrix_that_is_written_keeps_the_rest():
    """What was not measured again stays as it was."""
    earlier = {
        "crashes": [asdict(Crash("a", "in_llm2", 2, 2, "done")), asdict(Crash("b", "in_llm2", 9, 9, "done"))],
        "cancels": [asdict(STOPPED)],
    }
    crashes, cancels = not_measured([Crash("b", "in_llm2", 2, 1, "done")], [], earlier)
    assert [one.runtime for one in crashes] == ["a"] and cancels == [STOPPED]


def test_the_document_shows_the_committed_figures():
    """Every runtime at every point, ours with one effect throughout and nothing charged after a cancel."""
    figures = json.loads((ROOT / RESULTS).read_text())
    crashes = [Crash(**one) for one in figures["crashes"]]
    cancels = [Cancelled(**one) for one in figures["cancels"]]
    text = (ROOT / DOCUMENT).read_text()
    assert crash_table(crashes) in text and cancel_table(cancels) in text
    runtimes = {*OURS.values(), *(name for name, _ in PEERS.values())}
    assert {(one.runtime, one.point) for one in crashes} == {(name, point) for name in runtimes for point in POINTS}
    assert all(one.effects == 1 and one.reply == "success" for one in crashes if one.runtime in OURS.values())
    assert faults(crashes, cancels) == figures["faults"] == []
    assert {one.runtime for one in cancels} == {OURSELVES, *(name for name, _ in PEERS.values())}
