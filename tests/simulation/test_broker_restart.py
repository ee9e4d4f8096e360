"""The broker is killed or stands still at moment after moment of a turn, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bench.builders import shipped_with
from tests.journals import check_record, count_of, list_answers
from tests.simulated import SimulatedCluster, StruckMoment

QUESTION = "what packages are installed?"
REST_S = 1.0
"""Until everybody is back at the broker."""


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


STRIKES = (_kill, _freeze_then_kill, _freeze_briefly, _freeze)


@pytest.mark.parametrize("strike", STRIKES)
def test_the_loss_of_the_broker_repeats_no_work(strike: Callable[[SimulatedCluster, float], StruckMoment]) -> None:
    """At every moment: a success, each order executed once by the one executor, each prompt sent once."""
    moments_s: dict[str, float] = {}
    with SimulatedCluster(shipped_with(("ho3.gate_high", 1000.0))) as cluster:  # nothing is learned: only turns run
        while True:
            moment_s = len(moments_s) * 0.0008
            done = strike(cluster, moment_s)
            result = cluster.ask(QUESTION, input_id=f"in-{moment_s}", timeout_s=30)
            assert result.outcome == "success", (moment_s, result.code)
            moments_s[result.session_id] = moment_s
            cluster.world.run(asyncio.sleep(REST_S))
            if not done.hit_a_turn:
                break
        entries = cluster.entries()
    assert len(moments_s) > 5
    for session_id, moment_s in moments_s.items():
        own = [entry for entry in entries if entry.provenance.session_id == session_id]
        assert len(list_answers(own, f"in-{moment_s}")) == 1
        counts = {name: count_of(own, name) for name in ("PROMPT_SENT", "OrderEnded", "TookOver")}
        assert counts == {"PROMPT_SENT": 3, "OrderEnded": 4, "TookOver": 1}, moment_s
    check_record(entries)
