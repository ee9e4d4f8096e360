"""Rate limits: the bucket at its borders, its law for any calls, and the gateway around it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.builders import prompt
from hobus.bus.errors import GatewayError
from hobus.gateway_service.rates import Bucket
from tests.gateway_service.rig import Scripted, answered
from tests.rig import of_type

OTHER = "1e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f22"


def test_a_bucket_is_used_up_exactly():
    bucket = Bucket(level=3, at=0, per_s=0.5, burst=3)
    for wait_s in (0, 0, 0, 2, 4):
        assert bucket.wait_s(1, 0) == wait_s
        bucket = bucket.taken(1, 0)
    assert bucket.wait_s(1, 6) == 0


def test_a_call_larger_than_the_bucket_waits_until_it_is_full_and_those_behind_pay():
    """It passes at last, and what it took beyond is missing for the next one."""
    bucket = Bucket(level=10, at=0, per_s=1, burst=10)
    assert bucket.wait_s(25, 0) == 0
    assert bucket.taken(25, 0).wait_s(1, 0) == 16


def test_what_is_given_back_never_exceeds_the_burst():
    assert Bucket(5, 0, 1, 10).taken(-100, 0).level == 10
    assert Bucket(5, 0, 1, 10).refill(1e6).level == 10
    assert Bucket(5, 9, 1, 10).refill(3).level == 5  # a clock that goes back brings nothing


@given(st.lists(st.tuples(st.integers(1, 5), st.floats(0, 3)), max_size=50))
def test_no_window_has_more_than_burst_and_rate(calls):
    """Whoever waits as told: from the first on, what has gone on never exceeds burst + rate * time."""
    bucket, now, gone_on = Bucket(5, 0, 2, 5), 0.0, []
    for cost, pause in calls:
        now += pause
        gone_on.append((now + bucket.wait_s(cost, now), cost))
        bucket = bucket.taken(cost, now)
    assert [at for at, _ in gone_on] == sorted(at for at, _ in gone_on)
    for at, _ in gone_on:
        assert sum(cost for when, cost in gone_on if when <= at) <= 5 + 2 * at + 1e-6


def rate(**changes):
    return {
        "requests_per_minute": None, "requests_burst": 1, "tokens_per_minute": None, "tokens_burst": 1, **changes,
    }  # fmt: skip


async def timed(cluster, name, **changes):
    """Code and virtual seconds of one call."""
    began = cluster.world.loop.time()
    response = await cluster.ask(prompt(f"WO-{name}#1", **changes))
    return response.error_code, round(cluster.world.loop.time() - began), response.retry_after_ms


@pytest.fixture
def make(make):
    return lambda provider=None, **gateway: make(provider, gateway=gateway)


def test_calls_over_the_limit_wait_their_turn(make):
    cluster = make(provider_rates={"offline": rate(requests_per_minute=6, requests_burst=2)})

    async def turn():
        return await asyncio.gather(*(timed(cluster, n) for n in range(4)))

    assert [(code, s) for code, s, _ in cluster.run(turn())] == [("", 0), ("", 0), ("", 10), ("", 20)]


def test_who_cannot_wait_is_refused_with_the_time_to_come_back(make):
    cluster = make(provider_rates={"offline": rate(requests_per_minute=1)})
    first = cluster.run(timed(cluster, "a"))
    refused = cluster.run(timed(cluster, "b"))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert (first[0], refused[0], cluster.provider.calls) == ("", "RATE_LIMITED", 1)
    assert 55_000 < refused[2] <= 60_000
    assert [entry.reason for entry in of_type(entries, "PROMPT_REJECTED")] == ["RATE_LIMITED"]
    assert len(of_type(entries, "BUDGET_RELEASED")) == 1


def test_refuse_waits_for_nothing(make):
    cluster = make(provider_rates={"offline": rate(requests_per_minute=60)}, on_rate_limit="refuse")

    async def turn():
        return await asyncio.gather(timed(cluster, "a"), timed(cluster, "b"))

    assert [(code, s) for code, s, _ in cluster.run(turn())] == [("", 0), ("RATE_LIMITED", 0)]


def test_sessions_have_limits_of_their_own(make):
    cluster = make(session_rate=rate(requests_per_minute=1), on_rate_limit="refuse")
    assert [
        code
        for code, _, _ in [
            cluster.run(timed(cluster, n, **({"session_id": OTHER} if n == 2 else {}))) for n in range(3)
        ]
    ] == ["", "RATE_LIMITED", ""]


def test_a_call_never_forgets_a_bucket_of_its_own(make, monkeypatch):
    monkeypatch.setattr("hobus.gateway_service.rates.RECENT_CALLS_MAX", 1)
    limits = rate(requests_per_minute=60, tokens_per_minute=60, tokens_burst=200)
    cluster = make(provider_rates={"offline": limits}, session_rate=limits)
    assert [cluster.run(timed(cluster, n, **changes))[0] for n, changes in enumerate(({}, {"session_id": OTHER}))] == [
        "",
        "",
    ]


def test_tokens_count_as_reserved_and_then_as_used(make):
    """Of 200 tokens 102 are reserved and 12 used: what was not used is there for the next call."""
    limits = rate(tokens_per_minute=60, tokens_burst=200)
    cluster = make(provider_rates={"offline": limits}, on_rate_limit="refuse")

    async def turn():
        one_by_one = [await timed(cluster, n) for n in range(3)]
        at_once = await asyncio.gather(*(timed(cluster, f"x{n}") for n in range(3)))
        return one_by_one, at_once

    one_by_one, at_once = cluster.run(turn())
    assert [code for code, _, _ in one_by_one] == ["", "", ""]
    assert [code for code, _, _ in at_once] == ["", "RATE_LIMITED", "RATE_LIMITED"]


def test_a_call_that_is_cancelled_while_it_waits_gives_its_place_back(make):
    cluster = make(provider_rates={"offline": rate(requests_per_minute=6)})

    async def turn():
        await timed(cluster, "a")
        waiting = asyncio.ensure_future(timed(cluster, "b"))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.sleep(1)
        return await timed(cluster, "c")

    assert cluster.run(turn())[:2] == ("", 8)


def test_a_failed_call_counts_as_a_request(make):
    provider = Scripted()

    async def fail(_prompt):
        raise GatewayError("PROVIDER_ERROR", "500", facts={"unbilled": True})

    provider.act = fail
    cluster = make(provider, provider_rates={"offline": rate(requests_per_minute=1)}, on_rate_limit="refuse")
    first = cluster.run(timed(cluster, "a"))
    provider.act = None
    second = cluster.run(timed(cluster, "b"))
    assert (first[0], second[0]) == ("PROVIDER_ERROR", "RATE_LIMITED")
    assert answered().outcome == "SUCCESS"
