"""Chains of models in a whole turn."""

from __future__ import annotations

import asyncio
import dataclasses

from bench.builders import shipped_snapshot
from hobus.bus.errors import GatewayError
from hobus.bus.record.catalog import read_body
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot
from tests.journals import check_record, count_of
from tests.simulated import SimulatedCluster
from tests.simulation.turns import AsksForTools

ENDS = ("PROMPT_RECEIVED", "PROMPT_FAILED")


class Hangs(AsksForTools):
    """A provider that answers a classification, and nothing else."""

    async def complete(self, prompt, **how):
        if prompt.contract_id.startswith("PRC-CLASSIFY"):
            return await super().complete(prompt, **how)
        await asyncio.sleep(1e6)
        raise AssertionError("a hanging provider answered")


def with_fallback(snapshot: Snapshot) -> Snapshot:
    """The default model has another provider's behind it."""
    config = snapshot.config.model_dump()
    gateway = config["gateway"]
    route = gateway["default_route"]
    gateway["providers"]["second"] = gateway["providers"][route["provider_id"]]
    gateway["fallbacks"] = [{**route, "routes": [{**route, "provider_id": "second"}]}]
    return dataclasses.replace(snapshot, config=AdminConfig.model_validate(config))


def test_a_turn_whose_first_provider_hangs_is_answered_by_its_fallback_in_time():
    """Its client waits for less than an order may take: the reserve of the fallback is of the client's time."""
    providers = {"offline": Hangs(), "second": AsksForTools()}
    with SimulatedCluster(with_fallback(shipped_snapshot()), providers=providers) as cluster:
        began = cluster.world.loop.time()
        result = cluster.ask("hello", input_id="in-1", timeout_s=30)
        took_s = cluster.world.loop.time() - began
        entries = cluster.entries()
    assert (result.outcome, took_s < 30) == ("success", True)
    assert count_of(entries, "DEGRADATION") == 0
    check_record(entries)


class Breaks(AsksForTools):
    """A provider that answers a classification, for money, and breaks down over everything else."""

    def __init__(self):
        self.asked: list[str] = []

    async def complete(self, prompt, **how):
        self.asked.append(prompt.contract_id)
        if prompt.contract_id.startswith("PRC-CLASSIFY"):
            return await super().complete(prompt, **how)
        if prompt.contract_id.startswith("PRC-SYNTHESIZE"):
            raise GatewayError("PROVIDER_ERROR", "broken", facts={"input_tokens": 100, "output_tokens": 10})
        raise AssertionError("the last resort came to who had just failed")


class Refuses(AsksForTools):
    """A provider that answers the last resort alone."""

    provider_id = "second"

    async def complete(self, prompt, **how):
        if prompt.contract_id.startswith("PRC-SYNTHESIZE"):
            raise GatewayError("PROVIDER_ERROR", "bad request", facts={"status": 400, "unbilled": True})
        return await super().complete(prompt, **how)


def test_a_turn_that_fails_after_paid_calls_says_what_they_cost():
    """Classification, the answers that broke, and the last resort, which goes to a provider that has not just failed."""
    snapshot = with_fallback(shipped_snapshot())
    prices = {"sees": False, "input_usd_per_million": 1e6, "output_usd_per_million": 1e6, "cached_usd_per_million": 1e6}
    config = snapshot.config.model_dump()
    config["gateway"]["attempts_max"] = 1
    for provider in config["gateway"]["providers"].values():
        provider["models"] = [model | prices for model in provider["models"]]
    snapshot = dataclasses.replace(snapshot, config=AdminConfig.model_validate(config))
    first = Breaks()
    with SimulatedCluster(snapshot, providers={"offline": first, "second": Refuses()}) as cluster:
        result = cluster.ask("hello", input_id="in-1", timeout_s=30)
        entries = cluster.entries()
    assert result.outcome == "degraded"
    assert first.asked[:2] == ["PRC-CLASSIFY-001", "PRC-SYNTHESIZE-001"]
    settled = [read_body(entry) for entry in entries if entry.event_type in ENDS]
    assert result.cost.cost_usd == sum(one.cost_usd for one in settled) > 110
    assert result.cost.total_tokens == sum(one.tokens for one in settled)
    check_record(entries)
