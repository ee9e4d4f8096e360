"""The pipeline, stage by stage, against the real ledger in virtual time."""

from __future__ import annotations

import asyncio
import json
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from bench.builders import SESSION, prompt
from hobus.bus.errors import BusError, GatewayError
from hobus.bus.messages.base import pack
from hobus.bus.messages.gateway import (
    Breakers,
    Budget,
    PromptMessage,
    PromptResponse,
    ReadBreakers,
    ReadBudget,
    ToolSpec,
)
from hobus.bus.messages.ledger import Write, WriteEntry, Written
from hobus.bus.messages.work_order import Caller, Segment, ToolCall
from hobus.bus.record.catalog import read_body
from hobus.bus.record.payloads.prompts import SentText
from tests.gateway_service.rig import (
    SHIPPED,
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


def test_a_call_is_recorded_in_both_directions_and_answered(make):
    cluster = make()
    response = cluster.run(cluster.ask(prompt()))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert (response.outcome, response.content, response.attempts) == ("SUCCESS", "fine", 1)
    assert response.content_ref == "PROMPT_RECEIVED:WO-a#1/1/1"
    assert response.sent_record_id == "PROMPT_SENT:WO-a#1/1"
    assert (response.provider_id, response.model_id) == ("offline", "offline-rules-1")
    check_attempts(entries)
    sent, received = of_type(entries, "PROMPT_SENT")[0], of_type(entries, "PROMPT_RECEIVED")[0]
    assert received.bodies[1] == b"fine"
    assert received.parents == [sent.submission_id]
    assert read_body(sent, 1).sha256.hex() == response.context_hash
    assert payload(received).tokens == 12
    assert totals(cluster) == (12, 0)


def test_a_segment_with_a_ref_is_recorded_by_its_ref(make):
    cluster = make()
    asked = prompt()
    session_id = asked.session_id
    refs = ["RunCompleted:x/1", f"RunRequested:{session_id}/i/1"]
    segments = [*(Segment(name="history", ref=ref, text="long") for ref in refs), Segment(name="user_input", text="hi")]
    cluster.run(cluster.ask(asked.model_copy(update={"messages": [PromptMessage(role="user", segments=segments)]})))
    sent = of_type(cluster.run(cluster.entries(rests_s=2)), "PROMPT_SENT")[0]
    (message,) = read_body(sent, 1).messages
    short = [SentText("history", ref) for ref in ("RunCompleted:x/1", "RunRequested:~/i/1")]
    assert message.parts == (*short, SentText("user_input", None, "hi"))
    (whole,) = read_body(sent, 1).spell_refs(session_id).messages
    assert [part.ref for part in whole.parts] == [*refs, None]


def test_the_prompt_is_durable_before_the_provider_is_called(make):
    provider = Scripted()
    cluster = make(provider)
    seen: list[int] = []

    async def look(_prompt):
        seen.append(len(of_type(await cluster.entries(), "PROMPT_SENT")))
        return answered()

    provider.act = look
    cluster.run(cluster.ask(prompt()))
    assert seen == [1]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"text": " \n"}, "INVALID_INPUT"),
        ({"contract_id": " "}, "INVALID_INPUT"),
        ({"session_id": ""}, "INVALID_INPUT"),
        ({"max_tokens": 0}, "INVALID_INPUT"),
        ({"key": "k" * 301}, "INVALID_INPUT"),
        ({"agent_id": "NOBODY"}, "FORBIDDEN"),
        ({"provider_id": "elsewhere"}, "PROVIDER_NOT_FOUND"),
        ({"work_order_id": f"WO-{SESSION}-1.51.1"}, "TURN_LIMIT"),
    ],
)
def test_a_rejection_is_recorded_without_text_and_never_sent(make, changes, code):
    cluster = make()
    response = cluster.run(cluster.ask(prompt(**{"text": "SECRET", **changes})))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert (response.outcome, response.error_code) == ("REJECTED", code)
    rejected = of_type(entries, "PROMPT_REJECTED")
    assert [entry.reason for entry in rejected] == [code]
    assert not any(b"SECRET" in body for entry in rejected for body in entry.bodies)
    assert cluster.provider.calls == 0 and not of_type(entries, "PROMPT_SENT")


