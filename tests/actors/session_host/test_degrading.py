"""Answers without HO2: a call of its own, in both records, and double faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from bench.builders import SESSION
from hobus.actors.session_host.limits import RESERVE_SHARE_MAX
from hobus.bus.errors import STEPS_KEPT, BusError, GatewayError, RuntimeFault, WorkOrderFault, put_plainly
from hobus.bus.messages.ids import derive_degraded_call_key, derive_session_id, derive_session_key, format_iso
from hobus.bus.messages.session import SessionConfig, ToolCallSummary, TurnReply, TurnRequest
from hobus.bus.messages.work_order import Cost
from hobus.bus.record.journal import read_event
from hobus.bus.record.session_facts import SessionStarted
from hobus.bus.spent import make_spent_facts
from hobus.gateway_service.providers.offline.provider import OfflineProvider
from tests.actors.session_host.rig import TAKEN, journal, result_of
from tests.gateway_service import rig as gateway_rig
from tests.gateway_service.rig import SHIPPED, Scripted, answered, check_attempts, hang
from tests.rig import of_type


@pytest.mark.parametrize(
    "fault", [RuntimeFault("internal", "a bug"), WorkOrderFault("execution_error", "no"), BusError("peer_lost", "gone")]
)
def test_a_failed_supervisor_degrades_and_both_records_say_so(make, fault):
    """DEGRADATION with its reason, one gateway call under PRC-DEGRADED-001, TurnDegraded in the stream, outcome degraded."""
    cluster = make()
    cluster.ho2.fault = fault
    result = cluster.run(cluster.turn("what is up?"))
    assert (result.outcome, result.response, result.code) == ("degraded", "fine", "degraded")
    assert result.reason == put_plainly(fault)
    (prompt,) = cluster.provider.prompts
    assert (prompt.contract_id, prompt.work_order_id) == ("PRC-DEGRADED-001", "WO-DEGRADED-in-1")
    assert prompt.idempotency_key == derive_degraded_call_key(SESSION, "in-1")
    assert prompt.tools == [] and "what is up?" in prompt.messages[-1].text and "ADMIN" in prompt.messages[0].text
    (entry,) = cluster.run(cluster.stream())
    event = read_event(entry).event
    assert (entry.submission_id, entry.once) == (f"TurnDegraded:{SESSION}/in-1", f"turn:{SESSION}/in-1")
    assert (event.input_ref, event.reply_ref, event.delivered, event.reason) == (
        f"{entry.submission_id}/1", f"{entry.submission_id}/2", False, put_plainly(fault),
    )  # fmt: skip
    assert entry.bodies[1:] == [b"what is up?", b"fine"]
    (degradation,) = of_type(cluster.run(cluster.entries("governance")), "DEGRADATION")
    assert {one.provenance[:5] for one in (entry, degradation)} == {
        ("ADMIN", "ADMIN", "FMWK-107", "PKG-ADMIN-AGENT-001", SESSION)
    }
    assert (degradation.decision, degradation.reason.partition(":")[2]) == ("DEGRADED", fault.code)
    check_attempts(cluster.run(cluster.entries(rests_s=2)))


def test_without_any_supervisor_a_first_turn_degrades_too(make):
    """R3: HO2 dead, no session yet: answered, marked degraded, within the grace and one gateway call."""
    cluster = make()
    cluster.kill_ho2()

    async def timed():
        started = asyncio.get_running_loop().time()
        return await cluster.turn(session_id=None, timeout_s=20), asyncio.get_running_loop().time() - started

    result, elapsed_s = cluster.run(timed())
    assert result.outcome == "degraded"
    assert elapsed_s <= cluster.config.bus.service_grace_ms / 1000 + 0.5


@pytest.mark.parametrize("timeout_s", [1.0, 4.0, 10.0])
def test_a_silent_supervisor_leaves_time_to_degrade(make, timeout_s):
    """R3: HO2 gets the client's deadline less the reserve; the degraded reply comes before the deadline, HO2 is cancelled."""
    cluster = make()

    async def act(message):
        await asyncio.sleep(1e6)
        raise AssertionError

    cluster.ho2.act = act

    async def timed():
        started = asyncio.get_running_loop().time()
        return await cluster.turn(timeout_s=timeout_s), asyncio.get_running_loop().time() - started

    result, elapsed_s = cluster.run(timed())
    host = cluster.config.host
    reserve_s = min(host.degrade_reserve_ms / 1000, RESERVE_SHARE_MAX * timeout_s)
    assert result.outcome == "degraded"
    assert abs(elapsed_s - (timeout_s - reserve_s)) < 0.1
    assert cluster.ho2.cancelled == 1


