"""The thin adapter: HO2's answer, its verdicts, and what is posted after the reply."""

from __future__ import annotations

import asyncio

import pytest

from bench.builders import SESSION
from hobus.bus.errors import BusError, RuntimeFault, SessionFault, WorkOrderFault
from hobus.bus.messages.ids import RunId, derive_session_id
from hobus.bus.messages.session import (
    EndSession,
    SessionClosed,
    SessionReady,
    StartSession,
    TurnReply,
)
from tests.actors.session_host.rig import result_of


def test_ho2s_answer_is_the_answer(make):
    """What HO2 says is passed on unchanged; the gateway is not called and nothing is recorded by the host."""
    cluster = make()
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.response) == ("success", "from HO2")
    assert cluster.provider.calls == 0
    assert cluster.run(cluster.entries("governance")) == []


def test_a_first_turn_starts_a_session_whose_id_follows_from_its_input(make):
    """Without a session id the host derives one, starts it, and a retry under the same input finds the same session."""
    cluster = make()

    async def twice():
        return await cluster.turn(session_id=None), await cluster.turn(session_id=None)

    first, second = cluster.run(twice())
    assert first.session_id == second.session_id == derive_session_id("operator", "in-1")
    assert [(start.session_id, start.agent_id) for start in cluster.ho2.started] == [(first.session_id, "ADMIN")] * 2


@pytest.mark.parametrize("who", ["the same host", "the next host"])
def test_a_session_that_the_record_does_not_know_yet_is_started(make, who):
    """All it holds is a degraded answer on this host's disk: without a start the supervisor would know no such session."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")

    async def scenario():
        cluster.kill_ledger()
        first = await cluster.turn(timeout_s=6, session_id=None)
        cluster.ho2.fault = None
        if who == "the next host":
            cluster.world.kill(cluster.host_peer.instance)
            cluster.start_host()
            await cluster.host_ready()
        cluster.ho2.started.clear()
        await cluster.turn("and then?", timeout_s=6, session_id=first.session_id, input_id="in-2")
        meanwhile = list(cluster.ho2.started)
        cluster.start_ledger()
        await cluster.stream(first.session_id)
        await cluster.turn("and then?", timeout_s=6, session_id=first.session_id, input_id="in-3")
        return first, meanwhile, cluster.ho2.started

    first, meanwhile, started = cluster.run(scenario())
    assert first.outcome == "degraded"
    assert [start.session_id for start in meanwhile] == [first.session_id] and started == meanwhile


def test_a_waiting_run_is_asked_again_under_the_same_input(make):
    """RunWaiting is no answer: the host asks again until there is one."""
    cluster = make()

    async def act(message):
        return (
            TurnReply(result=None, waiting="Paused")
            if len(cluster.ho2.turns) < 3
            else TurnReply(result=result_of(message))
        )

    cluster.ho2.act = act
    assert cluster.run(cluster.turn()).response == "from HO2"
    assert [turn.input_id for turn in cluster.ho2.turns] == ["in-1"] * 3


def test_a_session_that_is_changing_hands_is_asked_for_again(make):
    """`moved` says that HO2's ownership of the session moves: no reason to degrade, the next one answers."""
    cluster = make()

    async def act(message):
        if len(cluster.ho2.turns) < 3:
            raise SessionFault("moved", "a new owner is taking over")
        return TurnReply(result=result_of(message))

    cluster.ho2.act = act
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.response) == ("success", "from HO2")
    assert len(cluster.ho2.turns) == 3


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *((text, "invalid_input") for text in ("", " \n\t", "\u200b", "\0", "\ufeff \u2060\x07")),
        ("x" * 101, "too_large"),
        ("ö" * 51, "too_large"),
    ],
)
def test_a_text_that_is_no_turn_is_refused_without_any_call(make, text, code):
    """Blank and oversized messages get an error at once; the limit is named with its setting."""
    cluster = make(host={"prompt_max_bytes": 100})
    result = cluster.run(cluster.turn(text))
    assert (result.outcome, result.code) == ("error", code)
    assert code != "too_large" or "host.prompt_max_bytes" in result.response
    assert cluster.ho2.turns == [] and cluster.provider.calls == 0


def test_a_text_of_exactly_the_limit_passes(make):
    """The border belongs to the allowed side."""
    cluster = make(host={"prompt_max_bytes": 100})
    assert cluster.run(cluster.turn("x" * 100)).outcome == "success"