def test_only_a_host_may_degrade_and_only_under_its_contract(make):
    cluster = make()
    wrong = cluster.run(cluster.ask_degraded(prompt("WO-DEGRADED-x#1")))
    right = cluster.run(cluster.ask_degraded(prompt("WO-DEGRADED-x#1", contract_id="PRC-DEGRADED-001")))
    assert (wrong.outcome, wrong.error_code) == ("REJECTED", "FORBIDDEN")
    assert right.outcome == "SUCCESS"


def test_a_role_that_may_not_prompt_is_denied_by_the_policy(make):
    cluster = make()
    with pytest.raises(BusError) as caught:
        cluster.run(cluster.ask(prompt(), client=cluster.host))
    assert caught.value.code == "denied"


def test_the_same_key_is_answered_from_memory_and_from_the_record(make):
    """A second request of a completed call gives the same answer without a call, also after a restart of the gateway."""
    cluster = make()
    first, second = cluster.run(cluster.ask(prompt())), cluster.run(cluster.ask(prompt()))
    assert first == second and cluster.provider.calls == 1
    cluster.run(asyncio.sleep(0.1))
    cluster.kill_gateway()
    cluster.start_gateway()
    third = cluster.run(cluster.ask(prompt()))
    assert third == first and cluster.provider.calls == 1


def test_an_answer_that_was_given_outlives_its_gateway(make):
    """Its record left with it, though nobody waited for that: the next gateway gives it, and calls nobody."""
    cluster = make()
    first = cluster.run(cluster.ask(prompt()))
    cluster.kill_gateway()
    cluster.start_gateway()
    assert cluster.run(cluster.ask(prompt())) == first
    entries = cluster.run(cluster.entries(rests_s=2))
    check_attempts(entries)
    assert not of_type(entries, "PROMPT_FAILED")
    assert len(of_type(entries, "PROMPT_RECEIVED")) == 1


def test_tool_calls_come_back_from_the_record(make):
    calls = [ToolCall(call_id="001", tool_id="list_packages", arguments={"a": 1})]

    async def act(_prompt):
        return answered("", tool_calls=calls)

    cluster = make(Scripted(act))
    first = cluster.run(cluster.ask(prompt()))
    cluster.run(asyncio.sleep(0.1))
    cluster.kill_gateway()
    cluster.start_gateway()
    assert cluster.run(cluster.ask(prompt())) == first
    assert first.tool_calls == calls


def test_a_recorded_answer_is_given_even_when_the_budget_is_spent(make):
    """What was paid for before a restart is not refused for lack of budget."""
    cluster = make(budget={"budget_mode": "enforce", "session_token_limit": 110})
    first = cluster.run(cluster.ask(prompt()))
    cluster.run(asyncio.sleep(0.1))
    cluster.kill_gateway()
    cluster.start_gateway()
    assert cluster.run(cluster.ask(prompt())) == first
    refused = cluster.run(cluster.ask(prompt("WO-b#1")))
    assert refused.error_code == "BUDGET_EXHAUSTED"


def test_what_called_agents_use_counts_in_the_session_of_their_caller_too(make):
    """Each in a session of its own, they cannot use more together than that has; a restart forgets none of it."""
    cluster = make(budget={"budget_mode": "enforce", "session_token_limit": 120})
    called = [Caller(session_id=SESSION, agent_id="ADMIN")]

    def asked(number):
        inner = prompt(f"WO-{number}#1", session_id=f"{number}{SESSION[1:]}", callers=called)
        return cluster.run(cluster.ask(inner))

    assert [asked(number).outcome for number in (2, 3)] == ["SUCCESS", "SUCCESS"]
    assert totals(cluster) == (24, 0)
    refused = asked(4)
    assert refused.error_code == "BUDGET_EXHAUSTED" and f"session:{SESSION}" in refused.error_message
    cluster.run(asyncio.sleep(0.1))
    cluster.kill_gateway()
    cluster.start_gateway()
    assert asked(5).error_code == "BUDGET_EXHAUSTED"
    assert totals(cluster) == (24, 0) and cluster.provider.calls == 2


