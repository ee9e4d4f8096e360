"""R6: many calls at once on a budget that fits a few, with cancels, refusals, malformed answers and a bug."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from bench.builders import SESSION, prompt
from hobus.bus import limits
from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt, PromptResponse
from tests.gateway_service.rig import (
    ENDS,
    Cluster,
    Scripted,
    answered,
    check_attempts,
    payload,
    recorded_sends,
    snapshot,
    totals,
)
from tests.rig import of_type

FITS = 7
CALLS = 64
RESERVED = 101
"""What one of these prompts reserves: one token of input and max_tokens 100."""


class Storm:
    """A provider that does anything, and watches how many calls are with it at once."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.at_once = 0
        self.most_at_once = 0

    async def act(self, _prompt: Prompt) -> PromptResponse:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.random.choice([0, 0.001, 0.01, 0.05]))
            return self.end()
        finally:
            self.at_once -= 1

    def end(self) -> PromptResponse:
        match self.random.randrange(6):
            case 0:
                raise GatewayError("PROVIDER_ERROR", "429", retryable=True, facts={"unbilled": True})
            case 1:
                raise GatewayError("PROVIDER_ERROR", "the connection broke", retryable=True)
            case 2:
                raise ValueError("malformed")
            case _:
                return answered(input_tokens=1, output_tokens=self.random.randrange(100))


async def storm(cluster: Cluster, random: Random) -> list[str]:
    """The outcome of every call; some give up on the way."""

    async def one(number: int) -> str:
        asking = asyncio.ensure_future(cluster.ask(prompt(f"WO-{number}#1"), timeout_s=5))
        if random.random() < 0.2:
            await asyncio.sleep(random.choice([0.0001, 0.0005, 0.01]))
            asking.cancel()
        try:
            return (await asking).error_code
        except asyncio.CancelledError:
            return "gave up"

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(CALLS)]
    return [task.result() for task in tasks]


def one_round(seed: int) -> None:
    """64 calls at once; then the laws."""
    weather = Storm(seed)
    provider = Scripted(weather.act)
    limit = FITS * RESERVED
    cluster = Cluster(provider, budget={"budget_mode": "enforce", "session_token_limit": limit})
    try:
        codes = cluster.run(storm(cluster, Random(seed)))
        entries = cluster.run(cluster.entries(rests_s=2))
        used, reserved = totals(cluster)
        assert weather.most_at_once <= FITS
        assert reserved == 0 and used <= limit
        assert "BUDGET_EXHAUSTED" in codes
        check_attempts(entries)
        assert recorded_sends(entries) == provider.calls == cluster.service.counters()["sent"]
        assert sum(payload(entry).tokens for entry in entries if entry.event_type in ENDS) == used
        assert of_type(entries, "BUDGET_ALLOCATED")
        cluster.kill_gateway()
        cluster.start_gateway()
        cluster.run(cluster.ready())
        assert totals(cluster) == (used, 0), f"session {SESSION} forgot spending in its restart"
    finally:
        cluster.close()


@pytest.mark.parametrize("seed", range(2))
def test_concurrency_never_overspends_and_leaves_nothing_reserved(seed):
    one_round(seed)


@pytest.mark.slow
def test_concurrency_over_many_seeds():
    for seed in range(100, 110):
        one_round(seed)


def test_a_provider_has_as_many_calls_at_once_as_it_may_and_clients_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []

    async def act(wanted: Prompt) -> PromptResponse:
        begun.append(wanted.work_order_id)
        await asyncio.sleep(0.1)
        return answered()

    monkeypatch.setattr(limits, "SERVICE_WEIGHT", 1)
    one = snapshot().config.gateway.providers["offline"].model_dump() | {"concurrency_max": 1}
    cluster = Cluster(Scripted(act), gateway={"providers": {"offline": one}})
    other = cluster.world.client("ho1")

    async def run() -> None:
        greedy = [asyncio.ensure_future(cluster.ask(prompt(f"WO-a{n}#1"), timeout_s=5)) for n in range(4)]
        await cluster.ho1.sleep(0.05)
        assert (len(begun), len(of_type(await cluster.entries(), "PROMPT_SENT"))) == (1, 1)
        polite = other.request("gateway", prompt("WO-b0#1"), expect=PromptResponse, timeout_s=5, message_id="WO-b0#1")
        await asyncio.gather(polite, *greedy)

    cluster.world.run(run())
    assert "WO-b0" in begun[:3]
    cluster.world.close()
