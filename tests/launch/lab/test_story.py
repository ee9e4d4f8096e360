"""The account of a kill: told in the order of time, counted from the record, and judged without mercy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hobus.bus.messages.ids import RunId
from hobus.bus.messages.ledger import name_session_stream
from hobus.bus.messages.session import TurnResult
from hobus.bus.record.journal import pack_event, pack_result
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.orders import ToolStarted
from hobus.bus.record.session_facts import OrderEnded, RunCompleted, SessionEvent, TurnDegraded
from hobus.launch.cluster.run_file import ChildRow
from hobus.launch.lab.story import (
    Kill,
    TurnEvidence,
    Unproved,
    count_evidence,
    judge,
    list_orders,
    list_outcome,
    make_timeline,
)
from hobus.launch.sessions.evidence import short
from tests.journals import receipt

SESSION = "1a2b3c4d-0000-4000-8000-000000000000"
WO = f"WO-{SESSION}-1.2.2.001"
KILL = Kill("ho2/1", "ho2/1@a", 41, 1000.010, "ho1/1")


def entry(sequence, event_type, at_ms, about="", *, once=None, bodies=()):
    return SimpleNamespace(
        stream="ho1m", bodies=list(bodies),
        sequence=sequence, event_type=event_type, ledger_at_us=1_000_000_000 + at_ms * 1000, origin="ho2/1@a",
        provenance=SimpleNamespace(work_order_id=WO), reason="", submission_id=f"{event_type}:{about}", once=once,
    )  # fmt: skip


def delivery(sequence, worker, at_ms, attempt, **changed):
    fields = {"type": "wo.execute", "message_id": WO, "verdict": "delivered", "kind": "request", "epoch": "e"} | changed
    return SimpleNamespace(sequence=sequence, worker=worker, at=1000 + at_ms / 1000, attempt=attempt, **fields)


def ended(sequence, event, at_ms, name, *bodies, once):
    run_id = RunId(session_id=SESSION, run_seq=1)
    said = SessionEvent(session_id=SESSION, session_epoch=0, step_epoch=0, event=event, run_id=run_id)
    made = entry(sequence, event.kind, at_ms, name, once=once, bodies=[b"", *bodies])
    made.stream, made.at_us, made.provenance.agent_id = name_session_stream(SESSION), made.ledger_at_us, ""
    made.bodies[0] = pack_event(said, made.submission_id, made.at_us)
    return made


AT = "2026-01-01T00:00:00.000000Z"
DONE = RunCompleted(
    input_id="drill-1", result_ref=f"RunCompleted:{SESSION}-1/1", reply_ref=f"PROMPT_RECEIVED:{WO}#1/1/1", at=AT
)
RESULT = TurnResult(response="done", outcome="success", session_id=SESSION, run_id=None, input_id="drill-1")
ENTRIES = [
    entry(1, "RunRequested", 0),
    entry(2, "WO_DISPATCHED", 1),
    entry(3, "PROMPT_SENT", 2, "a/1"),
    entry(4, "PROMPT_RECEIVED", 5, "a/1"),
    entry(5, "TOOL_STARTED", 6, bodies=[pack_payload(ToolStarted("t", idempotent=True, number=1))]),
    entry(6, "SOMETHING_ELSE", 7),
    entry(7, "WO_COMPLETED", 40),
    ended(8, DONE, 50, f"{SESSION}-1", pack_result(RESULT), once=f"turn:{SESSION}/drill-1"),
]
TOLD_OTHERWISE = RESULT.model_copy(update={"response": ""})
STARTED_ONCE = [pack_payload(ToolStarted("t", idempotent=False, number=1))]
TAPS = [delivery(1, "ho1/1@a", 2, 1), delivery(1, "ho1/1@a", 2, 1), delivery(7, "ho1/1@b", 30, 2)]
RESTARTED = ChildRow(
    actor="ho2/1", role="ho2", instance="ho2/1@b", state="ready", pid=42, mark="b", started_at=1000.015, restarts=1,
    ready_after_ms=20,
)  # fmt: skip
EVIDENCE = TurnEvidence(
    kill=KILL, entries=ENTRIES, deliveries=list_orders(TAPS), restarts=[RESTARTED], result=RESULT,
    again=RESULT, answered_at=1000.060,
)  # fmt: skip


def test_the_story_is_told_in_the_order_of_time():
    """Record, broker and launcher in one line of moments; what a reader need not know is left out."""
    told = make_timeline(EVIDENCE)
    assert [at for at, _ in told] == sorted(at for at, _ in told)
    assert (10, "SIGKILL to ho2/1@a (pid 41), while ho1/1 is held at its frame") in told
    assert (15, "ho2/1 is started again as ho2/1@b") in told and (35, "ho2/1@b is ready, 20 ms after its start") in told
    assert (30, "the broker gives order 1.2.2.001 to ho1/1@b: the same order again, attempt 2") in told
    assert told[-1] == (60, "the client has its answer: success")
    assert not any("SOMETHING" in text for _, text in told)


def test_a_frame_that_was_seen_twice_is_counted_once():
    """The ring is read before and after the kill."""
    assert len(EVIDENCE.deliveries) == 2
    counts = count_evidence(EVIDENCE)
    found = (counts.model_calls, counts.tool_calls, counts.tool_runs, counts.redelivered, counts.answers)
    assert found == (1, 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"result": RESULT.model_copy(update={"outcome": "error", "code": "expired"})}, "answered, in full"),
        ({"entries": ENTRIES[:-1]}, "exactly one answer"),
        ({"entries": [*ENTRIES, entry(9, "TurnDegraded", 55, once=f"turn:{SESSION}/drill-1")]}, "exactly one answer"),
        ({"again": RESULT.model_copy(update={"response": "something else"})}, "the same question"),
        ({"again": None}, "the same question"),
        ({"result": TOLD_OTHERWISE, "again": TOLD_OTHERWISE}, "answer that is in the record"),
        ({"entries": [*ENTRIES, entry(9, "PROMPT_SENT", 55, "b/1")]}, "exactly one end"),
        ({"entries": [*ENTRIES, entry(9, "PROMPT_FAILED", 55, "a/1")]}, "exactly one end"),
        (
            {"entries": [*ENTRIES, entry(9, "PROMPT_SENT", 55, "a/2"), entry(10, "PROMPT_RECEIVED", 56, "a/2")]},
            "for an answer that was recorded",
        ),
        ({"entries": [*ENTRIES, entry(9, "TOOL_STARTED", 55, bodies=STARTED_ONCE)]}, "no tool began again"),
        ({"entries": [*ENTRIES[:5], entry(5, "TOOL_STARTED", 7, bodies=STARTED_ONCE), *ENTRIES[5:]]}, "no tool began"),
        ({"entries": [*ENTRIES, entry(9, "WO_FAILED", 55)]}, "ended twice"),
    ],
)
def test_what_is_not_so_is_called_broken(changed, what):
    checks = judge(replace(EVIDENCE, **changed), record_fault="", left=[])
    assert [text for text, is_so in checks if not is_so and what in text], checks


def test_a_tool_that_may_run_twice_may_begin_again_until_its_order_has_ended():
    again = entry(5, "TOOL_STARTED", 7, bodies=[pack_payload(ToolStarted("t", idempotent=True, number=1))])
    checks = judge(replace(EVIDENCE, entries=[*ENTRIES[:5], again, *ENTRIES[5:]]), record_fault="", left=[])
    assert all(is_so for _, is_so in checks), checks


def test_what_the_host_delivered_is_what_the_client_was_told():
    """A run that ended behind the host's back changes nothing of it."""
    said = RESULT.model_copy(update={"response": "reduced", "outcome": "degraded"})
    name = f"{SESSION}/drill-1/delivered"
    ref = f"TurnDegraded:{name}"
    event = TurnDegraded(input_id="drill-1", input_ref=f"{ref}/1", reply_ref=f"{ref}/2", delivered=True, at=AT)
    delivered = ended(9, event, 55, name, b"asked", b"reduced", once=f"delivered:{SESSION}/drill-1")
    evidence = replace(EVIDENCE, entries=[*ENTRIES, delivered], result=said, again=said)
    assert all(is_so for _, is_so in judge(evidence, record_fault="", left=[]))


