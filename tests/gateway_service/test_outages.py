"""Ledger away, gateway killed: nothing leaves unrecorded, nothing is lost, nothing is sent twice without being said."""

from __future__ import annotations

import asyncio

import pytest

from bench.builders import SESSION, prompt
from hobus.bus import limits as bus_limits
from hobus.bus.codec import unpack_header
from hobus.bus.errors import GatewayError, RuntimeFault
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.ledger import Entry, Found, Write, Written
from hobus.bus.sim.weather import Fate
from hobus.launch.lab.simulation.budgets import BudgetMonitor
from hobus.launch.launcher.recording import record_snapshot
from tests.gateway_service.rig import (
    ENDS,
    Cluster,
    Scripted,
    answered,
    check_attempts,
    hang,
    payload,
    recorded_sends,
    snapshot,
    totals,
)
from tests.rig import of_type

DEGRADED = {"contract_id": "PRC-DEGRADED-001"}


async def quiet(request) -> PromptResponse | None:
    """The response, or None where the request failed."""
    try:
        return await request
    except RuntimeFault:
        return None


def test_an_orders_prompt_waits_for_a_restart_of_the_ledger(make):
    cluster = make()

    async def scenario():
        cluster.kill_ledger()
        asking = asyncio.ensure_future(cluster.ask(prompt()))
        await asyncio.sleep(1)
        assert cluster.provider.calls == 0
        cluster.start_ledger()
        return await asking, await cluster.entries(rests_s=2)

    response, entries = cluster.run(scenario())
    assert response.outcome == "SUCCESS"
    check_attempts(entries)


def test_an_orders_prompt_fails_unavailable_and_its_late_record_gets_an_end(make):
    """The ledger stays away too long: UNAVAILABLE, no call; the PROMPT_SENT that commits later is ended as not sent."""
    cluster = make(ledger={"outage_wait_ms": 1000})
    cluster.kill_ledger()
    response = cluster.run(cluster.ask(prompt()))
    cluster.start_ledger()
    entries = cluster.run(cluster.entries(rests_s=2))
    assert (response.outcome, response.error_code) == ("ERROR", "UNAVAILABLE")
    assert cluster.provider.calls == 0 == recorded_sends(entries)
    check_attempts(entries)
    assert totals(cluster) == (0, 0)


def test_nothing_else_is_reserved_while_a_record_given_up_may_still_commit(make):
    """A budget for one call: that of a PROMPT_SENT which commits late is given back before another one is recorded."""
    cluster = make(ledger={"outage_wait_ms": 1000}, budget={"budget_mode": "enforce", "session_token_limit": 150})

    async def scenario():
        cluster.kill_ledger()
        first = await cluster.ask(prompt())
        held = totals(cluster)
        asking = asyncio.ensure_future(cluster.ask(prompt()))
        await asyncio.sleep(0.5)
        cluster.start_ledger()
        return first, held, await asking, await cluster.entries(rests_s=2)

    first, held, again, entries = cluster.run(scenario())
    assert (first.error_code, held, again.outcome) == ("UNAVAILABLE", (0, 0), "SUCCESS")
    monitor = BudgetMonitor()
    for entry in entries:
        monitor.step(entry)
    check_attempts(entries)


@pytest.mark.parametrize(("limit", "code"), [(150, ""), (90, "BUDGET_EXHAUSTED")])
def test_what_a_prompt_given_up_reserved_does_not_refuse_the_last_resort(make, limit, code):
    """It was never sent. Where the budget itself refuses, that is said, and not that the record is silent."""
    cluster = make(ledger={"outage_wait_ms": 1000}, budget={"budget_mode": "enforce", "session_token_limit": limit})
    cluster.kill_ledger()
    cluster.run(cluster.ask(prompt()))
    last = cluster.run(cluster.ask_degraded(prompt("WO-DEGRADED-x", **DEGRADED)))
    cluster.start_ledger()
    entries = cluster.run(cluster.entries(rests_s=2))
    assert last.error_code == code
    monitor = BudgetMonitor()
    for entry in entries:
        monitor.step(entry)
    monitor.compare(cluster.service._current.account.report(SESSION).scopes)


