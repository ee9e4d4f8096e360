"""How a run under load is judged, and that the committed table is the committed figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import load
from bench.counts import Counts
from bench.load import CLIENT, LIKE, SHIPPED, Figures, since, table
from bench.turn import Peer

ROOT = Path(__file__).parents[2]
ONE, TWO = load.PEERS
RECORD = {"entries": 25.0, "commits": 3.0, "syncs": 3.0, "bytes_written": 40_000.0}
COUNTS = Counts(
    frames_received=12, frames_sent=12, ledger_writes=9, commits=8, entries=25, record_bytes=40_000,
    wire_bytes=150_000, validations=400, model_copies=77, function_calls=33_000,
)  # fmt: skip


def side(*rates: float, user: float = 4.0) -> Figures:
    """A side with one broker, whose client used as much."""
    pair = (user, 1.0)
    return Figures(
        list(rates), [1.0] * len(rates), [2.0] * len(rates),
        [{"broker/1": pair, "ho2/1": pair, CLIENT: pair}] * len(rates), [RECORD] * len(rates),
    )  # fmt: skip


FOUND = {LIKE: side(90.0, 150.0, 160.0), SHIPPED: side(50.0, 50.0, 50.0, user=8.0)}
COUNTED = {LIKE: COUNTS, SHIPPED: COUNTS}


def test_the_better_arrangement_of_the_peer_counts_and_missed_goals_are_said():
    """Two processes per core are better here; the client's CPU is in no sum; 9 writes are more than 8, 12 frames are not."""
    found = FOUND | {ONE: side(80.0, 80.0, 80.0), TWO: side(100.0, 100.0, 100.0)}
    assert load.goals(found, COUNTED) == {
        "ratio": 1.5, "cpu_like_ms": 10.0, "cpu_shipped_ms": 18.0, "ledger_writes": 9, "frames": 12,
    }  # fmt: skip
    told = table(found, COUNTED)
    assert f"turns/s / {TWO} | at least 1.5x | 1.5x |" in told
    assert "**missed: 10.0 ms**" in told and "**missed: 18.0 ms**" in told and "**missed: 9**" in told
    assert "at most 12 | 12 |" in told


def test_without_the_peer_there_is_no_ratio():
    """And the other goals are judged all the same."""
    assert "ratio" not in load.goals(FOUND, COUNTED)
    assert "LangGraph" not in table(FOUND, COUNTED)


def test_a_round_is_told_per_turn():
    """Four turns in two seconds: two per second, their median and their slowest, CPU divided among them."""
    figures = Figures()
    figures.add([4.0, 1.0, 2.0, 3.0], 2.0, since({"a": (1.0, 1.0)}, {"a": (1.4, 1.2)}))
    assert (figures.turns_per_s, figures.p50_ms, figures.p99_ms) == ([2.0], [2.5], [4.0])
    assert figures.cpu_ms == [{"a": (100.0, 50.0)}] and figures.cpu_sum == 150.0


def test_threads_are_divided_among_all_processes():
    """Five among two: everybody has some, all of them begin before anybody is waited for."""
    said: list[tuple[str, list[str]]] = []

    class Heard(Peer):
        def __init__(self, name: str) -> None:
            self.name = name
            self.own: list[str] = []

        def begin(self, threads, turns):
            self.own = list(threads)
            said.append((f"{self.name} begins", self.own))

        def waited(self):
            said.append((f"{self.name} is waited for", self.own))
            return [1.0] * len(self.own)

    together = object.__new__(load.Together)
    together._peers = [Heard("a"), Heard("b")]
    assert together._take(["1", "2", "3", "4", "5"], 1) == [1.0] * 5
    assert said == [
        ("a begins", ["1", "3", "5"]), ("b begins", ["2", "4"]),
        ("a is waited for", ["1", "3", "5"]), ("b is waited for", ["2", "4"]),
    ]  # fmt: skip


@pytest.mark.skipif(not (ROOT / load.RESULTS).exists(), reason="no run is committed yet")
def test_the_document_shows_the_committed_load():
    """The figures, what was measured, and which goals it misses."""
    figures = json.loads((ROOT / load.RESULTS).read_text())
    found = {name: Figures(**one) for name, one in figures["sides"].items()}
    counts = {name: Counts(**one) for name, one in figures["counts"].items()}
    assert set(found) == {LIKE, SHIPPED, *load.PEERS} and load.goals(found, counts) == figures["goals"]
    assert table(found, counts) in (ROOT / load.DOCUMENT).read_text()
