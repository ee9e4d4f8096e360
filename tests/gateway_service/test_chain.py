"""Fallback chains: who is asked after whom and with how much time, and the gateway that goes along them."""

from __future__ import annotations

import asyncio

import pytest

from bench.builders import SESSION, prompt
from hobus.bus.errors import GatewayError
from hobus.bus.messages.ids import format_iso
from hobus.config.sections.gateway import Route
from hobus.gateway_service.routing import LastFaults, compute_time, join_faults, list_chain, may_follow
from tests.gateway_service.rig import (
    SHIPPED,
    Scripted,
    answered,
    check_attempts,
    hang,
    of_type,
    payload,
    recorded_sends,
    snapshot,
)  # fmt: skip

PRICES = {"sees": False, "input_usd_per_million": 0.0, "output_usd_per_million": 0.0, "cached_usd_per_million": 0.0}
MODELS = {name: f"{name}-1" for name in ("offline", "second", "third")}
GATEWAY = {
    "providers": {
        name: {
            "kind": "offline", "latency_ms": 0, "any_model": False, "concurrency_max": 64,
            "models": [{"model_id": model_id, **PRICES}],
        }
        for name, model_id in MODELS.items()
    },
    "default_route": {"provider_id": "offline", "model_id": "offline-1"},
    "fallbacks": [
        {
            "provider_id": "offline",
            "model_id": "offline-1",
            "routes": [{"provider_id": name, "model_id": MODELS[name]} for name in ("second", "third")],
        }
    ],
    "fallback_reserve_ms": 3000,
    "attempts_max": 1,
}  # fmt: skip
HASTY = {"failures": 5, "open_ms": 10_000, "probes": 1, "silence_ms": 1000}
"""A breaker that takes a second for time enough."""
CONFIG = snapshot(gateway=GATEWAY).config.gateway
ADMIN = SHIPPED.agents["ADMIN"]
OTHER_SESSION = "0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f22"
FIRST = Route(provider_id="offline", model_id="offline-1")


@pytest.mark.parametrize(
    ("left_s", "following", "reserve_s", "share_s"),
    [(10, 0, 3, 10), (10, 1, 3, 7), (10, 2, 3, 4), (9, 2, 3, 3), (6, 2, 3, 2), (1, 3, 3, 0.25), (0, 2, 3, 0)],
)
def test_each_model_that_follows_keeps_its_reserve(left_s, following, reserve_s, share_s):
    """With less than that, all get the same; the last one has all that is left."""
    assert compute_time(left_s, following, reserve_s) == share_s


def test_a_chain_holds_what_its_agent_may_use():
    permissions = ADMIN.permissions.model_copy(update={"providers": ("offline", "third")})
    limited = ADMIN.model_copy(update={"permissions": permissions})
    assert [one.provider_id for one in list_chain(FIRST, ADMIN, CONFIG)] == ["offline", "second", "third"]
    assert [one.provider_id for one in list_chain(FIRST, limited, CONFIG)] == ["offline", "third"]
    alone = Route(provider_id="second", model_id="second-1")
    assert list_chain(alone, ADMIN, CONFIG) == [alone]


@pytest.mark.parametrize(
    ("fault", "follows"),
    [
        (GatewayError("PROVIDER_ERROR", "503"), True),
        (GatewayError("PROVIDER_TIMEOUT", "slow"), True),
        (GatewayError("CIRCUIT_OPEN", "open"), True),
        (GatewayError("RATE_LIMITED", "no place", facts={"no_place": True}), True),
        (GatewayError("PROVIDER_RATE_LIMITED", "429", facts={"status": 429}), True),
        (GatewayError("RATE_LIMITED", "minute"), False),
        (GatewayError("PROVIDER_ERROR", "bad request", facts={"status": 400}), False),
        (GatewayError("BUDGET_EXHAUSTED", "no"), False),
        (GatewayError("INVALID_INPUT", "no"), False),
        (GatewayError("CANCELLED", "no"), False),
        (GatewayError("UNAVAILABLE", "ledger"), False),
    ],
)
def test_only_a_fault_of_the_provider_is_followed(fault, follows):
    """What one refuses for the caller's sake, the next would refuse as well."""
    assert may_follow(fault, CONFIG) is follows


def test_an_unknown_outcome_is_not_followed_where_it_shall_fail():
    strict = CONFIG.model_copy(update={"on_unknown_outcome": "fail"})
    assert not may_follow(GatewayError("PROVIDER_TIMEOUT", "slow"), strict)
    assert not may_follow(GatewayError("PROVIDER_ERROR", "it hung up", facts={"unknown": True}), strict)
    assert may_follow(GatewayError("PROVIDER_ERROR", "503"), strict)