def test_entries_that_cannot_be_read_do_not_keep_the_gateway_from_opening(make):
    """Each is skipped and named by its ids in the log; what stands around them counts as before."""
    cluster = make(budget={"budget_mode": "enforce", "session_token_limit": 110})
    first = cluster.run(cluster.ask(prompt()))
    junk = [
        WriteEntry(submission_id=f"{kind}:junk{n}", stream="prompts", event_type=kind, at_us=0, bodies=[body])
        for kind in ("PROMPT_SENT", "PROMPT_RECEIVED", "BUDGET_ALLOCATED")
        for n, body in enumerate(
            (b"junk", b"\xc1", pack({}), pack([]), pack({"reservation": 1, "settlement": {"x": 1}}))
        )
    ]
    written = cluster.run(
        cluster.gateway.request("ledger", Write(entries=junk), expect=Written, timeout_s=5)  # an older version's, say
    )
    assert {ack.outcome for ack in written.acks} == {"committed"}
    writer = cluster.gateway.instance
    cluster.run(asyncio.sleep(0.1))
    cluster.kill_gateway()
    cluster.start_gateway()
    with capture_logs() as logs:
        assert cluster.run(cluster.ask(prompt())) == first
    skipped = [(log["submission_id"], log["origin"]) for log in logs if log["event"] == "record_unreadable"]
    assert skipped == [(entry.submission_id, writer) for entry in junk]
    assert cluster.run(cluster.ask(prompt("WO-b#1"))).error_code == "BUDGET_EXHAUSTED"


def test_a_call_in_flight_is_joined(make):
    provider = Scripted()

    async def slow(_prompt):
        await asyncio.sleep(0.1)
        return answered()

    provider.act = slow
    cluster = make(provider)

    async def together():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(cluster.ask(prompt())) for _ in range(5)]
        return [task.result() for task in tasks]

    responses = cluster.run(together())
    assert provider.calls == 1 and all(response == responses[0] for response in responses)


def test_a_key_that_stands_for_another_request_is_refused(make):
    cluster = make()
    cluster.run(cluster.ask(prompt()))
    assert cluster.run(cluster.ask(prompt(text="other"))).error_code == "INVALID_INPUT"
    cluster.kill_gateway()
    cluster.start_gateway()
    assert cluster.run(cluster.ask(prompt(text="other"))).error_code == "INVALID_INPUT"
    assert cluster.provider.calls == 1


def test_a_key_stands_for_what_its_order_fixes_whatever_tools_the_next_worker_knows(make):
    """The answer is the recorded one, and tells which tools its model knew; also where that one went elsewhere."""
    cluster = make()
    told = ToolSpec(tool_id="a", description="", parameters={"x": 1, "y": 2})
    others = (told.model_copy(update={"parameters": {"y": 2, "x": 1}}), told.model_copy(update={"tool_id": "b"}))
    first = cluster.run(cluster.ask(prompt(tools=[told])))
    assert (first.outcome, first.tools_told) == ("SUCCESS", ["a"])

    def again() -> list[PromptResponse]:
        return [cluster.run(cluster.ask(prompt(tools=tools))) for tools in ([], [others[0]], [*others])]

    assert again() == [first] * 3
    later = cluster.config.gateway.model_dump()["providers"]
    later["offline"]["any_model"] = True
    for changes in ({}, {"default_route": {"provider_id": "offline", "model_id": "later"}, "providers": later}):
        cluster.run(asyncio.sleep(0.1))
        cluster.kill_gateway()
        cluster.snapshot = snapshot(gateway=changes)
        cluster.start_gateway()
        assert again() == [first] * 3
    assert cluster.provider.calls == 1


