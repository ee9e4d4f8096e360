"""The circuit breaker: its table at the borders, its laws over any sequence, and the gateway around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.builders import prompt
from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Breakers, PromptResponse, ReadBreakers
from hobus.bus.messages.ids import format_iso
from hobus.bus.messages.work_order import CLASSIFICATION
from hobus.config.sections.gateway import BreakerConfig
from hobus.gateway_service.breaker import BreakerState, Said, end_call, enter, judge_end
from hobus.gateway_service.limits import PATIENCE_SHARE
from tests.gateway_service.rig import (
    SHIPPED,
    Cluster,
    Scripted,
    answered,
    check_attempts,
    hang,
    of_type,
    payload,
    recorded_sends,
)  # fmt: skip

CONFIG = BreakerConfig(failures=3, open_ms=10_000, probes=2, silence_ms=5000)
SETTINGS = {
    "breaker": {"failures": 2, "open_ms": 10_000, "probes": 1, "silence_ms": 5000},
    "attempts_max": 1,
    "outage_wait_ms": 0,
}
OPEN = BreakerState("open", 3, opened_at=90.0, era=1)
HALF = BreakerState("half_open", 3, opened_at=90.0, probes=1, era=2)


def enters(now: float) -> Callable[[BreakerState], BreakerState]:
    """A call wants to pass."""
    return lambda breaker: enter(breaker, now, CONFIG)[0]


def ends(era: int, said: Said, now: float) -> Callable[[BreakerState], BreakerState]:
    """A call that passed in this era has ended."""
    return lambda breaker: end_call(breaker, era, said, now, CONFIG)


def fault(era: int = 0, now: float = 0.0) -> Callable[[BreakerState], BreakerState]:
    """A call that its provider failed."""
    return ends(era, "fault", now)


@pytest.mark.parametrize(
    ("breaker", "event", "after"),
    [
        (BreakerState(), enters(0), BreakerState()),
        (BreakerState(failures=1), fault(), BreakerState(failures=2)),
        (BreakerState(failures=2), fault(now=5), BreakerState("open", 3, opened_at=5, era=1)),
        (BreakerState(failures=2), ends(0, "success", 5), BreakerState()),
        (BreakerState(failures=2), ends(0, "nothing", 5), BreakerState(failures=2)),
        (OPEN, enters(99.9), OPEN),
        (OPEN, enters(100.0), HALF),
        (OPEN, fault(era=0), OPEN),
        (OPEN, ends(0, "success", 50), OPEN),
        (HALF, enters(101), BreakerState("half_open", 3, opened_at=90.0, probes=2, era=2)),
        (HALF, fault(era=1), HALF),
        (HALF, ends(2, "fault", 101), BreakerState("open", 4, opened_at=101, era=3)),
        (HALF, ends(2, "nothing", 101), BreakerState("half_open", 3, opened_at=90.0, era=2)),
        (HALF, ends(2, "success", 101), BreakerState("half_open", 3, opened_at=90.0, successes=1, era=2)),
        (
            BreakerState("half_open", 3, opened_at=90.0, probes=1, successes=1, era=2),
            ends(2, "success", 101),
            BreakerState("closed", 0, opened_at=90.0, era=3),
        ),
    ],
)
def test_every_state_meets_every_event(breaker, event, after):
    assert event(breaker) == after


def test_a_breaker_that_is_open_rests_by_the_settings_of_now():
    for open_ms, rest_s in ((2000, 2.0), (20_000, 20.0)):
        config = CONFIG.model_copy(update={"open_ms": open_ms})
        assert enter(OPEN, 90.0, config) == (OPEN, rest_s)
        assert enter(OPEN, 90.0 + rest_s, config)[0].state == "half_open"
    more = CONFIG.model_copy(update={"failures": 5})
    assert end_call(HALF, 2, "fault", 101, more) == BreakerState("closed", 4, opened_at=90.0, era=3)


@pytest.mark.parametrize(
    ("breaker", "now", "refusal"),
    [
        (OPEN, 99.0, 1.0),
        (OPEN, 100.0, None),
        (BreakerState("half_open", 3, probes=2), 0.0, 1.0),
        (BreakerState(failures=2), 0.0, None),
    ],
)
def test_who_may_not_pass_is_told_when_to_ask_again(breaker, now, refusal):
    assert enter(breaker, now, CONFIG)[1] == refusal


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (None, "success"),
        (GatewayError("PROVIDER_ERROR", "503", facts={"status": 503}), "fault"),
        (GatewayError("PROVIDER_ERROR", "connection"), "fault"),
        (GatewayError("PROVIDER_TIMEOUT", "slow"), "fault"),
        (GatewayError("PROVIDER_ERROR", "request timeout", facts={"status": 408}), "fault"),
        (GatewayError("PROVIDER_ERROR", "bad request", facts={"status": 400}), "nothing"),
        (GatewayError("PROVIDER_ERROR", "bad key", facts={"status": 401}), "nothing"),
        (GatewayError("RATE_LIMITED", "429", facts={"status": 429}), "nothing"),
        (GatewayError("DEADLINE_EXCEEDED", "the caller's"), "nothing"),
        (GatewayError("CANCELLED", "the caller"), "nothing"),
        (GatewayError("AUTH_ERROR", "key"), "nothing"),
    ],
)
def test_only_faults_of_the_provider_count(ended, said):
    assert judge_end(ended) == said


STEPS = st.lists(
    st.tuples(st.sampled_from(["enter", "success", "fault", "nothing"]), st.integers(0, 7), st.floats(0, 6)),
    max_size=80,
)


@given(STEPS)
def test_the_laws_hold_for_any_calls(steps):
    """Nothing passes an open breaker before its time; half open never more than its probes; opened by faults alone."""
    breaker, now, flying = BreakerState(), 0.0, []
    for kind, which, pause in steps:
        now += pause
        before = breaker
        if kind == "enter":
            breaker, refusal = enter(breaker, now, CONFIG)
            assert (refusal is None) or before.state != "closed"
            if refusal is None:
                assert before.state != "open" or now >= before.opened_at + CONFIG.open_ms / 1000
                flying.append(breaker.era)
            else:
                assert breaker == before
                assert refusal > 0
        elif flying:
            breaker = end_call(breaker, flying.pop(which % len(flying)), kind, now, CONFIG)
            assert breaker.state != "open" or before.state == "open" or kind == "fault"
        assert breaker.state != "half_open" or breaker.probes == flying.count(breaker.era)
        assert 0 <= breaker.probes <= CONFIG.probes
        assert breaker.state != "closed" or breaker.failures < CONFIG.failures
        assert breaker.era - before.era == (breaker.state != before.state)


# --- in the gateway -----------------------------------------------------------------------------------------------


@pytest.fixture
def down() -> Iterator[Cluster]:
    """A gateway whose provider fails, with a breaker of two failures; whatever model is asked."""
    provider = Scripted()
    offline = SHIPPED.config.gateway.providers["offline"].model_dump() | {"any_model": True}
    cluster = Cluster(provider, gateway=SETTINGS | {"providers": {"offline": offline}})

    async def fail(_prompt):
        raise GatewayError("PROVIDER_ERROR", "503", retryable=True, facts={"status": 503, "unbilled": True})

    provider.act = fail
    yield cluster
    cluster.close()


def breakers(cluster: Cluster) -> dict[str, str]:
    """State by model, as an operator reads it."""
    rows = cluster.run(cluster.operator.request("gateway", ReadBreakers(), expect=Breakers, timeout_s=1)).breakers
    return {row.model_id: row.state for row in rows}


def ask(cluster: Cluster, name: str) -> str:
    return cluster.run(cluster.ask(prompt(f"WO-{name}#1"))).error_code


def test_a_provider_that_is_down_is_left_alone_and_probed(down):
    assert [ask(down, "a"), ask(down, "b")] == ["PROVIDER_ERROR", "PROVIDER_ERROR"]
    refused = down.run(down.ask(prompt("WO-c#1")))
    assert (refused.outcome, refused.error_code) == ("REJECTED", "CIRCUIT_OPEN")
    assert 0 < refused.retry_after_ms <= 10_000
    assert (down.provider.calls, breakers(down)) == (2, {"offline-rules-1": "open"})
    down.provider.act = None
    wait(down, 10)
    assert ask(down, "d") == ""
    assert breakers(down) == {"offline-rules-1": "closed"}
    entries = down.run(down.entries(rests_s=2))
    changes = [(payload(entry).before, payload(entry).after) for entry in of_type(entries, "BREAKER_CHANGED")]
    assert changes == [("closed", "open"), ("open", "half_open"), ("half_open", "closed")]
    assert [entry.reason for entry in of_type(entries, "BUDGET_RELEASED")] == ["CIRCUIT_OPEN"]
    check_attempts(entries)
    assert recorded_sends(entries) == down.provider.calls


def wait(cluster: Cluster, seconds: float) -> None:
    cluster.run(cluster.operator.sleep(seconds))


def test_a_retry_is_not_made_once_the_breaker_opens():
    provider = Scripted()
    cluster = Cluster(provider, gateway=SETTINGS | {"attempts_max": 5})

    async def fail(_prompt):
        raise GatewayError("PROVIDER_ERROR", "503", retryable=True)

    provider.act = fail
    try:
        assert ask(cluster, "a") == "PROVIDER_ERROR"
        assert (provider.calls, breakers(cluster)) == (5, {"offline-rules-1": "closed"})
        assert ask(cluster, "b") == "PROVIDER_ERROR"
        assert (provider.calls, breakers(cluster)) == (6, {"offline-rules-1": "open"})
    finally:
        cluster.close()


TURN_MS = 60_000
"""The time of turns by default, here."""
PATIENT_S = TURN_MS / 1000 * PATIENCE_SHARE + 1
"""So long waits a caller that has that time."""


@pytest.mark.parametrize(
    ("timeout_s", "own_ms", "state", "code"),
    [
        (10, 600_000, "closed", "DEADLINE_EXCEEDED"),
        (10, 6_000, "open", "PROVIDER_TIMEOUT"),
        (10, 4_000, "closed", "DEADLINE_EXCEEDED"),
        (PATIENT_S, 600_000, "open", "PROVIDER_TIMEOUT"),
    ],
)
def test_a_silent_provider_is_at_fault_and_a_hasty_caller_is_not(timeout_s, own_ms, state, code):
    """A caller's own deadline says nothing, however often; request_timeout_ms does, and the default time of a turn."""
    cluster = Cluster(
        Scripted(hang), gateway=SETTINGS | {"request_timeout_ms": own_ms}, host={"turn_timeout_ms": TURN_MS}
    )
    try:
        told = [cluster.run(cluster.ask(prompt(f"WO-{name}#1"), timeout_s=timeout_s)) for name in "ab"]
        assert {one.error_code for one in told} == {code}
        assert breakers(cluster) == {"offline-rules-1": state}
        is_own = own_ms < timeout_s * 1000
        assert ("(gateway.request_timeout_ms)" in told[0].error_message) is is_own
        is_callers = "ask with a longer --timeout or x-hobus-timeout" in told[0].error_message
        assert is_callers is (timeout_s == 10 and not is_own)
    finally:
        cluster.close()