def test_a_call_cancelled_while_its_record_waits_is_ended_as_not_sent(make):
    """Cancelled between PROMPT_SENT and its ack: the provider is never called, the late record gets its end."""
    cluster = make()

    async def scenario():
        cluster.kill_ledger()
        asking = asyncio.ensure_future(cluster.ask(prompt()))
        await asyncio.sleep(0.3)
        asking.cancel()
        await asyncio.sleep(0.3)
        cluster.start_ledger()
        return await cluster.entries(rests_s=2)

    entries = cluster.run(scenario())
    assert cluster.provider.calls == 0 == recorded_sends(entries)
    assert [entry.reason for entry in of_type(entries, "PROMPT_FAILED")] == ["CANCELLED"]
    check_attempts(entries)
    assert totals(cluster) == (0, 0)


class Loses:
    """Weather of a test's own: every frame of this type vanishes."""

    def __init__(self, lost: str) -> None:
        self.lost = lost

    def draw_fate(self, _role: str, _server: str, header: bytes) -> Fate:
        """By the frame's type."""
        return Fate(copies=0 if unpack_header(header).type == self.lost else 1)


@pytest.mark.parametrize(("patience_s", "reason"), [(10.0, "UNAVAILABLE"), (3.0, "CANCELLED")])
def test_a_call_that_cannot_read_its_own_record_ends_it_as_not_sent(make, patience_s, reason, monkeypatch):
    """The first ack is lost, the second one says "known", and the look at what is known brings nothing."""
    monkeypatch.setattr(bus_limits, "LEDGER_REQUEST_TIMEOUT_MS", 1000)
    cluster = make()

    async def scenario():
        cluster.world.network.weather = Loses(Written.TYPE)
        asking = asyncio.ensure_future(quiet(cluster.ask(prompt(), timeout_s=8.0)))
        await asyncio.sleep(1)
        cluster.world.network.weather = Loses(Found.TYPE)
        await asyncio.sleep(patience_s - 1)
        asking.cancel()
        cluster.world.network.weather = None
        return await cluster.entries(rests_s=2)

    entries = cluster.run(scenario())
    assert cluster.provider.calls == 0 == recorded_sends(entries)
    assert {entry.reason for entry in of_type(entries, "PROMPT_FAILED")} == {reason}
    check_attempts(entries)
    assert totals(cluster) == (0, 0)


def test_a_call_whose_record_stands_on_a_disk_that_is_full_now_is_ended_as_not_sent(make, monkeypatch):
    """Its ack is lost, and a full disk must not keep the ledger from saying what it knows."""
    monkeypatch.setattr(bus_limits, "LEDGER_REQUEST_TIMEOUT_MS", 1000)
    cluster = make()
    medium = cluster.world.media["ledger"]

    async def scenario():
        cluster.world.network.weather = Loses(Written.TYPE)
        asking = asyncio.ensure_future(quiet(cluster.ask(prompt(), timeout_s=8.0)))
        await asyncio.sleep(1)
        cluster.world.network.weather = None
        capacity, medium.capacity_bytes = medium.capacity_bytes, medium.used_bytes()
        await asyncio.sleep(5)
        medium.capacity_bytes = capacity
        await asking
        return await cluster.entries(rests_s=2)

    check_attempts(cluster.run(scenario()))


def test_the_end_of_a_spooled_call_stands_behind_its_beginning(make, monkeypatch):
    """The ledger hears of the call late, and of its end at once: the record has them in their order all the same."""
    monkeypatch.setattr(bus_limits, "LEDGER_REQUEST_TIMEOUT_MS", 1000)
    cluster = make()

    async def act(_prompt):
        cluster.world.network.weather = None
        return answered()

    cluster.provider.act = act
    cluster.world.network.weather = Loses(Write.TYPE)
    response = cluster.run(cluster.ask_degraded(prompt("WO-DEGRADED-i#1", **DEGRADED)))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert response.outcome == "SUCCESS"
    sent = response.sent_record_id.partition(":")[2]
    assert [entry.event_type for entry in entries if entry.submission_id.endswith(sent)] == [
        "PROMPT_SENT", "PROMPT_RECEIVED",
    ]  # fmt: skip
    check_attempts(entries)
    assert recorded_sends(entries) == 1