def test_failed_attempts_are_each_recorded_and_retried_within_bounds(make):
    async def fail(_prompt):
        raise GatewayError("PROVIDER_ERROR", "503", retryable=True, facts={"unbilled": True})

    cluster = make(Scripted(fail), gateway={"outage_wait_ms": 0})
    response, entries = cluster.run(cluster.ask(prompt())), cluster.run(cluster.entries(rests_s=2))
    assert (response.outcome, response.error_code) == ("ERROR", "PROVIDER_ERROR")
    assert cluster.provider.calls == 3 == len(of_type(entries, "PROMPT_FAILED"))
    check_attempts(entries)
    assert totals(cluster) == (0, 0)


def test_a_retry_that_succeeds_answers(make):
    tries = iter([GatewayError("PROVIDER_ERROR", "503", retryable=True, facts={"unbilled": True}), None])

    async def act(_prompt):
        if fault := next(tries):
            raise fault
        return answered()

    cluster = make(Scripted(act))
    response = cluster.run(cluster.ask(prompt()))
    assert (response.outcome, response.attempts) == ("SUCCESS", 2)
    check_attempts(cluster.run(cluster.entries(rests_s=2)))


def test_a_fault_that_cannot_pass_is_not_retried(make):
    async def act(_prompt):
        raise GatewayError("PROVIDER_ERROR", "401", facts={"unbilled": True})

    cluster = make(Scripted(act))
    assert cluster.run(cluster.ask(prompt())).error_code == "PROVIDER_ERROR"
    assert cluster.provider.calls == 1


def test_a_provider_that_raises_anything_still_ends_its_attempt(make):
    """A bug in a provider is an ERROR, recorded, settled at the reservation because nobody knows what it used."""

    async def act(_prompt):
        raise ZeroDivisionError

    cluster = make(Scripted(act))
    response = cluster.run(cluster.ask(prompt()))
    assert (response.outcome, response.error_code) == ("ERROR", "PROVIDER_ERROR")
    entries = cluster.run(cluster.entries(rests_s=2))
    check_attempts(entries)
    reserved = payload(of_type(entries, "PROMPT_SENT")[0]).reserved_tokens
    assert totals(cluster) == (reserved, 0)


def test_the_deadline_cuts_a_hanging_provider_off(make):
    cluster = make(Scripted(hang))
    response = cluster.run(cluster.ask(prompt(), timeout_s=1.0))
    assert (response.outcome, response.error_code) == ("TIMEOUT", "DEADLINE_EXCEEDED")
    assert cluster.provider.cancelled == 1
    check_attempts(cluster.run(cluster.entries(rests_s=2)))


def test_cancelling_the_request_cancels_the_provider_and_settles(make):
    """A requester that gives up ends the call at once; its attempt is recorded as cancelled, nothing stays reserved."""
    cluster = make(Scripted(hang))

    async def give_up():
        task = asyncio.ensure_future(cluster.ask(prompt()))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await cluster.entries(rests_s=2)

    entries = cluster.run(give_up())
    assert cluster.provider.cancelled == 1
    assert [entry.reason for entry in of_type(entries, "PROMPT_FAILED")] == ["CANCELLED"]
    check_attempts(entries)
    assert totals(cluster)[1] == 0


def test_one_of_two_waiters_may_give_up(make):
    provider = Scripted()

    async def slow(_prompt):
        await asyncio.sleep(0.5)
        return answered()

    provider.act = slow
    cluster = make(provider)

    async def scenario():
        first = asyncio.ensure_future(cluster.ask(prompt()))
        await asyncio.sleep(0.1)
        second = asyncio.ensure_future(cluster.ask(prompt()))
        await asyncio.sleep(0.1)
        first.cancel()
        return await second

    assert cluster.run(scenario()).outcome == "SUCCESS"
    assert (provider.calls, provider.cancelled) == (1, 0)


