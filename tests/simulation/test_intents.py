"""Intents and projections over the whole simulated cluster, with supervisors killed in the middle of turns."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from functools import cache

import pytest

from bench.builders import shipped_snapshot
from bench.simulated import SimulatedCluster
from hobus.actors.ho2_supervisor.projection.liveness import reduce_liveness
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.catalog import read_body
from tests.journals import check_record
from tests.simulation.turns import with_thinking

TEXTS = (
    "what packages are installed?", "and which frameworks?", "what did this session cost?", "thanks, bye",
    "show me the configuration", "hmm",
)  # fmt: skip


@cache
def played(seed: int | None) -> tuple[list[Entry], str]:
    """The same conversation, its supervisor killed once in each turn, when the seed says, or never; and its session."""
    draw = None if seed is None else random.Random(seed)
    with SimulatedCluster(with_thinking(shipped_snapshot(), 40)) as cluster:
        session_id: str | None = None
        for number, text in enumerate(TEXTS, 1):
            if draw is not None:
                delay_s = draw.random() * 0.15
                cluster.world.loop.call_later(delay_s, lambda: replace_supervisor(cluster))
            result = cluster.ask(text, input_id=f"in-{number}", session_id=session_id)
            assert result.outcome == "success", (number, result.code)
            session_id = result.session_id
            cluster.world.run(asyncio.sleep(0.3))
        entries = cluster.entries()
        check_record(entries)
        assert cluster.verify().ok
        assert session_id is not None
        return entries, session_id


def replace_supervisor(cluster: SimulatedCluster) -> None:
    """SIGKILL, and a new process in its place."""
    owner = next(instance for instance in cluster.world.processes if instance.startswith("ho2/"))
    cluster.world.kill(owner)
    cluster.start("ho2")


def of_intents(entries: list[Entry]) -> list[tuple[str, str]]:
    """What became of which intent, in order."""
    return [
        (entry.event_type, entry.submission_id.rpartition("/")[2])
        for entry in entries
        if entry.event_type in ("INTENT_DECLARED", "INTENT_SUPERSEDED", "INTENT_CLOSED")
    ]


def shown(entries: list[Entry]) -> list[tuple[object, ...]]:
    """What each turn's projection was made of."""
    found = [read_body(entry) for entry in entries if entry.event_type == "PROJECTION_COMPUTED"]
    return [(said.active_intents, said.context_hash, said.fragment_count) for said in found if said is not None]


def test_a_conversation_has_the_intents_that_it_is_about() -> None:
    """Declared by the first message, superseded by another matter, closed by a goodbye, declared again."""
    entries, _ = played(None)
    assert of_intents(entries) == [
        ("INTENT_DECLARED", "001"), ("INTENT_SUPERSEDED", "001"), ("INTENT_DECLARED", "002"), ("INTENT_CLOSED", "002"),
        ("INTENT_DECLARED", "003"),
    ]  # fmt: skip
    assert "INTENT_CONFLICT" in {entry.event_type for entry in entries}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_kills_of_the_supervisor_change_no_intent_and_no_projection(seed: int) -> None:
    """The same intents, none declared twice; one projection per turn, of the same bytes as without a kill."""
    calm, _ = played(None)
    struck, session_id = played(seed)
    assert Counter(entry.event_type for entry in struck)["TookOver"] > 1, "no kill met the session"
    assert of_intents(struck) == of_intents(calm)
    runs = Counter(entry.provenance.run_seq for entry in struck if entry.event_type == "PROJECTION_COMPUTED")
    assert runs == dict.fromkeys(range(1, len(TEXTS) + 1), 1)
    assert shown(struck) == shown(calm)
    ours = [entry for entry in struck if entry.provenance.session_id == session_id]
    state = reduce_liveness(
        [entry for entry in ours if entry.origin.startswith("ho2/")],
        [entry for entry in ours if entry.stream == "ho1m"],
    )
    assert [intent[-3:] for intent in state.active_intents] == ["003"]
    assert state.open_work_orders == []