@pytest.mark.parametrize("timeout_s", [0.5, 2.0, 3.0])
def test_a_deadline_shorter_than_the_reserve_still_reaches_the_supervisor(make, timeout_s):
    """The reserve is at most a share of the whole time, so a short deadline is no reason to degrade."""
    cluster = make()
    result = cluster.run(cluster.turn(timeout_s=timeout_s))
    assert (result.outcome, len(cluster.ho2.turns)) == ("success", 1)


def test_a_retry_of_a_degraded_input_gets_the_same_reply_without_a_second_call(make):
    """The gateway answers the key from the record, the stream answers who was first."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    first, second, stream = cluster.run(cluster.turn()), cluster.run(cluster.turn()), cluster.run(cluster.stream())
    assert (first.outcome, first.response, first.reason) == (second.outcome, second.response, second.reason)
    assert (cluster.provider.calls, len(stream), first.reason) == (1, 1, "a bug")


def test_an_input_id_of_another_session_degrades_as_well(make):
    """Two sessions may use one input id, with different texts: each gets a call and an answer of its own."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    assert [
        result.outcome
        for result in (
            cluster.run(cluster.turn("what is up?")),
            cluster.run(cluster.turn("something else", session_id=derive_session_id("door", "another"))),
        )
    ] == ["degraded", "degraded"]
    keys = [prompt.idempotency_key for prompt in cluster.provider.prompts]
    assert len(set(keys)) == 2 and {key.partition("#")[0] for key in keys} == {"WO-DEGRADED-in-1"}


def test_the_offline_model_degrades_honestly(make):
    """On the shipped provider the reduced answer says that it is one."""
    provider = OfflineProvider(provider_id="offline", latency_ms=0, chars_per_token=4, sleep=asyncio.sleep)
    cluster = make(provider)
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    result = cluster.run(cluster.turn("what packages are installed?"))
    assert result.outcome == "degraded" and "reduced mode" in result.response


def test_supervisor_and_gateway_gone_is_an_honest_error(make):
    """Nobody can answer: outcome error with a sentence that says so, before the deadline."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    cluster.kill_gateway()
    result = cluster.run(cluster.turn(timeout_s=6))
    assert (result.outcome, result.code is not None) == ("error", True)
    assert "neither" in result.response
    assert cluster.run(cluster.stream()) == []


def test_the_gateways_outcome_is_checked_before_its_content(make):
    """Anything but SUCCESS is a failure, also a refusal for budget, and a blank reply too."""
    cluster = make(budget={"budget_mode": "enforce", "session_token_limit": 10})
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.code) == ("error", "BUDGET_EXHAUSTED")
    assert "neither" not in result.response

    async def blank(_prompt):
        return answered(" ")

    cluster = make(Scripted(blank))
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    result = cluster.run(cluster.turn())
    assert result.outcome == "error" and "its answer is blank" in result.response


def test_a_provider_that_failed_is_named_as_what_could_not_answer(make):
    """The gateway answered: nobody says that it could not."""

    async def down(_prompt):
        raise GatewayError("PROVIDER_ERROR", "provider offline answered 500: it failed", facts={"unbilled": True})

    cluster = make(Scripted(down))
    first, last = "provider mine answered 429: it takes no more", "provider offline answered 500: it failed"
    cluster.ho2.fault = RuntimeFault("PROVIDER_RATE_LIMITED", first)
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.code) == ("error", "PROVIDER_ERROR")
    again = "Please ask again under the same input id."
    told = f"No model can answer right now (PROVIDER_ERROR: {last})."
    assert result.response == f"{told} Before that: PROVIDER_RATE_LIMITED ({first}). {again}"
    cluster.ho2.fault = RuntimeFault("PROVIDER_ERROR", last)
    assert cluster.run(cluster.turn(input_id="in-2")).response == f"{told} {again}", "what is said already is no news"


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_degraded_turn_costs_what_its_run_did_too(make, is_answered):
    """HO2 says what was spent before it failed; the last resort's own call is added."""

    async def fails(_prompt):
        raise GatewayError("PROVIDER_ERROR", "cut", facts={"input_tokens": 5, "output_tokens": 1})

    cluster = make(Scripted(None if is_answered else fails))
    run = Cost(input_tokens=100, output_tokens=20, total_tokens=120, llm_calls=2, cost_usd=0.25)
    cluster.ho2.fault = RuntimeFault("PROVIDER_ERROR", "x", facts=make_spent_facts(run))
    result = cluster.run(cluster.turn())
    assert result.outcome == ("degraded" if is_answered else "error")
    assert result.cost.total_tokens > 120 and result.cost.cost_usd is not None and result.cost.cost_usd >= 0.25
    assert result.cost.llm_calls == 2 + is_answered