def test_a_cancelled_key_asked_again_is_a_new_attempt(make):
    """A cancel is no answer: the same key is sent again under the next attempt number."""
    provider = Scripted(hang)
    cluster = make(provider)

    async def scenario():
        first = asyncio.ensure_future(cluster.ask(prompt()))
        await asyncio.sleep(0.2)
        first.cancel()
        await asyncio.sleep(0)
        provider.act = None
        return await cluster.ask(prompt()), await cluster.entries(rests_s=2)

    response, entries = cluster.run(scenario())
    assert (response.outcome, response.attempts) == ("SUCCESS", 2)
    check_attempts(entries)


def test_output_is_validated_and_stays_a_success(make):
    good = {"artifact_type": "constraint", "labels": {}, "context_line": "be brief", "weight": 0.5}
    texts = iter([json.dumps(good), json.dumps(good | {"weight": "x"}), "no json"])

    async def act(_prompt):
        return answered(next(texts))

    contract = SHIPPED.contracts["PRC-CONSOLIDATE-001"]
    cluster = make(Scripted(act))
    wanted = {
        "contract_id": contract.contract_id, "output_schema": contract.output_schema, "structured_output": True,
    }  # fmt: skip
    verdicts: list[PromptResponse] = [cluster.run(cluster.ask(prompt(f"WO-{n}#1", **wanted))) for n in range(3)]
    assert [response.output_valid for response in verdicts] == [True, False, False]
    assert {response.outcome for response in verdicts} == {"SUCCESS"}
    assert verdicts[2].output_errors == ["$: not JSON"]


def test_mode_warn_goes_on_and_warns_once_per_crossing(make):
    cluster = make(budget={"budget_mode": "warn", "session_token_limit": 110})
    outcomes = [cluster.run(cluster.ask(prompt(f"WO-{n}#1"))).outcome for n in range(20)]
    entries = cluster.run(cluster.entries(rests_s=2))
    assert set(outcomes) == {"SUCCESS"}
    warned = [payload(entry).scope for entry in of_type(entries, "BUDGET_WARNING")]
    # While one call's reservation still fits again after settling, the next one crosses anew; from 110 used on it stays over.
    assert set(warned) == {f"session:{SESSION}"} and len(warned) < 12


def test_mode_off_refuses_and_warns_nothing(make):
    cluster = make(budget={"budget_mode": "off", "session_token_limit": 1})
    response = cluster.run(cluster.ask(prompt()))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert response.outcome == "SUCCESS" and not of_type(entries, "BUDGET_WARNING")
    assert totals(cluster) == (12, 0)


def test_mode_enforce_refuses_and_a_parent_scope_says_so(make):
    cluster = make(budget={"budget_mode": "enforce", "session_token_limit": 50})
    assert cluster.run(cluster.ask(prompt())).error_code == "BUDGET_EXHAUSTED"
    cluster = make(budget={"budget_mode": "enforce", "agent_token_limit": 50})
    assert cluster.run(cluster.ask(prompt())).error_code == "HIERARCHY_EXCEEDED"


def test_an_order_may_tighten_the_mode_and_never_loosen_it(make):
    cluster = make(budget={"budget_mode": "warn", "session_token_limit": 50})
    assert cluster.run(cluster.ask(prompt(budget_mode="enforce"))).error_code == "BUDGET_EXHAUSTED"
    cluster = make(budget={"budget_mode": "enforce", "session_token_limit": 50})
    assert cluster.run(cluster.ask(prompt(budget_mode="off"))).error_code == "BUDGET_EXHAUSTED"


