"""Whose answer counts is decided by the stream of the session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.builders import SESSION
from hobus.bus.errors import BusError, RuntimeFault, SessionFault
from hobus.bus.messages.ids import format_iso
from hobus.bus.messages.ledger import Provenance, WriteEntry
from hobus.bus.messages.session import TurnReply, TurnRequest, TurnResult
from hobus.bus.messages.work_order import Cost
from hobus.bus.record.journal import pack_result
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.orders import SignalsNamed
from hobus.bus.record.session_facts import RunCancelled, RunCompleted, RunFailed, RunRequested, TurnDegraded
from tests.actors.session_host.rig import TAKEN, Hosted, journal, result_of
from tests.gateway_service.rig import Scripted, answered
from tests.rig import of_type


def test_a_run_that_completed_meanwhile_is_delivered_instead(make):
    """RunCompleted stands first under the turn's key: the host delivers its result and its own reply is nowhere."""
    provider = Scripted()
    cluster = make(provider)
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    run_id = {"session_id": SESSION, "run_seq": 1}
    done = TurnResult(response="the real answer", outcome="success", session_id=SESSION, run_id=None, input_id="in-1")
    completed = RunCompleted(
        input_id="in-1", result_ref=f"RunCompleted:{SESSION}-1/1", reply_ref="x/1", at=format_iso(2.0)
    )

    async def act(_prompt):
        await cluster.write(
            TAKEN,
            journal(completed, TAKEN.submission_id, f"RunCompleted:{SESSION}-1", body=pack_result(done), once=True),
        )
        return answered()

    provider.act = act
    result = cluster.run(cluster.turn())
    assert result == done, run_id
    assert [entry.event_type for entry in cluster.run(cluster.stream())] == ["TookOver", "RunCompleted"]


@pytest.mark.parametrize("with_detail", [True, False])
def test_a_verdict_that_came_first_is_delivered_instead(make, with_detail):
    """RunFailed with a verdict's code holds the key: the client gets that verdict."""
    provider = Scripted()
    cluster = make(provider)
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    verdict = TurnResult(
        response="spent", outcome="error", session_id=SESSION, run_id=None, input_id="in-1", code="budget_exhausted"
    )
    ref = f"RunFailed:{SESSION}/1.2/1" if with_detail else None
    failed = RunFailed(input_id="in-1", code="budget_exhausted", detail_ref=ref, at=format_iso(2.0))
    body = pack_result(verdict) if with_detail else b""

    async def act(_prompt):
        await cluster.write(
            TAKEN, journal(failed, TAKEN.submission_id, f"RunFailed:{SESSION}/1.2", body=body, once=True)
        )
        return answered()

    provider.act = act
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.code) == ("error", "budget_exhausted")


def test_a_cancelled_turn_is_told_as_its_run_was_recorded(make):
    """RunCancelled holds the key: its result, with what the run did cost and call, is the answer to whoever asks."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    recorded = TurnResult(
        response="The turn was cancelled.", outcome="error", session_id=SESSION, run_id=None, input_id="in-1",
        code="cancelled", cost=Cost(input_tokens=7, llm_calls=1), exchange_entry_ids=["PROMPT_RECEIVED:x"],
    )  # fmt: skip
    name = f"RunCancelled:{SESSION}/1.2"
    event = RunCancelled(input_id="in-1", reason="enough", at=format_iso(2.0))
    cluster.run(cluster.write(TAKEN, journal(event, TAKEN.submission_id, name, body=pack_result(recorded), once=True)))
    assert cluster.run(cluster.turn()) == recorded


def requested(text: str, prev: str) -> WriteEntry:
    """RunRequested as HO2 writes it, the text as its body."""
    name = f"RunRequested:{SESSION}/in-1"
    event = RunRequested(
        input_ref=f"{name}/1",
        input_id="in-1",
        input_digest="d",
        deadline_at=format_iso(9.0),
        config_digest="",
        at=format_iso(1.0),
    )
    return journal(event, prev, name, body=text.encode())


def completed_run(text: str) -> tuple[TurnResult, list[WriteEntry]]:
    """A run that answered this text under input in-1, as the stream has it."""
    done = TurnResult(response="the real answer", outcome="success", session_id=SESSION, run_id=None, input_id="in-1")
    asked = requested(text, TAKEN.submission_id)
    name = f"RunCompleted:{SESSION}-1"
    event = RunCompleted(input_id="in-1", result_ref=f"{name}/1", reply_ref="x/1", at=format_iso(2.0))
    return done, [TAKEN, asked, journal(event, asked.submission_id, name, body=pack_result(done), once=True)]


@pytest.mark.parametrize("text", ["hello", "something else"])
def test_the_winners_answer_is_given_to_its_own_text_alone(make, text):
    """Another text under an answered input id is a conflict, also where only the degradation finds out."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    done, entries = completed_run("hello")
    cluster.run(cluster.write(*entries))
    result = cluster.run(cluster.turn(text))
    if text == "hello":
        assert result == done
    else:
        assert (result.outcome, result.code) == ("error", "input_conflict")
        assert "the real answer" not in result.response