def test_the_degraded_call_goes_ahead_and_its_records_are_spooled(make):
    """Without the ledger the last resort answers; its records reach the ledger when it is back, once."""
    cluster = make()
    cluster.kill_ledger()
    response = cluster.run(cluster.ask_degraded(prompt("WO-DEGRADED-i#1", **DEGRADED)))
    spooled = cluster.service.counters()["spooled"]
    cluster.start_ledger()
    entries = cluster.run(cluster.entries(rests_s=2))
    assert (response.outcome, spooled) == ("SUCCESS", 2)
    check_attempts(entries)
    assert recorded_sends(entries) == cluster.provider.calls == 1
    assert cluster.service.counters()["spooled"] == 0 and not cluster.world.media["gateway"].files


def test_spooled_records_survive_the_gateway(make):
    """Ledger away, degraded call, gateway killed: the next gateway hands the spool over before it opens.

    Asked again, it calls again, and the record has both.
    """
    cluster = make()
    cluster.kill_ledger()
    cluster.run(cluster.ask_degraded(prompt("WO-DEGRADED-i#1", **DEGRADED)))
    cluster.kill_gateway()
    cluster.start_gateway()
    cluster.start_ledger()
    cluster.run(cluster.ready())
    again = cluster.run(cluster.ask_degraded(prompt("WO-DEGRADED-i#1", **DEGRADED)))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert again.outcome == "SUCCESS"
    assert recorded_sends(entries) == cluster.provider.calls == 2
    check_attempts(entries)
    assert not cluster.world.media["gateway"].files


def test_a_call_without_the_ledger_is_recorded_beside_one_that_an_earlier_gateway_made(make):
    """Under its own name: the ledger would take its records for those of the call that the killed one had begun."""
    cluster = make()

    async def hang(_prompt):
        await asyncio.sleep(60)

    async def scenario():
        cluster.provider.act = hang
        first = asyncio.ensure_future(quiet(cluster.ask_degraded(prompt("WO-DEGRADED-i#1", **DEGRADED))))
        await asyncio.sleep(1)
        cluster.kill_gateway()
        first.cancel()
        cluster.start_gateway()
        await cluster.ready()
        cluster.provider.act = None
        cluster.kill_ledger()
        again = await cluster.ask_degraded(prompt("WO-DEGRADED-i#1", **DEGRADED))
        cluster.start_ledger()
        return again, await cluster.entries(rests_s=2)

    again, entries = cluster.run(scenario())
    assert again.outcome == "SUCCESS" and recorded_sends(entries) == cluster.provider.calls == 2
    check_attempts(entries)


def test_on_ledger_outage_refuse_sends_nothing(make):
    cluster = make(gateway={"on_ledger_outage": "refuse"})
    cluster.kill_ledger()
    response = cluster.run(cluster.ask_degraded(prompt("WO-DEGRADED-i#1", **DEGRADED)))
    assert response.error_code == "UNAVAILABLE" and cluster.provider.calls == 0


def test_a_degraded_call_on_a_full_disk_is_not_sent(make):
    """Neither the ledger nor the disk can take the record: the call is refused, nothing hangs."""
    cluster = make()
    cluster.kill_ledger()
    cluster.world.media["gateway"].capacity_bytes = 0
    response = cluster.run(cluster.ask_degraded(prompt("WO-DEGRADED-i#1", **DEGRADED)))
    assert response.error_code == "UNAVAILABLE" and cluster.provider.calls == 0


