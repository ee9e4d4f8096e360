"""Random kills and freezes in virtual time: whatever dies, every input has one answer and the record its invariants."""

from __future__ import annotations

import asyncio
import random

import pytest

from config.snapshot import load_snapshot
from launch.simulated import SimulatedCluster
from tests.journals import answers_of, check_record
from tests.simulation.turns import with_thinking

ROLES = ("broker", "ledger", "gateway", "ho1", "ho2", "ho3", "host")
QUESTIONS = (
    "what packages are installed?",
    "is the ledger intact?",
    "hello",
    "list the tools and the packages and verify the ledger",
    "thanks, bye",
)
SNAPSHOTS = {thinking_ms: with_thinking(load_snapshot(), thinking_ms) for thinking_ms in (0, 5, 50)}
WITHIN_S = (0.02, 0.1, 0.5, 3.0)
"""A strike comes at a random moment of one of these times: of the first turn, of one of the three, or between them."""
BACK_S = (0.05, 0.5, 2.0)
FREEZE_S = (0.05, 0.7, 0.85, 1.0, 1.5, 5.0)
"""Around bus.peer_timeout_ms, within which nobody notices, and up to what a successor needs."""


def drill(seed: int, *, freezes: bool = False) -> None:
    """Three turns while up to four processes are struck at drawn moments; a failure names the seed."""
    draw = random.Random(seed)
    snapshot = SNAPSHOTS[draw.choice(tuple(SNAPSHOTS))]
    with SimulatedCluster(snapshot, seed=seed, ho1=draw.randint(1, 2), ho2=draw.randint(1, 2)) as cluster:
        strikes = []
        for _ in range(draw.randint(1, 4)):
            role, after_s = draw.choice(ROLES), draw.random() * draw.choice(WITHIN_S)
            if freezes and draw.random() < 0.5:
                for_s = draw.choice(FREEZE_S)
                cluster.freeze(role, after_s=after_s, for_s=for_s)
            else:
                for_s = 0.0
                cluster.strike(role, after_s=after_s, back_after_s=draw.choice(BACK_S))
            strikes.append((role, round(after_s, 4), for_s))
        session_id = None
        for number in range(3):
            result = cluster.ask(draw.choice(QUESTIONS), input_id=f"in-{number}", session_id=session_id, timeout_s=30)
            session_id = result.session_id
            assert result.outcome in ("success", "degraded"), (seed, strikes, result)
        cluster.world.run(asyncio.sleep(max(FREEZE_S) + max(WITHIN_S)))  # whoever stood still has said what it has to
        entries = cluster.entries()
        assert [len(answers_of(entries, f"in-{number}")) for number in range(3)] == [1, 1, 1], (seed, strikes)
        check_record(entries)
        assert cluster.verify().ok, (seed, strikes)


@pytest.mark.parametrize("seed", range(10))
def test_random_kills_lose_and_double_nothing(seed):
    """A few seeds with every save."""
    drill(seed)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(10, 310, 50))
def test_more_random_kills_lose_and_double_nothing(first):
    """Three hundred further seeds."""
    for seed in range(first, first + 50):
        drill(seed)


@pytest.mark.parametrize("seed", range(1000, 1006))
def test_random_freezes_lose_and_double_nothing(seed):
    """As many processes stand still for a while as die; some have been replaced when they go on."""
    drill(seed, freezes=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(1006, 1306, 50))
def test_more_random_freezes_lose_and_double_nothing(first):
    """Three hundred further seeds."""
    for seed in range(first, first + 50):
        drill(seed, freezes=True)