def test_a_winner_that_the_host_reads_names_what_consolidation_due_names(make):
    """The run's answer stands in two entries: RunCompleted, and its candidates under the input's once key."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    done, entries = completed_run("hello")
    due = WriteEntry(
        submission_id="CONSOLIDATION_DUE:WRITER/1", stream="ho2m", event_type="CONSOLIDATION_DUE", at_us=1,
        provenance=Provenance(session_id=SESSION),
        bodies=[pack_payload(SignalsNamed(("domain:system",)))], once=f"candidates:{SESSION}/in-1",
    )  # fmt: skip
    cluster.run(cluster.write(*entries, due))
    assert cluster.run(cluster.turn()) == done.model_copy(update={"consolidation_candidates": ["domain:system"]})


def test_another_text_under_a_degraded_input_is_a_conflict(make):
    """The earlier TurnDegraded brought its own text: it is compared with that."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    event = TurnDegraded(input_id="in-1", input_ref="T:x/1", reply_ref="T:x/2", delivered=False, at=format_iso(1.0))
    earlier = journal(event, "", f"TurnDegraded:{SESSION}/in-1", body=b"something else", once=True)
    cluster.run(cluster.write(earlier._replace(prev=None, tenure=None)))
    assert cluster.run(cluster.turn()).code == "input_conflict"


def failing_lookups(cluster: Hosted, count: int) -> list[int]:
    """The host's next look-ups fail, as while the ledger restarts; the list grows by one for each."""
    asked: list[int] = []
    lookup = cluster.actor._ledger.lookup

    async def fails(*args: Any, **keywords: Any) -> Any:
        asked.append(len(asked))
        if len(asked) <= count:
            raise BusError("peer_lost", "the ledger is gone")
        return await lookup(*args, **keywords)

    cluster.actor._ledger.lookup = fails
    return asked


def test_the_winner_is_looked_up_until_the_ledger_says(make):
    """The look-up meets a restart of the ledger: it is asked again, and the run's answer is delivered."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    done, entries = completed_run("hello")
    asked = failing_lookups(cluster, 2)
    cluster.run(cluster.write(*entries))
    assert cluster.run(cluster.turn()) == done and len(asked) == 3


def test_a_winner_that_cannot_be_read_in_time_is_an_honest_error_and_never_a_second_answer(make):
    """Once an ack said that another answer stands, nothing is delivered or recorded beside it."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    _done, entries = completed_run("hello")
    failing_lookups(cluster, 1_000_000)

    async def scenario():
        await cluster.write(*entries)
        started = asyncio.get_running_loop().time()
        result = await cluster.turn(timeout_s=6)
        return result, asyncio.get_running_loop().time() - started, await cluster.stream()

    result, elapsed_s, stream = cluster.run(scenario())
    assert (result.outcome, result.code) == ("error", "unavailable") and elapsed_s < 6
    assert "again under the same input id" in result.response
    assert "TurnDegraded" not in [entry.event_type for entry in stream]


def test_the_hosts_append_needs_neither_head_nor_tenure(make):
    """TurnDegraded lands behind whatever HO2 wrote, whoever owns the session."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    cluster.run(cluster.write(TAKEN))
    result, stream = cluster.run(cluster.turn()), cluster.run(cluster.stream())
    assert result.outcome == "degraded"
    assert [entry.event_type for entry in stream] == ["TookOver", "TurnDegraded"]


def waiting_reply(message: TurnRequest, standstill: str | None) -> TurnReply:
    """HO2's word that a run stands still."""
    meanwhile = result_of(message, outcome="error", code="run_waiting", response="it is paused")
    return TurnReply.model_validate({"result": None, "waiting": standstill, "meanwhile": meanwhile})


def test_a_run_that_stands_still_is_asked_for_again_with_what_is_known(make):
    """HO2 is told what the host knows, so that it answers when that changes; the client gets the one result."""
    cluster = make()

    async def act(message):
        if len(cluster.ho2.turns) < 3:
            return waiting_reply(message, "Paused" if len(cluster.ho2.turns) == 1 else None)
        return TurnReply(result=result_of(message))

    cluster.ho2.act = act
    assert cluster.run(cluster.turn()).outcome == "success"
    assert [message.waiting for message in cluster.ho2.turns] == [None, "Paused", None]


@pytest.mark.parametrize("fault", [None, RuntimeFault("internal", "a bug")])
def test_a_run_that_stands_still_is_not_ended_for_its_clients_deadline(make, fault):
    """The client's time is over, or HO2 is gone: the client is told how the run stands, and nothing degrades."""
    cluster = make()

    async def act(message):
        if message.waiting is None:
            return waiting_reply(message, "Paused")
        if fault is not None:
            raise fault
        await asyncio.sleep(1e6)
        raise AssertionError("it is cancelled before")

    async def timed():
        started = asyncio.get_running_loop().time()
        return await cluster.turn(timeout_s=4), asyncio.get_running_loop().time() - started

    cluster.ho2.act = act
    result, elapsed_s = cluster.run(timed())
    assert (result.outcome, result.code, result.response) == ("error", "run_waiting", "it is paused")
    assert fault is not None or 3.6 < elapsed_s < 4, "nothing degrades, so no time is kept for that"
    assert cluster.provider.calls == 0
    assert of_type(cluster.run(cluster.entries("governance")), "DEGRADATION") == []


def test_a_verdict_on_a_run_that_stood_still_is_told_as_it_is(make):
    """Waiting hides no refusal."""
    cluster = make()

    async def act(message):
        if message.waiting is None:
            return waiting_reply(message, "Paused")
        raise SessionFault("session_closed", "it has ended")

    cluster.ho2.act = act
    assert cluster.run(cluster.turn()).code == "session_closed"


def test_a_session_that_nobody_began_is_an_error_and_not_begun(make):
    """A mistyped session id is said to be unknown; nothing is started or degraded."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("not_found", "no session was started")
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.code) == ("error", "not_found")
    assert cluster.ho2.started == [] and cluster.provider.calls == 0