def test_a_classification_whose_time_is_over_names_its_own_setting():
    """It has a part of its turn's time alone, and no client can give it more."""
    cluster = Cluster(Scripted(hang), gateway=SETTINGS | {"request_timeout_ms": 600_000})
    try:
        wanted = prompt("WO-a#1").model_copy(update={"domain_tags": [CLASSIFICATION]})
        told = cluster.run(cluster.ask(wanted, timeout_s=10))
        assert told.error_code == "DEADLINE_EXCEEDED"
        assert (
            "s (ho2.classify_timeout_ms), too short a time to count as its failure; allow more time"
            in told.error_message
        )
    finally:
        cluster.close()


def test_a_probe_that_a_hasty_caller_ended_leaves_its_place():
    provider = Scripted()
    cluster = Cluster(provider, gateway=SETTINGS)

    async def fail(_prompt):
        raise GatewayError("PROVIDER_ERROR", "503", facts={"status": 503, "unbilled": True})

    provider.act = fail
    try:
        ask(cluster, "a")
        ask(cluster, "b")
        wait(cluster, 10)
        provider.act = hang
        hasty = cluster.run(cluster.ask(prompt("WO-c#1"), timeout_s=10))
        assert (hasty.error_code, breakers(cluster)) == ("DEADLINE_EXCEEDED", {"offline-rules-1": "half_open"})
        provider.act = None
        assert cluster.run(cluster.ask(prompt("WO-d#1"))).outcome == "SUCCESS"
        assert breakers(cluster) == {"offline-rules-1": "closed"}
    finally:
        cluster.close()