@pytest.mark.parametrize("answers", ["a model", "nobody", "a verdict"])
def test_whoever_answers_says_what_was_called_before(make, answers):
    """To ask again could pay twice: what was begun and has no known end is named, and so is what succeeded."""

    async def fails(_prompt):
        raise GatewayError("PROVIDER_ERROR", "cut")

    cluster = make(Scripted(fails if answers == "nobody" else None))
    calls = [("pay", "Failed", "unknown_outcome"), ("book", "Succeeded", ""), ("look", "Failed", "tool_not_found")]
    made = [ToolCallSummary(tool_id=tool_id, status=status, code=code) for tool_id, status, code in calls]
    facts = make_spent_facts(Cost(cost_usd=0.0), made) | ({STEPS_KEPT: 1} if answers == "a verdict" else {})
    cluster.ho2.fault = RuntimeFault("deadline_exceeded", "x", facts=facts)
    result = cluster.run(cluster.turn())
    assert result.outcome == ("degraded" if answers == "a model" else "error")
    assert "pay was begun, and nobody knows how it ended" in result.response
    assert result.response.endswith("Called before that, and succeeded: book.")
    assert (result.tool_calls, result.cost.tool_ids_used) == (made, ["pay", "book"])


def test_what_nobody_told_of_has_an_unknown_price(make):
    """A supervisor that was asked and is silent may have spent something."""
    cluster = make()

    async def act(_message):
        await asyncio.sleep(1e6)

    cluster.ho2.act = act
    result = cluster.run(cluster.turn(timeout_s=6))
    assert (result.outcome, result.cost.cost_usd) == ("degraded", None)


def test_a_hanging_provider_is_given_up_in_time(make):
    """The last resort hangs too: an honest error before the client's deadline."""
    cluster = make(Scripted(hang))
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    result = cluster.run(cluster.turn(timeout_s=5))
    assert result.outcome == "error"


def test_without_the_ledger_the_reply_is_delivered_and_spooled(make):
    """Ledger and HO2 gone: the reply comes before the deadline, and when the ledger is back the stream says it was delivered."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")

    async def scenario():
        cluster.kill_ledger()
        started = asyncio.get_running_loop().time()
        result = await cluster.turn(timeout_s=6)
        elapsed_s = asyncio.get_running_loop().time() - started
        spooled = cluster.actor.counters()["spooled"]
        cluster.start_ledger()
        return result, elapsed_s, spooled, await cluster.stream()

    result, elapsed_s, spooled, stream = cluster.run(scenario())
    assert (result.outcome, result.response) == ("degraded", "fine") and elapsed_s < 6
    assert spooled == 2  # DEGRADATION and TurnDegraded{delivered: true}
    assert any(read_event(entry).event.delivered for entry in stream)
    assert not cluster.world.media["host"].files


@pytest.mark.parametrize("who", ["the same host", "the next host"])
def test_who_was_told_a_degraded_answer_hears_no_other_one(make, who):
    """The supervisor could answer by now, and the record does not say yet what was told: the host's own disk does."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    cluster.kill_ledger()
    first = cluster.run(cluster.turn(timeout_s=6))
    cluster.ho2.fault = None
    if who == "the next host":
        cluster.world.kill(cluster.host_peer.instance)
        cluster.start_host()
        cluster.run(cluster.host_ready())
    again, other = cluster.run(cluster.turn(timeout_s=6)), cluster.run(cluster.turn("another text", timeout_s=6))
    cluster.start_ledger()
    _stream = cluster.run(cluster.stream())
    assert (first.outcome, first.response) == (again.outcome, again.response) == ("degraded", "fine")
    assert (other.outcome, other.code) == ("error", "input_conflict")
    assert cluster.provider.calls == 1 and len(cluster.ho2.turns) == 1


def once(gate: asyncio.Event) -> Callable[[TurnRequest], Awaitable[TurnReply]]:
    """A supervisor that answers when the gate opens."""

    async def act(message: TurnRequest) -> TurnReply:
        await gate.wait()
        return TurnReply(result=result_of(message))

    return act


