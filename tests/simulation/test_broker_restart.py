"""The broker is killed or stands still at moment after moment of a turn, in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.builders import shipped_snapshot
from bench.simulated import SimulatedCluster, StruckMoment
from tests.journals import answers_of, check_record, count_of

QUESTION = "what packages are installed?"
STEP_S = 0.0008


def _kill(cluster: SimulatedCluster, after_s: float) -> StruckMoment:
    return cluster.strike("broker", after_s=after_s, back_after_s=0.1)


def _freeze_briefly(cluster: SimulatedCluster, after_s: float) -> StruckMoment:
    return cluster.freeze("broker", after_s=after_s, for_s=0.3)


def _freeze(cluster: SimulatedCluster, after_s: float) -> StruckMoment:
    return cluster.freeze("broker", after_s=after_s, for_s=2.0)


def _freeze_then_kill(cluster: SimulatedCluster, after_s: float) -> StruckMoment:
    """What workers answered meanwhile lies unread in a broker that dies."""
    cluster.strike("broker", after_s=after_s + 0.3, back_after_s=0.1)
    return cluster.freeze("broker", after_s=after_s, for_s=5.0)


SLOW = [
    pytest.param(_freeze_then_kill, marks=pytest.mark.slow),
    pytest.param(_freeze_briefly, marks=pytest.mark.slow),
    pytest.param(_freeze, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("strike", [_kill, *SLOW])
def test_the_loss_of_the_broker_repeats_no_work(strike: Callable[[SimulatedCluster, float], StruckMoment]):
    """At every moment: a success, each order executed once by the one executor, each prompt sent once."""
    moment_s, struck = 0.0, 0
    while True:
        with SimulatedCluster(shipped_snapshot()) as cluster:
            done = strike(cluster, moment_s)
            result = cluster.ask(QUESTION, input_id="in-1", timeout_s=30)
            entries = cluster.entries()
        assert result.outcome == "success", (moment_s, result.code)
        assert len(answers_of(entries, "in-1")) == 1
        counts = {name: count_of(entries, name) for name in ("PROMPT_SENT", "TOOL_STARTED", "WO_COMPLETED", "TookOver")}
        assert counts == {"PROMPT_SENT": 3, "TOOL_STARTED": 1, "WO_COMPLETED": 4, "TookOver": 1}, moment_s
        check_record(entries)
        if not done.hit_a_turn:
            break
        struck += 1
        moment_s += STEP_S
    assert struck >= 5