def test_a_refusal_names_the_setting_that_is_spent(make):
    """Of session, agent and provider, and of an order its own; what is over already has nothing left."""
    for kind in ("session", "agent", "provider"):
        cluster = make(budget={"budget_mode": "enforce", f"{kind}_token_limit": 50})
        said = cluster.run(cluster.ask(prompt())).error_message
        assert said.endswith(f"50 of 50 are left (budget.{kind}_token_limit)"), said
    cluster = make(budget={"budget_mode": "enforce"})
    said = cluster.run(cluster.ask(prompt(text="x" * 4000, token_budget=60, max_tokens=500))).error_message
    assert said.endswith("60 of 60 are left (its order's own)"), said
    cluster = make(budget={"budget_mode": "warn", "session_token_limit": 5})
    cluster.run(cluster.ask(prompt()))
    assert "; 0 of 5 are left (" in cluster.run(cluster.ask(prompt("WO-b#1", budget_mode="enforce"))).error_message


def test_an_orders_budget_bounds_prompt_and_answer(make):
    provider = Scripted()
    cluster = make(provider, budget={"budget_mode": "enforce"})

    async def used(wanted):
        return answered(input_tokens=50, output_tokens=wanted.max_tokens)

    provider.act = used
    refused = cluster.run(cluster.ask(prompt("WO-big#1", text="x" * 40_000, token_budget=600, max_tokens=4096)))
    first = cluster.run(cluster.ask(prompt("WO-a#1", text="x" * 200, token_budget=600, max_tokens=500)))
    second = cluster.run(cluster.ask(prompt("WO-a#2", text="x" * 160, token_budget=600, max_tokens=500)))
    third = cluster.run(cluster.ask(prompt("WO-a#3", text="x" * 160, token_budget=600, max_tokens=500)))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert (refused.outcome, refused.error_code) == ("REJECTED", "BUDGET_EXHAUSTED")
    assert "prompt 10000" in refused.error_message and "600 of 600 are left" in refused.error_message
    assert [one.max_tokens for one in provider.prompts] == [500, 10]
    assert (first.outcome, second.outcome, third.error_code) == ("SUCCESS", "SUCCESS", "BUDGET_EXHAUSTED")
    assert [payload(entry).max_tokens for entry in of_type(entries, "PROMPT_SENT")] == [500, 10]
    assert not [entry for entry in of_type(entries, "BUDGET_ALLOCATED") if "work_order" in entry.submission_id]
    check_attempts(entries)


def test_orders_that_are_refused_are_not_remembered(make):
    cluster = make(budget={"budget_mode": "enforce", "session_token_limit": 600})
    for number in range(3):
        cluster.run(cluster.ask(prompt(f"WO-own{number}#1", text="x" * 400, token_budget=60)))
        cluster.run(cluster.ask(prompt(f"WO-session{number}#1", text="x" * 4000, token_budget=5000)))
    assert not [name for name in cluster.service._current.account.state.scopes if name.startswith("work_order")]


def test_an_orders_budget_is_only_said_in_mode_warn(make):
    cluster = make()
    response = cluster.run(cluster.ask(prompt(text="x" * 400, token_budget=60, max_tokens=500)))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert (response.outcome, cluster.provider.prompts[0].max_tokens) == ("SUCCESS", 500)
    assert [payload(entry).scope for entry in of_type(entries, "BUDGET_WARNING")] == ["work_order:WO-a"]
    assert not [row for row in cluster.service._current.account.report("").scopes if row.scope.startswith("work_order")]


def test_what_an_order_used_is_known_after_a_restart(make):
    provider = Scripted()
    cluster = make(provider, budget={"budget_mode": "enforce"})

    async def used(wanted):
        return answered(input_tokens=50, output_tokens=wanted.max_tokens)

    provider.act = used
    cluster.run(cluster.ask(prompt("WO-a#1", text="x" * 200, token_budget=600, max_tokens=500)))
    cluster.run(cluster.entries(rests_s=2))
    cluster.kill_gateway()
    cluster.start_gateway()
    cluster.run(cluster.ready())
    cluster.run(cluster.ask(prompt("WO-a#2", text="x" * 160, token_budget=600, max_tokens=500)))
    assert [one.max_tokens for one in provider.prompts] == [500, 10]


