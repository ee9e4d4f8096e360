"""REJECTED says that no provider was called; whatever ends a call has its record, also before PROMPT_SENT."""

from __future__ import annotations

import asyncio

import pytest

from bench.builders import prompt
from hobus.bus.errors import GatewayError
from tests.gateway_service.rig import Cluster, Scripted, answered, check_attempts, payload, totals
from tests.rig import of_type


def asked(cluster: Cluster, **how):
    """The answer to one prompt, and the record after it."""
    return cluster.run(cluster.ask(prompt(), **how)), cluster.run(cluster.entries(rests_s=2))


@pytest.mark.parametrize(
    "code", ["AUTH_ERROR", "FORBIDDEN", "RATE_LIMITED", "PROVIDER_REFUSED", "PROVIDER_RATE_LIMITED", "INVALID_INPUT"]
)
def test_a_refusal_of_the_provider_is_an_error_whatever_it_is_called(make, code):
    async def act(_prompt):
        raise GatewayError(code, "provider offline answered 401: it does not accept the key", facts={"unbilled": True})

    response, entries = asked(make(Scripted(act)))
    assert (response.outcome, response.error_code) == ("ERROR", code)
    assert "provider offline answered 401" in response.error_message
    assert [entry.reason for entry in of_type(entries, "PROMPT_FAILED")] == [code]
    assert of_type(entries, "PROMPT_REJECTED") == []
    check_attempts(entries)


def test_a_second_attempt_that_is_refused_is_no_rejection(make):
    """The first one was sent, and took what there was: its fault is what the caller hears, and the budget beside it."""

    async def act(_prompt):
        raise GatewayError("PROVIDER_ERROR", "it hung up", retryable=True, facts={"unknown": True})

    budget = {"budget_mode": "enforce", "session_token_limit": 150}
    response, entries = asked(make(Scripted(act), budget=budget))
    assert (response.outcome, response.error_code) == ("ERROR", "PROVIDER_ERROR")
    assert response.error_message.startswith("it hung up; not tried again: BUDGET_EXHAUSTED: ")
    (refused,) = of_type(entries, "PROMPT_REJECTED")
    assert (refused.reason, payload(refused).outcome) == ("BUDGET_EXHAUSTED", "ERROR")
    check_attempts(entries)


class Unready(Scripted):
    """A provider that is not fit for use, or takes for ever to be."""

    def __init__(self, ready) -> None:
        super().__init__()
        self.ready = ready

    async def prepare(self) -> None:
        await self.ready()


def test_a_provider_that_cannot_be_used_is_a_rejection_with_the_fix(make):
    faults = [GatewayError("PROVIDER_UNUSABLE", "provider offline cannot be used: no key; set it")] * 2

    async def ready() -> None:
        if faults:
            raise faults.pop()

    cluster = make(Unready(ready))  # the start itself asked once, and said so in the log
    response, entries = asked(cluster)
    assert (response.outcome, response.error_code) == ("REJECTED", "PROVIDER_UNUSABLE")
    assert response.error_message.endswith("no key; set it")
    assert of_type(entries, "PROMPT_SENT") == [] and totals(cluster) == (0, 0)
    assert [payload(entry).outcome for entry in of_type(entries, "PROMPT_REJECTED")] == ["REJECTED"]
    assert asked(cluster)[0].outcome == "SUCCESS"


def test_a_provider_that_loads_for_ever_ends_with_the_deadline(make):
    async def ready() -> None:
        await asyncio.sleep(1e6)

    response, entries = asked(make(Unready(ready)), timeout_s=3.0)
    assert (response.outcome, response.error_code) == ("TIMEOUT", "DEADLINE_EXCEEDED")
    assert "still being loaded" in response.error_message
    assert [entry.reason for entry in of_type(entries, "PROMPT_REJECTED")] == ["DEADLINE_EXCEEDED"]
    assert of_type(entries, "PROMPT_SENT") == []


def test_a_prompt_that_the_ledger_kept_from_leaving_is_in_the_record_once_that_is_back(make):
    cluster = make(ledger={"outage_wait_ms": 500})
    cluster.kill_ledger()
    response = cluster.run(cluster.ask(prompt()))
    cluster.start_ledger()
    entries = cluster.run(cluster.entries(rests_s=2))
    assert (response.outcome, response.error_code) == ("ERROR", "UNAVAILABLE")
    assert [entry.reason for entry in of_type(entries, "PROMPT_REJECTED")] == ["UNAVAILABLE"]
    assert cluster.provider.calls == 0
    check_attempts(entries)


def test_reasoning_tokens_and_estimates_are_recorded_and_answered_again(make):
    """What an answer told of its usage is there after a restart, too."""

    async def act(_prompt):
        return answered(reasoning_tokens=3, usage_is_estimated=True)

    cluster = make(Scripted(act))
    first = cluster.run(cluster.ask(prompt()))
    cluster.run(asyncio.sleep(0.1))
    cluster.kill_gateway()
    cluster.start_gateway()
    again = cluster.run(cluster.ask(prompt()))
    assert (again.reasoning_tokens, again.usage_is_estimated) == (3, True)
    assert again == first and cluster.provider.calls == 1