@pytest.mark.parametrize(
    ("after_s", "speaks", "state"), [(PATIENT_S, False, "open"), (14, False, "closed"), (PATIENT_S, True, "closed")]
)
def test_a_cancel_says_of_a_provider_what_its_silence_says(after_s, speaks, state):
    """Callers that give up on a provider that hangs open its breaker; in the middle of an answer they say nothing."""
    provider = Scripted(hang)

    async def speak(_prompt):
        while True:
            await asyncio.sleep(4)
            provider.on_delta("word ")

    if speaks:
        provider.act = speak
    cluster = Cluster(provider, gateway=SETTINGS, host={"turn_timeout_ms": TURN_MS})

    async def given_up(name):
        asking = asyncio.ensure_future(
            cluster.ho1.request(
                "gateway", prompt(f"WO-{name}#1", stream=True), expect=PromptResponse, timeout_s=2 * PATIENT_S,
                on_stream=lambda _piece: None,
            )
        )  # fmt: skip
        await asyncio.sleep(after_s)
        asking.cancel()
        await asyncio.sleep(1)

    try:
        for name in "ab":
            cluster.run(given_up(name))
        assert (provider.cancelled, breakers(cluster)) == (2, {"offline-rules-1": state})
    finally:
        cluster.close()


async def speak(provider):
    """A piece a second, for ever."""
    while True:
        await asyncio.sleep(1)
        provider.on_delta("a")


