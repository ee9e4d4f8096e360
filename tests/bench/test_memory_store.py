"""Memory's store beside another: what is filled and read, and how goals are judged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench import memory_store
from bench.cluster import cluster
from bench.memory_over_bus import over_bus
from bench.memory_store import held_table, measure, shipped_budget


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


@pytest.mark.process
def test_both_questions_are_asked_over_a_real_bus():
    """Of the habits that live there each line is in force; each signal is acknowledged, also beyond a session's last."""
    with cluster({}) as found:
        reads, writes, in_force = asyncio.run(over_bus(found, 3, 2, 45, shipped_budget()))
        logged = found.entries("HO3_SIGNAL")
    assert (len(reads), len(writes), in_force) == (2, 45, 3)
    assert len(logged) == 3 * 12 + 45