async def fail(_prompt):
    raise GatewayError("PROVIDER_ERROR", "503", facts={"status": 503, "unbilled": True})


async def refuse(_prompt):
    raise GatewayError("PROVIDER_ERROR", "400", facts={"status": 400, "unbilled": True})


@pytest.fixture
def make(make):
    def start(*acts, budget=None, **gateway):
        scripted = [Scripted(act, provider_id=name) for act, name in zip(acts, MODELS, strict=True)]
        others = {one.provider_id: one for one in scripted[1:]}
        return make(scripted[0], others=others, budget=budget or {}, gateway=GATEWAY | gateway)

    return start


def calls(cluster):
    return [provider.calls for provider in cluster.providers.values()]


@pytest.mark.parametrize(
    "changes", [{}, {"provider_id": "offline"}, {"provider_id": "offline", "model_id": "offline-1"}]
)
def test_the_next_model_answers_where_a_provider_fails(make, changes):
    cluster = make(fail, fail, None)
    response, entries = cluster.run(cluster.ask(prompt(**changes))), cluster.run(cluster.entries(rests_s=2))
    assert (response.outcome, response.provider_id, response.model_id) == ("SUCCESS", "third", "third-1")
    assert response.attempts == 3
    sent = [(payload(entry).provider_id, payload(entry).model_id) for entry in of_type(entries, "PROMPT_SENT")]
    assert sent == list(MODELS.items())
    (received,) = of_type(entries, "PROMPT_RECEIVED")
    assert (payload(received).model_id, payload(received).answered_by) == ("third-1", "scripted-1")
    check_attempts(entries)
    assert recorded_sends(entries) == sum(calls(cluster)) == 3


@pytest.mark.parametrize(
    ("retryable", "retry_after_ms", "sends"), [(True, None, 2), (True, 60_000, 1), (False, None, 1)]
)
def test_a_provider_without_room_leads_to_the_next_model(make, retryable, retry_after_ms, sends):
    async def no_room(_prompt):
        facts = {"status": 429, "unbilled": True} | ({"retry_after_ms": retry_after_ms} if retry_after_ms else {})
        raise GatewayError("PROVIDER_RATE_LIMITED", "429", retryable=retryable, facts=facts)

    cluster = make(no_room, None, None, attempts_max=2)
    response = cluster.run(cluster.ask(prompt()))
    assert (response.outcome, response.provider_id, calls(cluster)) == ("SUCCESS", "second", [sends, 1, 0])


def test_sessions_are_known_by_who_failed_them_last():
    """Until they are answered, and as many of them as are remembered."""
    last, links = LastFaults(2), list_chain(FIRST, ADMIN, CONFIG)
    last.failed("s", "offline", "it failed")
    assert [one.provider_id for one in last.last("s", links)] == ["second", "third", "offline"]
    assert last.last("other", links) == links
    last.failed("other", "offline", "it hung")
    last.failed("other", "second", "it failed")
    last.failed("other", "offline", "it hung again")
    assert last.answered("other") == "it hung again; before that: it failed"
    assert (last.answered("other"), last.last("other", links)) == ("", links)
    last.failed("other", "second", "it failed")
    last.failed("third", "third", "it failed")
    assert last.last("s", links) == links


def test_the_last_resort_asks_whoever_has_not_just_failed_its_session(make):
    """It comes to the failed provider last; that of another session first, as any prompt does."""
    cluster = make(fail, refuse, None)

    def last_resort(number, session_id=SESSION):
        key = f"WO-DEGRADED-{number}#1"
        return cluster.ask_degraded(prompt(key, contract_id="PRC-DEGRADED-001", session_id=session_id))

    assert cluster.run(cluster.ask(prompt("WO-a#1"))).error_code == "PROVIDER_ERROR"
    for provider in cluster.providers.values():
        provider.act = None
    (mine, again), others = (
        [cluster.run(last_resort(1)), cluster.run(last_resort(2))],
        cluster.run(last_resort(3, OTHER_SESSION)),
    )
    assert (mine.provider_id, again.provider_id, others.provider_id) == ("second", "offline", "offline")
    assert (mine.instead_of, again.instead_of, others.instead_of) == ("503", "", "")


