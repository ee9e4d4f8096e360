"""Memory's store beside another: what is filled and read, and how goals are judged."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench import memory_store
from bench.memory_store import Times, measure, ratios, table


def test_a_small_store_is_filled_read_and_written(monkeypatch, tmp_path: Path):
    """Five signals, two of them alive to the end: their artifacts are in force, the others' are not; a write counts."""
    monkeypatch.setattr(memory_store, "SIGNALS", 5)
    monkeypatch.setattr(memory_store, "ALIVE", 2)
    monkeypatch.setattr(memory_store, "READS", 2)
    monkeypatch.setattr(memory_store, "WRITES", 4)
    found = asyncio.run(measure(10, 2000, 2, None, tmp_path))
    assert found["in_force"] > 0
    assert (len(found["times"]["ours"].reads), len(found["times"]["ours"].writes)) == (4, 8)


def test_ratios_are_of_medians_and_missed_goals_are_said():
    """Ten times as fast is met, less than twice is not; without the peer there is no ratio."""
    ours, peer = Times([1.0, 2.0, 9.0], [1.0]), Times([20.0], [1.9])
    assert ratios({"ours": ours, "LangGraph": peer}) == {"read": 10.0, "write": 1.9}
    told = table({"times": {"ours": ours, "LangGraph": peer}})
    assert "| at least 10.0x | 10.0x |" in told and "**missed: 1.9x**" in told
    assert ratios({"ours": ours}) == {}