def test_what_was_held_and_never_recorded_is_released_in_the_record(make):
    """A call that is cancelled while it waits for its provider's turn has no PROMPT_SENT: BUDGET_RELEASED says it."""
    provider = Scripted(hang)
    shipped = SHIPPED.config.gateway.providers["offline"].model_dump()
    cluster = make(provider, gateway={"providers": {"offline": shipped | {"concurrency_max": 1}}})

    async def turn():
        calls = [asyncio.ensure_future(cluster.ask(prompt(f"WO-{n}#1"))) for n in range(2)]
        await asyncio.sleep(1)
        calls[1].cancel()
        await asyncio.sleep(1)
        return await cluster.entries(rests_s=2)

    (entry,) = of_type(cluster.run(turn()), "BUDGET_RELEASED")
    said = payload(entry)
    assert entry.submission_id.startswith("BUDGET_RELEASED:WO-1#1/1/")
    assert (entry.reason, said.scopes[0]) == ("CANCELLED", f"session:{SESSION}")
    assert totals(cluster)[1] == said.tokens  # the other one's


def test_budgets_and_breakers_are_read(make):
    cluster = make()
    cluster.run(cluster.ask(prompt()))
    budget = cluster.run(
        cluster.operator.request("gateway", ReadBudget(session_id=SESSION), expect=Budget, timeout_s=1)
    )
    breakers = cluster.run(cluster.operator.request("gateway", ReadBreakers(), expect=Breakers, timeout_s=1))
    assert [row.scope for row in budget.scopes] == ["agent:ADMIN", "provider:offline", f"session:{SESSION}"]
    assert [(row.used, row.calls, row.cost_usd) for row in budget.scopes] == [(12, 1, 0.0)] * 3
    assert [(row.model_id, row.state) for row in breakers.breakers] == [("offline-rules-1", "closed")]


def test_an_unknown_price_is_unknown_and_not_zero(make):
    model = {"model_id": "offline-rules-1", "sees": False, "input_usd_per_million": None, "output_usd_per_million": 1.0,
             "cached_usd_per_million": None}  # fmt: skip
    provider = {"kind": "offline", "latency_ms": 0, "any_model": False, "concurrency_max": 4, "models": [model]}
    cluster = make(gateway={"providers": {"offline": provider}})
    response = cluster.run(cluster.ask(prompt()))
    assert response.cost_usd is None
    rows = cluster.service._current.account.report(SESSION).scopes
    assert {row.cost_usd for row in rows} == {None}


@pytest.mark.parametrize("is_stated", [True, False], ids=["stated", "asked"])
def test_an_answer_gets_what_the_window_of_its_model_leaves(make, is_stated):
    """Its cap is sent and recorded; a prompt that fills the window alone is not sent, and the mend is told."""
    model = {"model_id": "offline-rules-1", "sees": False, "context_tokens": 1000 if is_stated else None,
             "input_usd_per_million": 0.0, "output_usd_per_million": 0.0, "cached_usd_per_million": 0.0}  # fmt: skip
    shipped = {"kind": "offline", "latency_ms": 0, "any_model": False, "concurrency_max": 4, "models": [model]}
    provider = Scripted()
    if not is_stated:
        provider.window = AsyncMock(return_value=1000)
    cluster = make(provider, gateway={"providers": {"offline": shipped}})

    async def turn():
        asked = [
            prompt(f"WO-{n}#1", text="x" * size, max_tokens=900) for n, size in enumerate((40, 1600, 3468, 3472, 4000))
        ]
        return [await cluster.ask(one) for one in asked], await cluster.entries(rests_s=2)

    answers, entries = cluster.run(turn())
    assert [one.max_tokens for one in provider.prompts] == [900, 541, 16]
    assert [payload(one).max_tokens for one in of_type(entries, "PROMPT_SENT")] == [900, 541, 16]
    assert [one.error_code for one in answers] == ["", "", "", "CONTEXT_TOO_LONG", "CONTEXT_TOO_LONG"]
    for setting in ("budget.history_budget", "tools.output_max_bytes", "context_tokens"):
        assert setting in answers[3].error_message


