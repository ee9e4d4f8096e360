"""What random kills and freezes found, each as the smallest story that shows it."""

from __future__ import annotations

import asyncio

from bench.builders import shipped_snapshot
from tests.journals import check_record, count_of, list_answers
from tests.simulated import SimulatedCluster

QUESTION = "what packages are installed?"


def test_a_thawed_owner_does_not_refuse_the_next_input_for_a_run_that_the_host_has_answered():
    """HO2 stood still until the host had degraded its turn, and goes on waiting for an order: the next turn begins."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        cluster.freeze("ho2", after_s=0.0025, for_s=4.5)
        cluster.freeze("ho1", after_s=0.0025, for_s=4.9)
        first = cluster.ask(QUESTION, input_id="in-1")
        cluster.world.run(asyncio.sleep(0.8))
        second = cluster.ask("hello", input_id="in-2", session_id=first.session_id)
        entries = cluster.entries()
    assert (first.outcome, second.outcome) == ("degraded", "success"), second
    assert [len(list_answers(entries, name)) for name in ("in-1", "in-2")] == [1, 1]
    assert count_of(entries, "TurnDegraded") == count_of(entries, "RunCompleted") == 1
    check_record(entries)
