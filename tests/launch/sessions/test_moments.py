"""What happened in a turn, by its entries: what is told, what it adds, and what belongs to it."""

from __future__ import annotations

from bench import builders
from hobus.bus.messages import session as messages
from hobus.bus.messages.ids import RunId, StepId, ToolBatchId, TurnId
from hobus.bus.messages.ledger import Entry, Provenance
from hobus.bus.messages.work_order import Cost, ToolCall
from hobus.bus.record import session_facts as events
from hobus.bus.record.catalog import KINDS
from hobus.bus.record.catalog import SESSION as SESSION_KIND
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.orders import OrderEnd, SignalsNamed, ToolStarted
from hobus.bus.record.payloads.prompts import PromptFailed, PromptReceived, PromptSent
from hobus.launch.sessions.evidence import entries_of_turn, seen_in, short
from hobus.launch.sessions.moments import all_moments, moments_in, restarts_in
from hobus.launch.sessions.steps import totals_of
from tests.launch.sessions.entries import AT, SESSION, Written

WO = f"WO-{SESSION}-1.2.1"
STEP = StepId(turn_id=TurnId(run_id=RunId(session_id=SESSION, run_seq=1), turn_seq=2), step_seq=1)
USED = Cost(input_tokens=10, output_tokens=2, total_tokens=12, llm_calls=1, elapsed_ms=5)


STREAMS = {one.event_type: one.stream for one in KINDS if one.stream != SESSION_KIND and one.payload is not None}


def beside(event_type: str, *bodies: bytes, **changed: object) -> Entry:
    number = 100 + len(bodies)
    values: dict[str, object] = {
        "sequence": number, "submission_id": f"{event_type}:{WO}#1/1", "origin": "ho1/1@a", "stream": STREAMS.get(event_type, "ho1m"),
        "event_type": event_type, "decision": "", "reason": "", "parents": [], "trace": "", "at_us": number,
        "provenance": Provenance(session_id=SESSION, run_seq=1, work_order_id=WO), "ledger_at_us": number,
        "body_hashes": [], "body_lengths": [], "prev": None, "tenure": None, "once": None, "chain": b"",
        "bodies": list(bodies),
    }  # fmt: skip
    return Entry(**(values | changed))


SENT = PromptSent("mine", "tiny", "PRC-A-001", "PRM-A-001", "", 100, 0.0, "warn", 1500, 900, None)
RECEIVED = PromptReceived("mine", "tiny", 900, 12, 0.25, None, 40, "stop")
FAILED = PromptFailed("mine", "tiny", "the provider hung up", retryable=True, tokens=900, cost_usd=None, is_unknown=True, was_sent=True)  # fmt: skip


def told(*entries: Entry) -> list[str]:
    return [one.what for one in moments_in(seen_in(entries))]


def test_a_tool_is_told_with_its_arguments_and_its_result_cut():
    """As it was asked for, begun (and begun again), and answered."""
    call = ToolCall(call_id="001", provider_call_id="1", tool_id="write_file", arguments={"path": "a.txt"})
    asked = OrderEnd(0, 1, USED, tool_calls=(call,))
    assert told(beside("WO_COMPLETED", pack_payload(asked)))[0] == (
        'ho1/1 ends order 1.2.1: the model asks for write_file {"path": "a.txt"} (#101)'
    )
    assert (
        "then runs it: t, try 2 (#101)"
        in told(beside("TOOL_STARTED", pack_payload(ToolStarted("t", idempotent=True, number=2))))[0]
    )
    long = beside("WO_COMPLETED", pack_payload(OrderEnd(0, 1, USED, text="own")), b"line\n\x1b[31m" + b"x" * 500)
    (line,) = told(long)
    assert len(line) < 200 and "characters)" in line and "\x1b" not in line and "\n" not in line


def test_what_the_journal_says_is_told():
    """Question, order, command and its refusal, steer, standstill, end."""
    written = Written().run(text="hello\nyou")
    written.command(messages.Steer(text=""), "c1", b"shorter").command(messages.Pause(), "c2", reason="cancelling: x")
    written.add(events.StepStarted(step_id=STEP, new_round=True, at=AT))
    call = builders.tool_order("t", {"a": 1}, wo_id=WO)
    written.add(events.OrderDispatched(wo_id=WO, wo_type="tool_call", step_id=STEP, order=call, at=AT))
    written.add(events.ToolBatchIssued(
        tool_batch_id=ToolBatchId(step_id=STEP, batch_seq=1), call_ids=["001"], held=["001"], at=AT
    ))  # fmt: skip
    written.failed()
    text = "\n".join(told(*written.entries))
    for said in (
        "ho2/1 becomes the owner of the session: tenure 1", "the question is recorded: “hello you”",
        "a command is recorded: steer “shorter”", "the command is applied", "the command is refused: cancelling: x",
        'then sends it out: tool t {"a": 1}', "the run waits for approval of 001",
        "the run is recorded as failed: execution_error",
    ):  # fmt: skip
        assert said in text, text
    assert "a new round" not in text and "StepStarted" not in text