@pytest.fixture
def dripping() -> Iterator[Cluster]:
    """A gateway whose provider says a piece a second."""
    provider = Scripted()
    offline = SHIPPED.config.gateway.providers["offline"].model_dump() | {"any_model": True}
    cluster = Cluster(
        provider, gateway=SETTINGS | {"providers": {"offline": offline}}, host={"turn_timeout_ms": TURN_MS}
    )
    provider.act = lambda _prompt: speak(provider)
    yield cluster
    cluster.close()


async def streamed(cluster: Cluster, name: str, *, due_s: float, timeout_s: float) -> PromptResponse:
    """The answer to one prompt of a turn that is due in so long, somebody watching."""
    wanted = prompt(f"WO-{name}#1", stream=True, due_at=format_iso(cluster.ho1.now() + due_s))
    return await cluster.ho1.request(
        "gateway", wanted, expect=PromptResponse, timeout_s=timeout_s, on_stream=lambda _piece: None
    )


@pytest.mark.parametrize(
    ("taken_back_s", "due_s", "code", "state"),
    [
        (PATIENT_S, PATIENT_S, "PROVIDER_TIMEOUT", "open"),
        (PATIENT_S, 2 * PATIENT_S, "CANCELLED", "closed"),
        (8, 8, "DEADLINE_EXCEEDED", "closed"),
        (3, 3, "DEADLINE_EXCEEDED", "closed"),
    ],
)
def test_a_provider_that_drips_until_its_turn_is_due_had_its_time(dripping, taken_back_s, due_s, code, state):
    """Taken back when a turn of the default time is due it is at fault, in the record too; sooner, or a hasty turn's, not."""

    async def taken_back(name):
        asking = asyncio.ensure_future(streamed(dripping, name, due_s=due_s, timeout_s=2 * PATIENT_S))
        await asyncio.sleep(taken_back_s)
        asking.cancel()
        await asyncio.sleep(1)

    for name in "ab":
        dripping.run(taken_back(name))
    entries = dripping.run(dripping.entries(rests_s=2))
    assert [entry.reason for entry in of_type(entries, "PROMPT_FAILED")] == [code] * 2
    assert breakers(dripping) == {"offline-rules-1": state}
    dripping.provider.act = None
    last = prompt("WO-DEGRADED-x#1", contract_id="PRC-DEGRADED-001", model_id="another")
    told = dripping.run(dripping.ask_degraded(last)).instead_of
    assert ("provider offline did not finish an answer of offline-rules-1" in told) is (
        code != "CANCELLED" and due_s > 5
    )


