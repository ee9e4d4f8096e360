"""An outage of a provider is waited out where no fallback stands: by those that meet it and those that come later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.builders import prompt
from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.ids import format_iso
from hobus.bus.messages.streams import StreamWaiting
from tests.gateway_service.rig import Cluster, Counting, Scripted, check_attempts, of_type, payload

pytestmark = pytest.mark.slow

AWAY_S = 20.0
Start = Callable[..., Cluster]


class Away(Counting):
    """A provider that cannot be reached until a moment of its cluster's time; then each call takes so long."""

    def __init__(self, call_s: float = 0.05, **facts: Any) -> None:
        super().__init__(call_s)
        self.back_at = 0.0
        self.facts = {"unbilled": True, **facts}

    async def act(self, _prompt: Prompt) -> PromptResponse:
        if asyncio.get_running_loop().time() < self.back_at:
            raise GatewayError("PROVIDER_ERROR", "cannot be reached", retryable=True, facts=self.facts)
        return await self.answer()


@pytest.fixture
def start() -> Iterator[Start]:
    """A gateway whose provider is away for AWAY_S from now on."""
    made: list[Cluster] = []

    def start(away: Away, **gateway: Any) -> Cluster:
        made.append(Cluster(Scripted(away.act), gateway=gateway))
        away.back_at = made[0].ho1.clock.monotonic() + AWAY_S
        return made[0]

    yield start
    made[0].close()


async def arriving(cluster: Cluster, number: int, every_s: float) -> list[PromptResponse]:
    """One call after the other comes, none waits for another one."""

    async def one(at: int) -> PromptResponse:
        await cluster.ho1.sleep(at * every_s)
        return await cluster.ask(prompt(f"WO-{at}#1"), timeout_s=60)

    return await asyncio.gather(*(one(at) for at in range(number)))


def test_no_call_of_an_outage_fails(start: Start) -> None:
    cluster = start(Away())
    began = cluster.ho1.clock.monotonic()
    answers = cluster.run(arriving(cluster, 21, 1.0))
    assert [one.outcome for one in answers] == ["SUCCESS"] * 21
    assert cluster.ho1.clock.monotonic() - began < AWAY_S + 12  # the breaker's rest, then its probe
    entries = cluster.run(cluster.entries(rests_s=2))
    check_attempts(entries)
    assert cluster.provider.calls < 21 + 40
    assert not of_type(entries, "PROMPT_REJECTED") and not of_type(entries, "BUDGET_RELEASED")


def test_who_waited_meets_a_provider_that_is_back_in_no_crowd(start: Start) -> None:
    away = Away(call_s=1.0)
    cluster = start(away)
    answers = cluster.run(arriving(cluster, 300, 0.05))
    assert {one.outcome for one in answers} == {"SUCCESS"}
    assert away.most <= 256
    entries = cluster.run(cluster.entries(rests_s=2))
    opened = [entry for entry in of_type(entries, "BREAKER_CHANGED") if payload(entry).after == "half_open"]
    failed = of_type(entries, "PROMPT_FAILED")
    assert len(opened) <= 3 and len(failed) < 300


@pytest.mark.parametrize("wait_ms", [4000, 0])
def test_an_outage_that_lasts_longer_is_told_with_the_breakers_rest(start: Start, wait_ms: int) -> None:
    cluster = start(Away(), outage_wait_ms=wait_ms, breaker=OPENS_AT_ONCE)
    first = cluster.run(cluster.ask(prompt("WO-first#1"), timeout_s=60))
    assert first.error_code == ("CIRCUIT_OPEN" if wait_ms else "PROVIDER_ERROR")
    began = cluster.ho1.clock.monotonic()
    refused = cluster.run(cluster.ask(prompt("WO-a#1"), timeout_s=60))
    assert refused.error_code == "CIRCUIT_OPEN"
    took_ms = 1000 * (cluster.ho1.clock.monotonic() - began)
    assert took_ms == pytest.approx(wait_ms, abs=100)
    assert refused.retry_after_ms == pytest.approx(15_000 - wait_ms - took_ms, abs=200)


def test_who_waits_for_a_breaker_waits_on_where_the_probe_fails(start: Start) -> None:
    """Also where the provider answers with a 500 each time: that its breaker is open says that it is away."""
    cluster = start(Away(status=500), breaker=OPENS_AT_ONCE | {"open_ms": 5000})
    assert cluster.run(cluster.ask(prompt("WO-a#1"), timeout_s=60)).outcome == "SUCCESS"
    assert cluster.provider.calls <= 6


OPENS_AT_ONCE = {"failures": 1, "open_ms": 15_000, "probes": 1, "silence_ms": 5000}


def test_the_wait_ends_with_the_calls_own_deadline(start: Start) -> None:
    cluster = start(Away(), breaker=OPENS_AT_ONCE)
    refused = cluster.run(cluster.ask(prompt("WO-a#1"), timeout_s=5))
    assert refused.error_code in ("CIRCUIT_OPEN", "PROVIDER_ERROR")


def test_attempts_of_one_call_count_once(start: Start) -> None:
    """One call that fails for ever opens no breaker of five failures."""
    cluster = start(Away(), attempts_max=10, outage_wait_ms=0)
    cluster.run(cluster.ask(prompt("WO-a#1"), timeout_s=60))
    (row,) = cluster.service._breakers.rows()
    assert (cluster.provider.calls, row.state, row.failures) == (10, "closed", 1)


def test_who_listens_is_told_that_it_waits_and_that_it_goes_on(start: Start) -> None:
    cluster = start(Away())
    told: list[Any] = []
    assert (
        cluster.run(
            cluster.ho1.request("gateway", prompt("WO-a#1"), expect=PromptResponse, timeout_s=60, on_stream=told.append)
        )
    ).outcome == "SUCCESS"
    waits = [one.waiting for one in told if isinstance(one, StreamWaiting)]
    assert waits[:2] == ["Provider", None] and waits[-1] is None


async def busy_for_long(_prompt: Prompt) -> PromptResponse:
    """A provider that says to come back in six minutes."""
    facts = {"status": 429, "unbilled": True, "retry_after_ms": 360_000}
    raise GatewayError("PROVIDER_RATE_LIMITED", "429", retryable=True, facts=facts)


def test_nobody_waits_for_a_rest_beyond_the_turns_own_time() -> None:
    """An order lives longer than its turn is waited for: told at once when to come back."""
    cluster = Cluster(Scripted(busy_for_long))
    try:
        began = cluster.world.loop.time()
        due_at = format_iso(cluster.ho1.now() + 12)
        response = cluster.run(cluster.ask(prompt(due_at=due_at), timeout_s=7200))
        took_s = cluster.world.loop.time() - began
        assert response.error_code == "PROVIDER_RATE_LIMITED" and took_s < 1
        assert response.retry_after_ms == pytest.approx(360_000, abs=1000)
    finally:
        cluster.close()


def test_nobody_waits_for_a_breaker_beyond_the_turns_own_time(start: Start) -> None:
    cluster = start(Away(), breaker={"failures": 1, "open_ms": 15_000, "probes": 1, "silence_ms": 5000})
    cluster.run(cluster.ask(prompt("WO-a#1", due_at=format_iso(cluster.ho1.now() + 1)), timeout_s=7200))
    began = cluster.world.loop.time()
    response = cluster.run(cluster.ask(prompt("WO-b#1", due_at=format_iso(cluster.ho1.now() + 3)), timeout_s=7200))
    took_s = cluster.world.loop.time() - began
    assert response.outcome == "REJECTED" and took_s < 4