def test_a_provider_that_asks_for_a_rest_is_left_alone_by_everybody(make):
    """The fallback is asked at once; whoever has none, also the last resort, is told when; a minute is the most."""

    async def no_room(_prompt):
        facts = {"status": 429, "unbilled": True, "retry_after_ms": 3_600_000}
        raise GatewayError("PROVIDER_RATE_LIMITED", "429", retryable=True, facts=facts)

    cluster = make(no_room, None, None)
    began = cluster.ho1.clock.monotonic()
    for number in (1, 2):
        assert cluster.run(cluster.ask(prompt(f"WO-{number}#1"))).provider_id == "second"
    assert calls(cluster) == [1, 2, 0] and cluster.ho1.clock.monotonic() - began < 1
    cluster = make(no_room, None, None, fallbacks=[], on_rate_limit="refuse")
    assert cluster.run(cluster.ask(prompt("WO-a#1"))).error_code == "PROVIDER_RATE_LIMITED"
    cluster.provider.act = None
    degraded = prompt("WO-DEGRADED-1#1", contract_id="PRC-DEGRADED-001")
    refused = cluster.run(cluster.ask_degraded(degraded))
    assert (refused.error_code, refused.retry_after_ms) == ("CIRCUIT_OPEN", pytest.approx(60_000, abs=100))
    assert (
        "asked to be left alone and is not called for 60 s (Retry-After). It failed with: 429" in refused.error_message
    )
    assert calls(cluster) == [1, 0, 0]
    assert [one.state for one in cluster.service._breakers.rows()] == ["open"]
    cluster.run(cluster.ho1.sleep(60.1))
    assert [one.state for one in cluster.service._breakers.rows()] == ["closed"]
    degraded = prompt("WO-DEGRADED-2#1", contract_id="PRC-DEGRADED-001")
    assert cluster.run(cluster.ask_degraded(degraded)).outcome == "SUCCESS"


def test_an_answer_ends_the_rest_that_another_call_was_told_of(make):
    """A provider with room for one at a time says so to the second; as soon as the first is answered it has room."""
    cluster, began = make(None, None, None, fallbacks=[]), asyncio.Event()

    async def one_at_a_time(_prompt):
        if began.is_set():
            facts = {"status": 429, "unbilled": True, "retry_after_ms": 30_000}
            raise GatewayError("PROVIDER_RATE_LIMITED", "429", retryable=True, facts=facts)
        began.set()
        await cluster.ho1.sleep(1)
        began.clear()
        return answered()

    async def three():
        first, second = (asyncio.ensure_future(cluster.ask(prompt(f"WO-{number}#1"))) for number in (1, 2))
        assert (await first).outcome == "SUCCESS"
        asked_at = cluster.ho1.clock.monotonic()
        assert (await cluster.ask(prompt("WO-3#1"))).outcome == "SUCCESS"
        assert cluster.ho1.clock.monotonic() - asked_at < 5
        second.cancel()

    cluster.provider.act = one_at_a_time
    cluster.run(three())


def test_a_chain_that_fails_whole_says_what_each_of_it_said(make):
    assert join_faults(["one", "two", "one"]) == "one; before that: two"
    cluster = make(fail, hang, refuse)
    response = cluster.run(cluster.ask(prompt(), timeout_s=30))
    assert response.error_code == "PROVIDER_ERROR"
    assert response.error_message.startswith("400; before that: provider second did not finish an answer of second-1")
    assert response.error_message.endswith("; before that: 503")


def test_a_short_share_is_followed_and_says_nothing_of_its_provider(make):
    """Less than silence_ms is nobody's fault: record, breaker and caller say so, and the next is asked all the same."""
    breaker = {"failures": 1, "open_ms": 60_000, "probes": 1, "silence_ms": 5000}
    cluster = make(hang, hang, hang, breaker=breaker)
    response = cluster.run(cluster.ask(prompt(), timeout_s=6))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert (response.error_code, calls(cluster)) == ("DEADLINE_EXCEEDED", [1, 1, 1])
    for said in (
        "provider third did not finish",
        "within 2.0 s (its time in its turn), too short a time to count as its failure",
        "provider offline did not",
    ):
        assert said in response.error_message
    assert [entry.reason for entry in of_type(entries, "PROMPT_FAILED")] == ["DEADLINE_EXCEEDED"] * 3
    assert of_type(entries, "BREAKER_CHANGED") == []


def test_a_short_request_time_out_is_named_by_the_setting_that_ended_the_call(make):
    """Whoever set two seconds for a slow model is told what to change, also where that is too little to blame it."""
    breaker = {"failures": 1, "open_ms": 60_000, "probes": 1, "silence_ms": 5000}
    cluster = make(hang, hang, hang, breaker=breaker, request_timeout_ms=1000)
    response = cluster.run(cluster.ask(prompt(), timeout_s=30))
    assert response.error_code == "DEADLINE_EXCEEDED"
    assert "within 1.0 s (gateway.request_timeout_ms), too short" in response.error_message


