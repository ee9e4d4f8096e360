"""What bounds calls of models, through a whole cluster."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

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
