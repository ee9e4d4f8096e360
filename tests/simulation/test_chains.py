"""Chains of models in a whole turn."""

from __future__ import annotations

import asyncio
import dataclasses

from config.schema import AdminConfig
from config.snapshot import Snapshot, load_snapshot
from launch.simulated import SimulatedCluster
from tests.journals import check_record, count_of
from tests.simulation.turns import AsksForTools


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
    with SimulatedCluster(with_fallback(load_snapshot()), providers=providers) as cluster:
        began = cluster.world.loop.time()
        result = cluster.ask("hello", input_id="in-1", timeout_s=30)
        took_s = cluster.world.loop.time() - began
        entries = cluster.entries()
    assert (result.outcome, took_s < 30) == ("success", True)
    assert count_of(entries, "DEGRADATION") == 0
    check_record(entries)
