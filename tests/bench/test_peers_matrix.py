"""The tables of the side-by-side matrix, and that the committed ones are the committed figures."""

from __future__ import annotations

import json
from pathlib import Path

from bench.documents import DOCUMENT
from bench.kills import POINTS
from bench.peers_matrix import OURS, PEERS, RESULTS, Cancelled, Crash, cancel_table, crash_table

ROOT = Path(__file__).parents[2]


def test_a_cell_says_calls_effects_and_what_is_more_to_say():
    """A life without an answer, and a call in doubt that was reported, are not left out."""
    found = [
        Crash("a", "llm1_done", 3, 1, "done"),
        Crash("a", "tool_effect", 2, 2, None, "why"),
        Crash("b", "llm1_done", 2, 1, "done"),
        Crash("b", "tool_effect", 2, 1, "done", "in doubt: reported"),
    ]
    assert crash_table(found).splitlines()[2:] == ["| a | 3, 1 | 2, 2 (no answer) |", "| b | 2, 1 | 2, 1 (reported) |"]


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
    [ours] = [one for one in cancels if one.runtime == "hobus"]
    assert ours.usable and ours.transcript_valid and not ours.effect_after_cancel