def test_what_is_not_answered_says_what_its_sends_used(make):
    """Tokens that the provider told; money as soon as all of it is known; and no provider called is no send."""

    async def billed(_prompt):
        raise GatewayError("PROVIDER_ERROR", "cut", facts={"input_tokens": 7, "output_tokens": 2})

    async def unknown(_prompt):
        raise GatewayError("PROVIDER_ERROR", "gone", facts={"unknown": True})

    cluster = make(billed, billed, fail)
    response = cluster.run(cluster.ask(prompt()))
    used = (response.attempts, response.input_tokens, response.output_tokens, response.cost_usd)
    assert (response.outcome, used) == ("ERROR", (3, 14, 4, 0.0))
    cluster = make(billed, unknown, fail)
    response = cluster.run(cluster.ask(prompt()))
    assert (response.attempts, response.input_tokens, response.cost_usd) == (3, 7, None)
    cluster = make(None, None, None)
    response = cluster.run(cluster.ask(prompt(text=" ")))
    assert (response.outcome, response.attempts, response.cost_usd) == ("REJECTED", 0, 0.0)


def test_what_a_provider_refuses_is_not_asked_elsewhere(make):
    cluster = make(refuse, None, None)
    assert cluster.run(cluster.ask(prompt())).error_code == "PROVIDER_ERROR"
    assert calls(cluster) == [1, 0, 0]


def test_a_hung_provider_leaves_time_for_its_fallbacks(make):
    """Two of three hang: the third answers within the caller's deadline, each that follows having kept its reserve."""
    cluster = make(hang, hang, None, breaker=HASTY)
    began = cluster.world.loop.time()
    response = cluster.run(cluster.ask(prompt(), timeout_s=10))
    took_s, entries = cluster.world.loop.time() - began, cluster.run(cluster.entries(rests_s=2))
    assert (response.outcome, response.provider_id) == ("SUCCESS", "third")
    assert took_s <= 10 - 3
    assert [entry.reason for entry in of_type(entries, "PROMPT_FAILED")] == ["DEADLINE_EXCEEDED"] * 2
    assert [provider.cancelled for provider in cluster.providers.values()] == [1, 1, 0]


@pytest.mark.parametrize(("due_s", "answered_s"), [(20, 17), (None, 57), (-5, 57), (100, 57)])
def test_a_chain_shares_the_time_that_its_turn_has(make, due_s, answered_s):
    """An order may be given more time than its turn has: each reserve ends with the sooner of both, once that is ahead."""
    cluster = make(hang, hang, None)
    began = cluster.world.loop.time()
    due_at = None if due_s is None else format_iso(cluster.ho1.now() + due_s)
    response = cluster.run(cluster.ask(prompt(due_at=due_at), timeout_s=60))
    provider_id, took_s = response.provider_id, cluster.world.loop.time() - began
    assert provider_id == "third"
    assert took_s == pytest.approx(answered_s, abs=0.2)


def test_a_chain_that_hangs_whole_ends_with_its_caller(make):
    cluster = make(hang, hang, hang)
    began = cluster.world.loop.time()
    response = cluster.run(cluster.ask(prompt(), timeout_s=2))
    took_s = cluster.world.loop.time() - began
    assert (response.outcome, took_s < 2) == ("TIMEOUT", True)
    assert calls(cluster) == [1, 1, 1]


def test_a_fallback_that_the_budget_forbids_is_not_the_reason(make):
    """What hung used all that the order had: the caller hears that, and which budget left nothing for another."""
    cluster = make(hang, None, None, budget={"budget_mode": "enforce"}, breaker=HASTY)
    response = cluster.run(cluster.ask(prompt(token_budget=150, max_tokens=500), timeout_s=10))
    assert (response.outcome, response.error_code) == ("TIMEOUT", "DEADLINE_EXCEEDED")
    assert "BUDGET_EXHAUSTED" in response.error_message and "0 of 150 are left" in response.error_message
    assert calls(cluster) == [1, 0, 0]


def test_an_open_breaker_sends_its_calls_to_the_next_model_at_once(make):
    breaker = {"failures": 1, "open_ms": 60_000, "probes": 1, "silence_ms": 5000}
    cluster = make(fail, None, None, breaker=breaker)
    for name in "abc":
        assert cluster.run(cluster.ask(prompt(f"WO-{name}#1"))).provider_id == "second"
    assert calls(cluster) == [1, 3, 0]


def test_whoever_finds_no_place_at_a_hung_provider_is_answered_by_the_next(make):
    providers = {name: dict(one) for name, one in GATEWAY["providers"].items()}
    providers["offline"]["concurrency_max"] = 1
    cluster = make(hang, None, None, providers=providers)

    async def turn():
        first, second = cluster.ask(prompt("WO-a#1"), timeout_s=10), cluster.ask(prompt("WO-b#1"), timeout_s=8)
        return [one.provider_id for one in await asyncio.gather(first, second)]

    assert cluster.run(turn()) == ["second", "second"]
