"""The table of R5 says what was run, and a broken seed is in it."""

from __future__ import annotations

import pytest

from bench.simulation import run, table
from gateway_service.sending import Sender


async def _at_once(*_: object) -> None:
    """A gateway that waits for no record."""


def test_a_seed_is_counted_and_a_broken_one_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that holds, then the same one with a planted fault."""
    whole = run(4, 1, jobs=1, seconds=60)
    assert "| seeds | 1 from 4 on (goal: 20000) |" in table(whole, 4)
    assert "| with a broken invariant | 0 |" in table(whole, 4)
    monkeypatch.setattr(Sender, "record_sent", _at_once)
    assert "| with a broken invariant | 1 |" in table(run(4, 1, jobs=1, seconds=60), 4)