def test_a_last_resort_that_comes_too_late_is_told_to_nobody(make):
    """The supervisor answers another request for the input while the ledger still has time to decide: that is it."""
    cluster, gate = make(), asyncio.Event()
    cluster.ho2.act = once(gate)

    async def scenario():
        cluster.kill_ledger()
        patient = asyncio.ensure_future(cluster.turn(timeout_s=30))
        hasty = asyncio.ensure_future(cluster.turn(timeout_s=6))
        while not cluster.provider.calls:
            await asyncio.sleep(0.01)
        gate.set()
        told = await patient
        later = await hasty
        cluster.start_ledger()
        return told, later, await cluster.stream()

    told, later, stream = cluster.run(scenario())
    assert (told.outcome, told.response) == (later.outcome, later.response) == ("success", "from HO2")
    assert not any(read_event(entry).event.delivered for entry in stream)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_two_who_ask_the_same_hear_the_same(make, is_recorded):
    """One waits no longer and is told a degraded answer; when the supervisor answers the other one, that is too late."""
    cluster, gate = make(), asyncio.Event()
    cluster.ho2.act = once(gate)

    async def scenario():
        cluster.kill_ledger()
        patient = asyncio.ensure_future(cluster.turn(timeout_s=30))
        await asyncio.sleep(0.1)
        hasty = await cluster.turn(timeout_s=6)
        if is_recorded:
            cluster.start_ledger()
            assert read_event((await cluster.stream())[-1]).event.delivered
        gate.set()
        return hasty, await patient

    hasty, patient = cluster.run(scenario())
    assert (hasty.outcome, hasty.response) == (patient.outcome, patient.response) == ("degraded", "fine")


def test_a_delivered_reply_survives_the_host(make):
    """Spooled, host killed: the next host hands it over, and it replaces what history would show."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    cluster.kill_ledger()
    cluster.run(cluster.turn(timeout_s=6))
    cluster.world.kill(cluster.host_peer.instance)
    cluster.start_host()
    cluster.start_ledger()
    cluster.run(cluster.world.settled())
    stream = cluster.run(cluster.stream())
    assert [read_event(entry).event.delivered for entry in stream] == [True]
    assert stream[0].bodies[2] == b"fine"
    assert not cluster.world.media["host"].files


def test_a_full_disk_does_not_keep_the_reply_back(make):
    """Neither ledger nor disk: the client still gets its answer."""
    cluster = make(gateway={"on_ledger_outage": "spool"})
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    cluster.kill_ledger()
    cluster.world.media["host"].capacity_bytes = 0
    assert cluster.run(cluster.turn(timeout_s=6)).outcome == "degraded"


CLERK = SHIPPED.agents["ADMIN"].model_copy(update={"agent_id": "CLERK", "framework_id": "FMWK-200"})


def started(agent_id):
    """What HO2 recorded of the session before it died."""
    event = SessionStarted(
        agent_id=agent_id,
        session_config=SessionConfig(),
        max_in_flight_effects=1,
        principal="local",
        at=format_iso(1.0),
    )
    entry = journal(event, TAKEN.submission_id, f"SESSION_START:{SESSION}/1.1")
    return [TAKEN, entry._replace(once=derive_session_key(SESSION))]


@pytest.mark.parametrize("claimed", [None, "ADMIN"])
@pytest.mark.parametrize("is_dead", [False, True])
def test_a_session_degrades_as_its_own_agent(make, monkeypatch, claimed, is_dead):
    """Whoever its client names: in the prompt's words, in both records, and in what is paid for; HO2 fails, or is dead."""
    monkeypatch.setattr(gateway_rig, "SHIPPED", replace(SHIPPED, agents={**SHIPPED.agents, "CLERK": CLERK}))
    cluster = make()
    cluster.run(cluster.write(*started("CLERK")))
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    if is_dead:
        cluster.kill_ho2()
    result = cluster.run(cluster.turn("what is up?", agent_id=claimed, timeout_s=20))
    assert (result.outcome, result.response) == ("degraded", "fine")
    (prompt,) = cluster.provider.prompts
    assert (prompt.agent_id, prompt.framework_id) == ("CLERK", "FMWK-200") and "CLERK" in prompt.messages[0].text
    entries = [cluster.run(cluster.stream())[-1], *of_type(cluster.run(cluster.entries("governance")), "DEGRADATION")]
    assert [one.provenance.agent_id for one in entries] == ["CLERK", "CLERK"]
    (sent,) = of_type(cluster.run(cluster.entries("prompts")), "PROMPT_SENT")
    assert sent.provenance.agent_id == "CLERK"


def test_a_degraded_turn_reaches_no_provider_that_its_agent_may_not_use(make, monkeypatch):
    """What ADMIN may is not what this session's agent may."""
    bare = CLERK.model_copy(update={"permissions": CLERK.permissions.model_copy(update={"providers": ()})})
    monkeypatch.setattr(gateway_rig, "SHIPPED", replace(SHIPPED, agents={**SHIPPED.agents, "CLERK": bare}))
    cluster = make()
    cluster.run(cluster.write(*started("CLERK")))
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    result = cluster.run(cluster.turn("what is up?"))
    assert (result.outcome, cluster.provider.prompts) == ("error", []) and "FORBIDDEN" in result.response
