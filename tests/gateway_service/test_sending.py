"""One attempt: whatever a provider answers has one end; what was sent is never sent again under the same attempt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.builders import prompt
from hobus.bus.errors import GatewayError
from hobus.bus.limits import SPOOL_RETRY_MS
from hobus.bus.messages.work_order import ToolCall
from hobus.bus.record.catalog import read_body
from tests.gateway_service.rig import Cluster, Scripted, answered, check_attempts, payload, recorded_sends, totals
from tests.rig import of_type


def calling(arguments: dict[str, Any], *ids: str) -> list[ToolCall]:
    """Tool calls with these arguments under these ids."""
    return [ToolCall(call_id=name, tool_id="list_packages", arguments=arguments) for name in ids]


def changed(**fields: Any) -> Any:
    """An answer that never went through validation, as a provider may build it."""
    return answered().model_copy(update=fields)


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        (changed(tool_calls=calling({"n": 10**30}, "001")), 12),
        (changed(tool_calls=calling({"n": "\ud800"}, "001")), 12),
        (changed(content="\ud800 hi"), 12),
        (changed(finish_reason=3), 12),
        (changed(input_tokens=-5000), None),
        (changed(output_tokens=10**400), None),
        (None, None),
    ],
    ids=["number", "argument", "content", "type", "negative", "huge", "nothing"],
)
def test_an_answer_that_no_record_holds_ends_as_failed_at_its_reported_usage(make, answer, tokens):
    """Exactly one end, PROMPT_FAILED{PROVIDER_ERROR}; a usage that is none is settled at the reservation."""

    async def act(_prompt):
        return answer

    cluster = make(Scripted(act))
    response = cluster.run(cluster.ask(prompt(), timeout_s=5))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert (response.outcome, response.error_code) == ("ERROR", "PROVIDER_ERROR")
    assert "cannot be recorded" in response.error_message
    check_attempts(entries)
    (end,) = of_type(entries, "PROMPT_FAILED")
    reserved = payload(of_type(entries, "PROMPT_SENT")[0]).reserved_tokens
    assert (end.reason, payload(end).tokens) == ("PROVIDER_ERROR", tokens or reserved)
    assert payload(end).is_unknown is (tokens is None)
    assert totals(cluster) == (tokens or reserved, 0)


@pytest.mark.parametrize(
    "fault",
    [
        GatewayError("PROVIDER_ERROR", "said \ud800"),
        GatewayError("X" * 100, "a code over any limit"),
        GatewayError("PROVIDER_ERROR", "huge", facts={"input_tokens": 10**30}),
        GatewayError("PROVIDER_ERROR", "odd", facts={"input_tokens": "many"}),
    ],
    ids=["text", "code", "usage", "type"],
)
def test_a_fault_that_no_record_holds_still_ends_its_attempt(make, fault):
    async def act(_prompt):
        raise fault

    cluster = make(Scripted(act))
    response = cluster.run(cluster.ask(prompt(), timeout_s=5))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert (response.outcome, response.error_code) == ("ERROR", "PROVIDER_ERROR")
    check_attempts(entries)
    assert totals(cluster)[1] == 0


def test_tool_calls_are_numbered_by_position_and_keep_the_providers_ids(make):
    """Duplicate, blank and odd ids: a call id is its zero-padded position, in the answer and in the record."""

    async def act(_prompt):
        own = ToolCall(call_id="x", provider_call_id="toolu_1", tool_id="list_packages", arguments={})
        return answered("", tool_calls=[*calling({}, "call_a", "call_a", "", "004"), own])

    cluster = make(Scripted(act))
    response = cluster.run(cluster.ask(prompt()))
    entries = cluster.run(cluster.entries(rests_s=2))
    assert [(call.call_id, call.provider_call_id) for call in response.tool_calls] == [
        ("001", "call_a"),
        ("002", "call_a"),
        ("003", ""),
        ("004", ""),
        ("005", "toolu_1"),
    ]
    (received,) = of_type(entries, "PROMPT_RECEIVED")
    assert list(read_body(received, 2).tool_calls) == response.tool_calls


async def slow(_prompt):
    """Answers after a second."""
    await asyncio.sleep(1)
    return answered()


def fill(cluster: Cluster) -> int:
    """No byte is left where the ledger lies; returns what there was."""
    medium = cluster.world.media["ledger"]
    before, medium.capacity_bytes = medium.capacity_bytes, medium.used_bytes()
    return before


@pytest.mark.parametrize("is_free_again", [True, False])
def test_an_answer_that_a_full_disk_kept_out_of_the_record_is_remembered(make, is_free_again):
    cluster = make(Scripted(slow))

    async def scenario():
        asking = asyncio.ensure_future(cluster.ask(prompt()))
        await asyncio.sleep(0.5)
        size = fill(cluster)
        first = await asking
        await asyncio.sleep(0.2)
        if is_free_again:
            cluster.world.media["ledger"].capacity_bytes = size
        again = await cluster.ask(prompt())
        cluster.world.media["ledger"].capacity_bytes = size
        return first, again, await cluster.entries(rests_s=2)

    first, again, entries = cluster.run(scenario())
    assert first.outcome == "SUCCESS" and again == first and cluster.provider.calls == 1
    check_attempts(entries)


def test_an_end_that_a_full_disk_kept_out_is_recorded_soon_after_there_is_room(make):
    """Nobody asks and nothing else is written: the spooled end goes in within SPOOL_RETRY_MS."""
    cluster = make(Scripted(slow))

    async def scenario():
        asking = asyncio.ensure_future(cluster.ask(prompt()))
        await asyncio.sleep(0.5)
        size = fill(cluster)
        await asking
        await asyncio.sleep(3)
        cluster.world.media["ledger"].capacity_bytes = size
        await asyncio.sleep(SPOOL_RETRY_MS / 1000 + 0.1)
        return await cluster.entries(), cluster.service.counters()["spooled"]

    entries, spooled = cluster.run(scenario())
    check_attempts(entries)
    assert spooled == 0 and recorded_sends(entries) == 1


def test_an_attempt_of_this_process_without_an_end_is_not_sent_under_the_same_record(make):
    """The key has left the window before its end was recorded: the next send is an attempt with its own PROMPT_SENT."""
    cluster = make(Scripted(slow))

    async def scenario():
        asking = asyncio.ensure_future(cluster.ask(prompt()))
        await asyncio.sleep(0.5)
        size = fill(cluster)
        await asking
        await asyncio.sleep(0.2)
        cluster.service._calls.forget(prompt().idempotency_key)
        cluster.world.media["ledger"].capacity_bytes = size
        keeper = cluster.service._keeper
        left, keeper._list_left = keeper._list_left, list  # the end stays where it is until the key is asked again
        again = await cluster.ask(prompt())
        keeper._list_left = left
        keeper._hand_over_left()
        return again, await cluster.entries(rests_s=2)

    again, entries = cluster.run(scenario())
    assert (again.outcome, again.attempts, cluster.provider.calls) == ("SUCCESS", 2, 2)
    assert len(of_type(entries, "PROMPT_SENT")) == 2
    check_attempts(entries)