def test_the_end_of_a_call_already_sent_is_spooled(make):
    """The ledger dies while the provider works: the answer is given, its record waits on disk and is not lost."""
    provider = Scripted()
    cluster = make(provider)

    async def slow(_prompt):
        await asyncio.sleep(0.1)
        return answered()

    provider.act = slow

    async def scenario():
        asking = asyncio.ensure_future(cluster.ask(prompt()))
        await asyncio.sleep(0.05)
        cluster.kill_ledger()
        response = await asking
        await asyncio.sleep(1)
        spooled = cluster.service.counters()["spooled"]
        cluster.kill_gateway()
        cluster.start_gateway()
        cluster.start_ledger()
        await cluster.ready()
        provider.act = None
        return response, spooled, await cluster.ask(prompt()), await cluster.entries(rests_s=2)

    response, spooled, again, entries = cluster.run(scenario())
    assert (response.outcome, spooled) == ("SUCCESS", 1)
    assert again == response and provider.calls == 1
    check_attempts(entries)


STEP_S = 0.00005
"""Half of the simulated network's delay of one hop: a kill at each step strikes before and after every frame."""


async def killed_at(cluster: Cluster, seconds: float) -> tuple[list[Entry], PromptResponse, list[Entry]]:
    """The record when the next gateway has opened, the answer that the key then gets, the record at the end."""
    asking = asyncio.ensure_future(quiet(cluster.ask(prompt())))
    await asyncio.sleep(seconds)
    cluster.kill_gateway()
    await asyncio.sleep(0.05)
    cluster.start_gateway()
    await cluster.ready()
    opened = await cluster.entries()
    return opened, await asking or await cluster.ask(prompt()), await cluster.entries(rests_s=2)


@pytest.mark.parametrize("steps", [range(0, 16, 2), pytest.param(range(20), marks=pytest.mark.slow)], ids=len)
def test_the_gateway_killed_at_any_moment_leaves_a_true_record(make, steps):
    """R7: the provider's counter is what the record says was sent, the key is answered, budgets are the settlements."""

    async def slow(_prompt):
        await asyncio.sleep(4 * STEP_S)
        return answered()

    seen: set[tuple[int, int, int]] = set()
    for step in steps:
        cluster = make(Scripted(slow))
        opened, response, entries = cluster.run(killed_at(cluster, step * STEP_S))
        check_attempts(opened)
        check_attempts(entries)
        assert response.outcome == "SUCCESS"
        unknown = [entry for entry in of_type(entries, "PROMPT_FAILED") if entry.reason == "UNKNOWN_OUTCOME"]
        # Sent and durable, but killed before the call itself: counted as sent, and said to be unknown.
        assert 0 <= recorded_sends(entries) - cluster.provider.calls <= len(unknown) <= 1
        used = sum(payload(entry).tokens for entry in entries if entry.event_type in ENDS)
        assert totals(cluster) == (used, 0)
        seen.add((cluster.provider.calls, len(unknown), response.attempts))
        cluster.close()
    # The sweep met all: killed before it was recorded or after its answer was, before the call itself, and in it.
    assert {(1, 0, 1), (1, 1, 2), (2, 1, 2)} <= seen


def test_unknown_outcome_fails_where_configured(make):
    cluster = make(Scripted(hang), gateway={"on_unknown_outcome": "fail"})

    async def scenario():
        asking = asyncio.ensure_future(quiet(cluster.ask(prompt())))
        await asyncio.sleep(0.1)
        cluster.kill_gateway()
        cluster.provider.act = None
        cluster.start_gateway()
        await cluster.ready()
        return await asking or await cluster.ask(prompt())

    response = cluster.run(scenario())
    assert (response.outcome, response.error_code) == ("ERROR", "UNKNOWN_OUTCOME")
    assert "provider offline was asked by gateway/" in response.error_message
    assert cluster.provider.calls == 1


def test_an_unknown_outcome_counts_at_its_reservation_and_is_said(make):
    """After the restart the reservation counts as used and the report names one call of unknown outcome."""
    cluster = make(Scripted(hang))

    async def scenario():
        asking = asyncio.ensure_future(quiet(cluster.ask(prompt(), timeout_s=1)))
        await asyncio.sleep(0.1)
        cluster.kill_gateway()
        await asking
        cluster.start_gateway()
        await cluster.ready()
        return await cluster.entries()

    entries = cluster.run(scenario())
    reserved = payload(of_type(entries, "PROMPT_SENT")[0]).reserved_tokens
    assert totals(cluster) == (reserved, 0)
    row = cluster.service._current.account.report("").scopes[0]
    assert (row.unknown_calls, row.cost_usd) == (1, None)


