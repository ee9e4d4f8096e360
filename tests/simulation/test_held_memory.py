"""A supervisor holds of many turns what it holds of some: counted in objects, not in time or bytes of a process."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter

import pytest

from tests.gateway_service.rig import snapshot
from tests.simulated import SimulatedCluster

SESSIONS, TURNS = 2, 40


def held() -> Counter[str]:
    """Objects of this package's classes that are alive in this process, by class."""
    gc.collect()
    kinds = (type(one) for one in gc.get_objects())
    ours = (kind for kind in kinds if kind.__module__.startswith("hobus.") and ".sim." not in kind.__module__)
    return Counter(kind.__qualname__ for kind in ours)


def test_turns_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """With small bounds, which are full after some turns: as many later ones add not one object of any class.

    Every actor of the cluster is in this process, so that it holds for each of them.
    """
    monkeypatch.setattr("hobus.bus.limits.DEDUPE_WINDOW", 8)
    monkeypatch.setattr("hobus.actors.ho3_memory.limits.CHECKPOINT_ENTRIES", 16)
    monkeypatch.setattr("hobus.gateway_service.limits.RECENT_CALLS_MAX", 8)
    monkeypatch.setattr("hobus.actors.ho2_supervisor.limits.CACHE_MAX", 4)
    monkeypatch.setattr("hobus.actors.ho2_supervisor.limits.KNOWN_MAX", 4)
    budget = {"history_budget": 300, "session_token_limit": 10_000_000}
    with SimulatedCluster(snapshot(budget=budget, ho2={"history_turns_max": 4})) as cluster:
        sessions: list[str | None] = [None] * SESSIONS

        def converse(first: int, count: int) -> None:
            for number in range(first, first + count):
                for place, session_id in enumerate(sessions):
                    answered = cluster.ask(
                        "what packages are installed?", input_id=f"in-{place}-{number}", session_id=session_id
                    )
                    sessions[place] = answered.session_id

        converse(0, TURNS)
        cluster.world.run(asyncio.sleep(5))
        before = held()
        converse(TURNS, TURNS)
        cluster.world.run(asyncio.sleep(5))
        grown = {name: count for name, count in (held() - before).items() if count > TURNS * SESSIONS / 4}
        assert grown == {}, "of these at least every fourth turn leaves one behind"
