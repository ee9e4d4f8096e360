"""What bounds calls of models, through a whole cluster: rates, breakers, agents' budgets, rounds of a run."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bench.cluster import Cluster, eventually
from bench.gateway.servers import answering, completion
from hobus.bus.messages.session import TurnResult
from hobus.bus.record.catalog import read_body
from hobus.config.snapshot import load_snapshot

pytestmark = pytest.mark.process

QUESTION = "hello"
TURNS, BURST = 20, 5
TURN_S = 30.0


def completions(at) -> int:
    """How often it was asked to complete, whoever asked for its window beside that."""
    return len([request for request in at.requests if request.body])


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
    sent = cluster.entries("PROMPT_SENT")
    assert BURST <= len(sent) <= BURST + 1
    assert len([one for one in results if one.outcome == "success"]) == len(sent)
    refused = [one for one in results if one.outcome != "success"]
    assert {one.code for one in refused} == {"RATE_LIMITED"}
    assert {
        "provider_rates.offline.requests_per_minute is used up; there is room in" in one.response for one in refused
    } == {True}

    def rejected() -> list[str]:
        return [entry.reason for entry in cluster.entries("PROMPT_REJECTED")]

    # They are written beside the answers: the order's prompt, and that of the last resort.
    eventually(lambda: len(rejected()) == 2 * len(refused))
    assert set(rejected()) == {"RATE_LIMITED"}
    spent = cluster("cost", "--json").json["total"]
    assert (spent["calls"], spent["rejected"]) == (len(sent), 2 * len(refused))
    assert [scope for scope in cluster("budget", "--json").json["scopes"] if scope["reserved"]] == []


def test_a_breaker_opens_is_probed_in_vain_and_closes_with_the_next_probe(cluster: Cluster, server):
    """Nothing is sent while it is open, or beside a probe; `hobus breaker` and the record show each change."""
    way = "fails"
    failures = 2

    async def behave(request: Any, writer: asyncio.StreamWriter) -> None:
        while way == "holds":
            await asyncio.sleep(0.02)
        await answering(completion("fine") if way == "works" else {}, 200 if way == "works" else 503)(request, writer)

    at = server(behave)
    breaker = {"failures": failures, "open_ms": 5000, "probes": 1, "probe_retry_ms": 100, "silence_ms": 60_000}
    configure(cluster, gateway={"breaker": breaker, "attempts_max": 1, "outage_wait_ms": 0})
    words = ("--kind", "openai", "--base-url", f"{at.url}/v1", "--model", "tiny", "--key", "none", "--default")
    assert cluster("provider add", "mine", *words).code == 0
    cluster.up("--detach")

    def shown() -> list[str]:
        rows = cluster("breaker", "--json").json["breakers"]
        return [row["state"] for row in rows if (row["provider_id"], row["model_id"]) == ("mine", "tiny")]

    def changes() -> list[str]:
        return [read_body(entry).after for entry in cluster.entries("BREAKER_CHANGED")]

    def refused() -> int:
        return [entry.reason for entry in cluster.entries("PROMPT_REJECTED")].count("CIRCUIT_OPEN")

    async def ask() -> TurnResult:
        return await cluster.turn(QUESTION, timeout_s=TURN_S)

    async def until_sent(count: int) -> asyncio.Task[TurnResult]:
        """A turn that sends a call, which is then the provider's so many-th."""
        async with asyncio.timeout(60):
            while True:
                asking = asyncio.create_task(ask())
                while not asking.done() and completions(at) < count:
                    await asyncio.sleep(0.01)
                if completions(at) >= count:
                    return asking
                await asking

    async def fail() -> TurnResult:
        while completions(at) < failures:
            await ask()
        return await ask()

    assert shown() == []
    told = asyncio.run(fail())
    assert (completions(at), told.outcome != "success") == (failures, True), told
    eventually(refused)
    assert shown() == ["open"]
    eventually(lambda: changes() == ["open"])  # they are written beside the calls

    async def probe_in_vain() -> TurnResult:
        return await (await until_sent(failures + 1))

    assert asyncio.run(probe_in_vain()).outcome != "success"
    assert (completions(at), shown()) == (failures + 1, ["open"])
    eventually(lambda: changes() == ["open", "half_open", "open"])

    async def probe() -> tuple[list[str], TurnResult, TurnResult]:
        nonlocal way
        way = "holds"
        probing = await until_sent(failures + 2)
        seen, before = await asyncio.to_thread(shown), await asyncio.to_thread(refused)
        beside = await ask()
        assert completions(at) == failures + 2, beside
        await asyncio.to_thread(eventually, lambda: refused() > before)
        way = "works"
        return seen, beside, await probing

    seen, beside, answered = asyncio.run(probe())
    assert (seen, beside.outcome != "success") == (["half_open"], True)
    # The probe is the turn's order, or its last resort where the order came a moment too early.
    assert answered.outcome in ("success", "degraded"), answered
    assert (answered.response, shown()) == ("fine", ["closed"])
    eventually(lambda: changes() == ["open", "half_open", "open", "half_open", "closed"])
    assert asyncio.run(ask()).outcome == "success"


def test_an_agents_budget_and_the_rounds_of_a_run_bound_what_is_sent(cluster: Cluster):
    """A message beyond what its agent may spend on an answer, and a second round, are refused before anything is sent."""
    agent = load_snapshot().agents["ADMIN"].model_dump(mode="json")
    agent["budget"] = {**agent["budget"], "synthesize": "consolidation_budget"}
    configure(cluster, budget={"budget_mode": "enforce", "turn_limit": 1, "consolidation_budget": 6000})
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
