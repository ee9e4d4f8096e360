"""What bounds calls of models, through a whole cluster: rates, agents' budgets, rounds of a run."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from config.snapshot import load_snapshot
from tests.process.cluster import Cluster

pytestmark = pytest.mark.process

QUESTION = "hello"
TURNS, BURST = 20, 5
TURN_S = 30.0


def configure(cluster: Cluster, **sections: Any) -> None:
    """What the home changes; messages are not classified."""
    cluster.home.config.mkdir(parents=True, exist_ok=True)
    (cluster.home.config / "admin_config.json").write_text(json.dumps({"ho2": {"classify": False}, **sections}))


def test_of_twenty_turns_as_many_reach_a_model_as_its_rate_allows(cluster: Cluster):
    """The others are refused, told when to come again, and recorded as never sent."""
    rate = {"requests_per_minute": 1, "requests_burst": BURST, "tokens_per_minute": None, "tokens_burst": 1}
    configure(cluster, gateway={"provider_rates": {"offline": rate}, "on_rate_limit": "refuse"})
    cluster.up("--detach")

    async def ask_all() -> list[Any]:
        return await asyncio.gather(*(cluster.turn(QUESTION, timeout_s=TURN_S) for _ in range(TURNS)))

    results = asyncio.run(ask_all())
    sent, refused = cluster.entries("PROMPT_SENT"), cluster.entries("PROMPT_REJECTED")
    assert BURST <= len(sent) <= BURST + 1
    assert {entry.reason for entry in refused} == {"RATE_LIMITED"}
    assert len([one for one in results if one.outcome == "success"]) == len(sent)
    assert {one.code for one in results if one.outcome != "success"} == {"RATE_LIMITED"}
    spent = cluster("cost", "--json").json["total"]
    assert (spent["calls"], spent["rejected"]) == (len(sent), len(refused))


def test_an_agents_budget_and_the_rounds_of_a_run_bound_what_is_sent(cluster: Cluster):
    """A message beyond what its agent may spend on an answer, and a second round, are refused before anything is sent."""
    agent = load_snapshot().agents["ADMIN"].model_dump(mode="json")
    agent["budget"] = {**agent["budget"], "synthesize": "consolidation_budget"}
    configure(cluster, budget={"budget_mode": "enforce", "turn_limit": 1})
    (cluster.home.config / "agents").mkdir()
    (cluster.home.config / "agents" / "ADMIN.json").write_text(json.dumps(agent))
    cluster.up("--detach")
    assert cluster.ask(QUESTION)["outcome"] == "success"
    big = cluster.ask("word " * 8000)
    assert big["outcome"] != "success", big
    assert "BUDGET_EXHAUSTED" in {entry.reason for entry in cluster.entries("PROMPT_REJECTED")}
    rounds = cluster.ask("use list_tools")
    assert rounds["outcome"] != "success", rounds
    assert rounds["code"] == "turn_limit_exceeded"
    sent = [entry.provenance.work_order_id for entry in cluster.entries("PROMPT_SENT")]
    assert len(sent) == len(set(sent)) == 2, "one of each answered, none beyond the first round"
    for scope in cluster("budget", "--json").json["scopes"]:
        assert scope.get("reserved", 0) == 0, scope
