"""Memory's store beside another: what is filled and read, and how goals are judged."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench import memory_store
from bench.memory_store import held_table, measure


def test_a_small_store_is_filled_read_and_written(monkeypatch, tmp_path: Path):
    """Five signals, two of them alive to the end: their artifacts are in force, the others' are not; a write counts."""
    monkeypatch.setattr(memory_store, "SIGNALS", 5)
    monkeypatch.setattr(memory_store, "ALIVE", 2)
    monkeypatch.setattr(memory_store, "READS", 2)
    monkeypatch.setattr(memory_store, "WRITES", 4)
    found = asyncio.run(measure(10, 2000, 2, None, tmp_path))
    assert found["in_force"] > 0
    held = found["held"]
    assert (held.artifacts, held.events) == (10, 2000) and "| 10 | 2,000 |" in held_table(held)
    assert (len(found["times"]["ours"].reads), len(found["times"]["ours"].writes)) == (4, 8)
