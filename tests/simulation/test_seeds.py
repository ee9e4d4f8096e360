"""Random kills in virtual time: whatever dies, every input has one answer and the record holds its invariants."""

from __future__ import annotations

import random

import pytest

from config.snapshot import load_snapshot
from launch.simulated import SimulatedCluster
from tests.journals import answers_of, check_record

ROLES = ("ho1", "ho2", "ho3", "gateway", "ledger", "host")
QUESTIONS = (
    "what packages are installed?",
    "is the ledger intact?",
    "hello",
    "list the tools and the packages and verify the ledger",
    "thanks, bye",
)


def drill(seed: int) -> None:
    """Three turns while up to three processes die at drawn moments; a failure names the seed."""
    draw = random.Random(seed)
    strikes = [(draw.choice(ROLES), draw.random() * draw.choice((0.01, 0.05, 1.0))) for _ in range(draw.randint(1, 3))]
    with SimulatedCluster(load_snapshot(), seed=seed, ho1=draw.randint(1, 2), ho2=draw.randint(1, 2)) as cluster:
        for role, after_s in strikes:
            cluster.strike(role, after_s=after_s, back_after_s=draw.choice((0.05, 0.5, 2.0)))
        session_id = None
        for number in range(3):
            result = cluster.ask(draw.choice(QUESTIONS), input_id=f"in-{number}", session_id=session_id, timeout_s=30)
            session_id = result.session_id
            assert result.outcome in ("success", "degraded"), (seed, strikes, result)
        entries = cluster.entries()
        assert [len(answers_of(entries, f"in-{number}")) for number in range(3)] == [1, 1, 1], (seed, strikes)
        check_record(entries)
        assert cluster.verify().ok, (seed, strikes)


@pytest.mark.parametrize("seed", range(12))
def test_random_kills_lose_and_double_nothing(seed):
    """A few seeds with every save."""
    drill(seed)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(12, 312, 50))
def test_more_random_kills_lose_and_double_nothing(first):
    """Three hundred further seeds."""
    for seed in range(first, first + 50):
        drill(seed)