def test_without_bodies_the_sentence_stands_alone_and_what_is_erased_too():
    assert told(beside("PROMPT_RECEIVED")) == ["the model's answer for 1.2.1 is recorded (#100)"]
    erased = beside("PROMPT_RECEIVED")._replace(bodies=[None])
    assert told(erased) == ["the model's answer for 1.2.1 is recorded (#100)"]
    assert told(beside("PROMPT_RECEIVED", b"\xc1")) == ["the model's answer for 1.2.1 is recorded (#101)"]


def test_what_memory_takes_up_of_a_turn_is_told():
    """Gates that it crossed, and its statement with what became of it; an erased one is said to be that."""
    both = pack_payload(SignalsNamed(("tool:a", "task:b"), "ART-1", "pending"))
    [said] = told(beside("CONSOLIDATION_DUE", both, b"Never  delete it."))
    assert said.startswith("memory takes up what the turn brought: crossed gates: tool:a, task:b; ")
    assert said.endswith("the statement “Never delete it.” is pending (#102)")
    assert "the statement (erased) is pending" in told(beside("CONSOLIDATION_DUE", both))[0]
    lost = told(beside("CONSOLIDATION_DUE", pack_payload(SignalsNamed((), "ART-1", "unanswered")), b"Be brief."))
    assert "the statement “Be brief.” is not answered by memory in time" in lost[0]
    crossed = told(beside("CONSOLIDATION_DUE", pack_payload(SignalsNamed(("tool:a",)))))
    assert crossed == ["memory takes up what the turn brought: crossed gates: tool:a (#101)"]


def test_a_process_that_goes_on_as_another_one_had_ended():
    """A late entry of the dead one (its spool) brings nobody back to life."""
    entries = [
        beside("TOOL_STARTED", ledger_at_us=1),
        beside("TOOL_STARTED", ledger_at_us=5, origin="ho1/1@b"),
        beside("WO_COMPLETED", ledger_at_us=7, origin="ho1/1@a"),
        beside("WO_COMPLETED", ledger_at_us=8, origin="ho1/1@b"),
    ]
    assert [(one.at_us, one.what) for one in restarts_in(seen_in(entries))] == [
        (4, "ho1/1 has ended, and goes on as ho1/1@b")
    ]
    assert [one.at_us for one in all_moments(seen_in(entries))] == [1, 4, 5, 7, 8]


def test_only_what_belongs_to_the_turn_is_in_its_account():
    """Its run's entries wherever they stand, what names it in an id, and take-overs while it went on."""
    written = Written().run().failed().run("in-2")
    taken = written.add(events.TookOver(tenure=2, instance="ho2/1@b", at=AT)).entries[-1]
    written.failed("in-2")
    beginning = next(one for one in written.entries if "in-2" in one.submission_id)._replace(
        provenance=Provenance(session_id=SESSION, run_seq=2), trace="t2"
    )
    first = beside("PROMPT_SENT", trace="t1")
    second = beside("PROMPT_SENT", provenance=Provenance(session_id=SESSION, run_seq=2))
    signal = beside(
        "HO3_SIGNAL", provenance=Provenance(session_id=SESSION), submission_id=f"HO3_SIGNAL:A/EVT-{SESSION}-2-x"
    )
    other = beside("PROMPT_SENT", provenance=Provenance(session_id="another", run_seq=2), trace="t2")
    entries = [*(one if one.submission_id != beginning.submission_id else beginning for one in written.entries),
               first, second, signal, other]  # fmt: skip
    found = entries_of_turn(entries, beginning)
    assert beginning in found and second in found and signal in found
    assert first not in found and other not in found
    assert all(one.provenance.run_seq in (0, 2) for one in found)
    assert (taken in found) or taken.provenance.run_seq == 1  # by its run, or by its time


def test_totals_are_counted_and_what_is_unknown_is_said_to_be():
    """Tokens of answers; a price that nobody knows makes the sum unknown."""
    entries = [
        beside("PROMPT_SENT", pack_payload(SENT)),
        beside("PROMPT_RECEIVED", pack_payload(RECEIVED)),
        beside("TOOL_STARTED"),
        beside("TOOL_STARTED"),
    ]
    totals = totals_of(seen_in(entries))
    found = (totals.model_calls, totals.tool_calls, totals.tool_runs, totals.input_tokens, totals.output_tokens)
    assert found == (1, 1, 2, 900, 12) and totals.cost_usd == 0.25
    lost = totals_of(seen_in([*entries, beside("PROMPT_FAILED", pack_payload(FAILED), reason="UNKNOWN_OUTCOME")]))
    assert lost.cost_usd is None and lost.model_calls_unknown == 1
    unsent = beside("PROMPT_FAILED", pack_payload(FAILED._replace(was_sent=False)))
    assert totals_of(seen_in([*entries, beside("PROMPT_SENT", pack_payload(SENT)), unsent])).model_calls == 1


def test_orders_have_short_names():
    """Of a session's turn its numbers, of others what they are for."""
    assert short(WO) == "1.2.1"
    assert short("WO-CONS-abc-1") == "of the consolidation" and short("WO-DEGRADED-in-1") == "of the degraded answer"