@pytest.mark.parametrize("stated", [None, 4000], ids=["unknown", "stated"])
@pytest.mark.parametrize("named", [True, False], ids=["figures", "none"])
def test_a_prompt_that_fits_is_answered_where_its_cap_did_not(make, stated, named):
    """Asked once more in the same call, as an attempt of it; a window that was named lowers caps from then on, and refuses nothing."""
    model = {"model_id": "offline-rules-1", "sees": False, "context_tokens": stated,
             "input_usd_per_million": 0.0, "output_usd_per_million": 0.0, "cached_usd_per_million": 0.0}  # fmt: skip
    shipped = {"kind": "offline", "latency_ms": 0, "any_model": False, "concurrency_max": 4, "models": [model]}

    async def count(asked):
        tokens = len(asked.messages[0].text)  # each is one, as in Chinese
        if tokens + asked.max_tokens > 2000:
            figures = {"window": 2000, "prompt_tokens": tokens} if named else {}
            raise GatewayError("CONTEXT_TOO_LONG", "too long", facts={"status": 400, "unbilled": True} | figures)
        return answered()

    provider = Scripted(count)
    cluster = make(provider, gateway={"providers": {"offline": shipped}})

    async def turn():
        asked = [
            prompt(f"WO-{n}#1", text="国" * size, max_tokens=3000) for n, size in enumerate((400, 500, 1990, 9000))
        ]
        return [await cluster.ask(one) for one in asked], await cluster.entries(rests_s=2)

    answers, entries = cluster.run(turn())
    caps = [one.max_tokens for one in provider.prompts]
    if named:
        first, second = 3000, 1851 if stated is None else 3000
        assert caps[:4] == [first, 1599, second, 1499] and len(caps) == 6
        assert [one.attempts for one in answers][:3] == [2, 2, 1]
    else:
        assert caps[:4] == [3000, 750, 3000, 750]
    assert [one.error_code for one in answers] == ["", "", "CONTEXT_TOO_LONG", "CONTEXT_TOO_LONG"]
    assert [payload(one).max_tokens for one in of_type(entries, "PROMPT_SENT")] == caps
    assert len(of_type(entries, "PROMPT_FAILED")) == len(caps) - 2


def test_counters_add_up(make):
    cluster = make()
    for number in range(4):
        cluster.run(cluster.ask(prompt(f"WO-{number}#1")))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert cluster.service.counters()["sent"] == cluster.provider.calls == recorded_sends(entries) == 4


def test_an_answer_too_large_for_the_record_still_gets_its_end(make):
    """What cannot be recorded whole is ended as failed, with its usage; the caller has its answer."""

    async def act(_prompt):
        return answered("x" * 40_000, output_tokens=90)

    cluster = make(Scripted(act), ledger={"bodies_max_bytes": 30_000})
    response = cluster.run(cluster.ask(prompt()))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert len(response.content) == 40_000
    check_attempts(entries)
    assert payload(of_type(entries, "PROMPT_FAILED")[0]).tokens == 97 == totals(cluster)[0]


def test_a_prompt_too_large_for_the_record_is_refused(make):
    cluster = make(ledger={"bodies_max_bytes": 30_000})
    response = cluster.run(cluster.ask(prompt(text="x" * 40_000)))
    assert (response.outcome, response.error_code) == ("REJECTED", "INVALID_INPUT")
    assert cluster.provider.calls == 0 and totals(cluster) == (0, 0)
