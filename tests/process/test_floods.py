"""One client floods a real cluster with turns: by counts, not by times, nobody else is harmed."""

from __future__ import annotations

import asyncio

import pytest

from bench.cluster import cluster
from bench.hostile.floods import under

pytestmark = pytest.mark.process


def test_a_flood_of_turns_costs_a_polite_client_none_of_its_own() -> None:
    """Its turns are answered in full meanwhile; the flood's wait, are told busy, and are degraded nowhere."""
    with cluster({}) as found:
        row = asyncio.run(under(found, "turns", 5.0, rounds=1))
    assert row["flooded"]["turns"] > 1
    assert set(row["flooded"]["outcomes"]) == {"success"}
    assert row["afterwards"]["outcomes"] == {"success": 3}
    assert set(row["flood"]) <= {"success", "busy"}