def test_a_damaged_record_and_a_process_left_behind_are_named():
    checks = judge(EVIDENCE, record_fault="00.seg, byte 7: torn", left=["ho1/1"])
    broken = [text for text, is_so in checks if not is_so]
    assert broken == ["the record verifies: 00.seg, byte 7: torn", "nothing is left running: ho1/1"]


def test_only_orders_that_were_handed_over_count():
    """No reply, nothing that waited or was refused, no prompt."""
    others = [
        delivery(2, "ho1/1@a", 1, 1, verdict="queued"),
        delivery(3, "ho1/1@a", 1, 1, kind="reply"),
        delivery(4, "ho1/1@a", 1, 1, type="gateway.prompt"),
    ]
    assert list_orders([*others, *TAPS]) == [TAPS[0], TAPS[2]]
    assert short(WO) == "1.2.2.001"


def ended_by(worker, sequence=7):
    end = OrderEnded(wo_id=WO, receipt=receipt(WO, executed_by=worker, completed_at=AT), at=AT)
    return ended(sequence, end, 40, WO, once=None)


ORDER = replace(EVIDENCE, entries=[*ENTRIES[:6], ended_by("ho1/1@b"), ENTRIES[7]])


def test_an_order_that_was_delivered_again_and_ended_once_is_said_to_be():
    """By its second executor; its model was called once, its turn answered in full."""
    ended_once, asked, answered = list_outcome(WO, ORDER)
    assert ended_once == "order 1.2.2.001 was delivered 2 times and ended once, by ho1/1@b"
    assert "called once" in asked and "one answer" in answered


@pytest.mark.parametrize(
    "changed",
    [
        {"entries": ORDER.entries[:-1]},
        {"entries": [*ORDER.entries, entry(110, "TurnDegraded", 900)]},
        {"entries": [*ORDER.entries, ended_by("ho1/1@b", 110)]},
        {"deliveries": ORDER.deliveries[:1]},
        {"entries": [*ENTRIES, ended_by("ho2/1@a")]},
    ],
    ids=["no answer", "two answers", "two ends", "never redelivered", "ended by the dead"],
)
def test_what_the_evidence_does_not_show_is_not_claimed(changed):
    with pytest.raises(Unproved):
        list_outcome(WO, replace(ORDER, **changed))