def test_a_stream_that_is_taken_back_is_charged_for_what_came(dripping):
    """Its prompt and the pieces, by their length: less than was reserved, and known; before the first piece, all of it."""

    async def taken_back(name, after_s):
        asking = asyncio.ensure_future(streamed(dripping, name, due_s=60, timeout_s=60))
        await asyncio.sleep(after_s)
        asking.cancel()
        await asyncio.sleep(1)

    dripping.run(taken_back("a", 3.5))
    dripping.run(taken_back("b", 0.5))
    entries = dripping.run(dripping.entries(rests_s=2))
    reserved = [payload(one).reserved_tokens for one in of_type(entries, "PROMPT_SENT")]
    early, never = (payload(one) for one in of_type(entries, "PROMPT_FAILED"))
    assert 0 < early.tokens < reserved[0] and not early.is_unknown and early.cost_usd is not None
    assert "by its length" in early.message and "by its length" not in never.message
    assert never.tokens == reserved[1] and never.is_unknown


def test_a_provider_that_drips_until_the_deadline_is_at_fault_for_caller_record_and_breaker(dripping):
    told = [dripping.run(streamed(dripping, name, due_s=1000, timeout_s=PATIENT_S)) for name in "ab"]
    entries = dripping.run(dripping.entries(rests_s=2))
    assert {one.error_code for one in told} == {"PROVIDER_TIMEOUT"}
    assert {entry.reason for entry in of_type(entries, "PROMPT_FAILED")} == {"PROVIDER_TIMEOUT"}
    assert breakers(dripping) == {"offline-rules-1": "open"}


def test_an_open_breaker_says_what_its_provider_said(down):
    ask(down, "a")
    ask(down, "b")
    refused = down.run(down.ask(prompt("WO-c#1")))
    assert (refused.error_code, refused.error_message.endswith("It failed with: 503")) == ("CIRCUIT_OPEN", True)


def test_each_model_has_a_breaker_of_its_own(down):
    ask(down, "a")
    ask(down, "b")
    down.provider.act = None
    response = down.run(down.ask(prompt("WO-c#1", model_id="another")))
    assert response.outcome == "SUCCESS"
    assert breakers(down) == {"another": "closed", "offline-rules-1": "open"}


def test_an_answer_in_between_forgets_earlier_faults(down):
    act = down.provider.act
    ask(down, "a")
    down.provider.act = lambda _prompt: _answer()
    ask(down, "b")
    down.provider.act = act
    ask(down, "c")
    assert breakers(down) == {"offline-rules-1": "closed"}


async def _answer():
    return answered()


def test_who_finds_a_probe_in_flight_is_refused_and_waits_for_no_place():
    """However few calls its provider is given at once: nobody waits for a place to be refused there."""
    provider = Scripted()
    one = SHIPPED.config.gateway.providers["offline"].model_dump() | {"concurrency_max": 1}
    cluster = Cluster(provider, gateway=SETTINGS | {"providers": {"offline": one}})

    async def fail(_prompt):
        raise GatewayError("PROVIDER_ERROR", "503", retryable=True, facts={"status": 503, "unbilled": True})

    provider.act = fail
    try:
        ask(cluster, "a")
        ask(cluster, "b")
        wait(cluster, 10)
        provider.act = hang

        async def beside():
            probing = asyncio.ensure_future(cluster.ask(prompt("WO-c#1")))
            await cluster.ho1.sleep(0.5)
            began = cluster.ho1.clock.monotonic()
            refused = await cluster.ask(prompt("WO-d#1"))
            probing.cancel()
            return refused.error_code, cluster.ho1.clock.monotonic() - began

        code, took_s = cluster.run(beside())
        assert code == "CIRCUIT_OPEN" and took_s < 0.5
    finally:
        cluster.close()
