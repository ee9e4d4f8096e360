"""Memory's store beside another: what is filled and read, and how goals are judged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench import memory_store
from bench.cluster import cluster
from bench.memory_over_bus import over_bus
from bench.memory_store import OVER_BUS, Times, held_table, measure, ratios, shipped_budget, table


def test_a_small_store_is_filled_read_and_written(monkeypatch, tmp_path: Path):
    """Five signals, two of them alive to the end: their artifacts are in force, the others' are not; a write counts."""
    monkeypatch.setattr(memory_store, "SIGNALS", 5)
    monkeypatch.setattr(memory_store, "ALIVE", 2)
    monkeypatch.setattr(memory_store, "READS", 2)
    monkeypatch.setattr(memory_store, "WRITES", 4)
    found = asyncio.run(measure(10, 2000, 2, None, tmp_path))
    assert found["in_force"] > 0
    [held] = found["held"]
    assert (held.artifacts, held.events) == (10, 2000) and "| 10 | 2,000 |" in held_table([held])
    assert (len(found["times"]["ours"].reads), len(found["times"]["ours"].writes)) == (4, 8)


def test_ratios_are_of_medians_and_missed_goals_are_said():
    """Ten times as fast is met, less than twice is not; without the peer there is no ratio."""
    ours, peer = Times([1.0, 2.0, 9.0], [1.0]), Times([20.0], [1.9])
    assert ratios({"ours": ours, "LangGraph": peer}) == {"read": 10.0, "write": 1.9}
    told = table({"times": {"ours": ours, "LangGraph": peer}})
    assert "| at least 10.0x | 10.0x |" in told and "**missed: 1.9x**" in told
    assert ratios({"ours": ours}) == {}


@pytest.mark.process
def test_both_questions_are_asked_over_a_real_bus():
    """Of the habits that live there each line is in force; each signal is acknowledged, also beyond a session's last."""
    with cluster({}) as found:
        reads, writes, in_force = asyncio.run(over_bus(found, 3, 2, 45, shipped_budget()))
        logged = found.entries("HO3_SIGNAL")
    assert (len(reads), len(writes), in_force) == (2, 45, 3)
    assert len(logged) == 3 * 12 + 45


def test_the_column_over_the_bus_is_printed_and_no_side_of_the_goals():
    """Goals compare the two stores."""
    times = {"ours": Times([1.0], [1.0]), "LangGraph": Times([20.0], [2.0]), OVER_BUS: Times([7.0], [50.0])}
    assert f"| {OVER_BUS} | 7.0 | 7.0 | 50.0 | 50.0 |" in table({"times": times})
    assert ratios(times) == {"read": 20.0, "write": 2.0}