def test_a_gateway_whose_attempt_another_instance_made_answers_its_end(make):
    """Two gateways at once (one frozen and thawed): the second finds the first one's attempt and never sends it again."""
    cluster = make()
    first = cluster.run(cluster.ask(prompt()))
    # The other instance knows nothing of what the first one did after it opened.
    old, cluster.service._calls = cluster.service._calls, type(cluster.service._calls)(8)
    again = cluster.run(cluster.ask(prompt(), timeout_s=5))
    _old, entries = old, cluster.run(cluster.entries(rests_s=2))
    assert again == first and cluster.provider.calls == 1
    check_attempts(entries)


def test_a_gateway_without_the_ledger_at_start_is_not_ready_and_says_why(make):
    """No budget is guessed: requests fail UNAVAILABLE until the ledger has been read."""
    cluster = make(ledger={"outage_wait_ms": 500}, bus={"peer_timeout_ms": 400})
    cluster.kill_gateway()
    cluster.kill_ledger()
    cluster.start_gateway()
    response = cluster.run(cluster.ask_degraded(prompt("WO-DEGRADED-i#1", **DEGRADED)))
    reason = cluster.run(cluster.service.ready())
    cluster.start_ledger()
    cluster.run(cluster.ready())
    later = cluster.run(cluster.ask(prompt()))
    assert response.error_code == "UNAVAILABLE" and reason.startswith("ledger: ")
    assert later.outcome == "SUCCESS"


def test_a_retry_is_planned_inside_the_deadline(make):
    async def act(_prompt):
        facts = {"unbilled": True, "retry_after_ms": 10_000}
        raise GatewayError("PROVIDER_ERROR", "429", retryable=True, facts=facts)

    cluster = make(Scripted(act))
    response = cluster.run(cluster.ask(prompt(), timeout_s=2))
    assert (response.error_code, response.retry_after_ms, cluster.provider.calls) == ("PROVIDER_ERROR", 10_000, 1)


def test_after_a_reload_calls_wait_and_breakers_judge_as_the_new_configuration_says(make):
    """A time-out and a breaker's limits count from the first call on, in a gateway that goes on running."""
    cluster = make(Scripted(hang), gateway={"request_timeout_ms": 60_000})
    values = cluster.config.gateway.model_dump(mode="json")
    breaker = {**values["breaker"], "failures": 1, "open_ms": 7_000}
    one = {name: row | {"concurrency_max": 1} for name, row in values["providers"].items()}
    settings = {"request_timeout_ms": 6_000, "attempts_max": 1, "breaker": breaker, "outage_wait_ms": 0}
    settings |= {"providers": one}
    new = snapshot(gateway=settings).listening("bus", "127.0.0.1:1")  # under a digest of its own
    launcher, first = cluster.world.client("launcher"), cluster.service._current.snapshot.digest
    cluster.world.run(cluster.world.settled())
    cluster.world.run(record_snapshot(launcher, new))
    cluster.world.run(cluster.service.reconfigure(new.digest))
    clock = cluster.ho1.clock
    began = clock.monotonic()
    late = cluster.world.run(cluster.ask(prompt(config_digest=new.digest)))
    waited_s = clock.monotonic() - began
    other = prompt(idempotency_key="another", config_digest=new.digest)
    other = cluster.world.run(cluster.ask(other))
    assert cluster.service._places["offline"].most == 1
    cluster.world.run(cluster.service.reconfigure(first))
    cluster.world.run(cluster.ask(prompt(idempotency_key="back"), timeout_s=1))
    assert cluster.service._places["offline"].most is None, "a configuration that was there before counts anew"
    assert late.outcome == "TIMEOUT" and waited_s < 7
    assert other.error_code == "CIRCUIT_OPEN" and "7 s" in other.error_message