@pytest.mark.parametrize(
    "fault",
    [
        SessionFault("run_active", "another input is being answered"),
        SessionFault("input_conflict", "that input came with another text"),
        SessionFault("session_closed", "it has ended"),
        SessionFault("invalid_input", "no such agent"),
        BusError("denied", "not allowed"),
        BusError("cancelled", "was cancelled"),
        RuntimeFault("rejected", "no"),
        WorkOrderFault("BUDGET_EXHAUSTED", "no tokens are left"),
    ],
)
def test_a_verdict_never_degrades(make, fault):
    """A refusal on purpose is an error with its code and sentence; no model is called."""
    cluster = make()
    cluster.ho2.fault = fault
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.code, result.response) == ("error", fault.code, fault.detail)
    assert cluster.provider.calls == 0
    assert cluster.run(cluster.entries("governance")) == []


def test_a_verdict_that_is_a_result_is_passed_on(make):
    """HO2's own error result (a turn limit, a budget) is the answer."""
    cluster = make()

    async def act(message):
        return TurnReply(
            result=result_of(message, outcome="error", code="turn_limit_exceeded", response="No more rounds.")
        )

    cluster.ho2.act = act
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.code) == ("error", "turn_limit_exceeded")


def test_candidates_are_posted_once_the_client_has_its_reply(make):
    """Not before: the client's answer is there while HO2 knows nothing yet; then exactly what the turn named."""
    cluster = make()
    run_id = RunId(session_id=SESSION, run_seq=7)

    async def act(message):
        named = result_of(message, run_id=run_id, consolidation_candidates=["domain:system", "task:plan"])
        return TurnReply(result=named)

    cluster.ho2.act = act

    async def scenario():
        result = await cluster.turn(agent_id="ADMIN")
        at_reply = list(cluster.ho2.consolidates)
        await asyncio.sleep(1)
        return result, at_reply

    result, at_reply = cluster.run(scenario())
    assert result.consolidation_candidates == ["domain:system", "task:plan"]
    assert at_reply == []
    [posted] = cluster.ho2.consolidates
    assert (posted.session_id, posted.run_id, posted.agent_id) == (SESSION, run_id, "ADMIN")
    assert posted.signal_ids == ["domain:system", "task:plan"]


@pytest.mark.parametrize("how", ["nothing named", "degraded", "verdict"])
def test_without_candidates_of_a_turn_that_ho2_answered_nothing_is_posted(make, how):
    """A turn that named none, a degraded one, a refused one."""
    cluster = make()
    cluster.ho2.fault = {
        "degraded": WorkOrderFault("execution_error", "gone"),
        "verdict": SessionFault("run_active", "busy"),
    }.get(how)

    async def scenario():
        result = await cluster.turn()
        await asyncio.sleep(1)
        return result.outcome

    assert cluster.run(scenario()) == {"nothing named": "success", "degraded": "degraded", "verdict": "error"}[how]
    assert cluster.ho2.consolidates == []


def test_an_explicit_session_gets_a_drawn_id_and_the_default_agent(make):
    """StartSession without an id draws one; with an id it is passed on. Its agent is named in any case."""
    cluster = make()

    async def start(message):
        return await cluster.operator.request("host", message, expect=SessionReady, timeout_s=2)

    drawn = cluster.run(start(StartSession()))
    named = cluster.run(start(StartSession(session_id=SESSION)))
    assert len(drawn.session_id) == 36 and drawn.session_id != SESSION
    assert (named.session_id, named.agent_id) == (SESSION, "ADMIN")
    cluster.run(start(StartSession(agent_id="desk")))
    assert cluster.ho2.started[-1].agent_id == "DESK"


def test_ending_a_session_is_best_effort(make):
    """HO2's word when it answers; done in any case."""
    cluster = make()

    async def end():
        return await cluster.operator.request("host", EndSession(session_id=SESSION), expect=SessionClosed, timeout_s=2)

    assert cluster.run(end()).session_id == SESSION
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    assert cluster.run(end()) == SessionClosed(session_id=SESSION, turn_count=None, total_tokens=None, cost_usd=None)


def test_the_host_is_ready_with_a_supervisor_or_the_gateway(make):
    """Either is enough; without both it says so."""
    cluster = make()
    assert cluster.host_peer.state == ("ready", "")

    async def state_after(kill):
        kill()
        await asyncio.sleep(2)
        return cluster.host_peer.state

    assert cluster.run(state_after(cluster.kill_ho2)) == ("ready", "")
    assert cluster.run(state_after(cluster.kill_gateway)) == ("degraded", "neither ho2 nor gateway is ready")
