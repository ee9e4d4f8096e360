"""Receipts and their entries."""

from __future__ import annotations

from typing import Any

import pytest

from bench.builders import SESSION, WO, order
from hobus.actors.ho1_executor.receipts import (
    OrderUsage,
    Stamp,
    ToolSaid,
    end_entry,
    get_provenance,
    make_completed,
    make_failed,
    read_order_end,
)
from hobus.bus.errors import WorkOrderFault
from hobus.bus.messages.base import pack
from hobus.bus.messages.ledger import Entry, WriteEntry
from hobus.bus.messages.work_order import OutputResult, Segment, ToolCall
from hobus.bus.record.payloads.orders import read_receipt, read_said
from tests.actors.ho1_executor.rig import answer

HERE = Stamp(instance="ho1/1@a", now=1_700_000_000.25, monotonic=10.5, trace="t")
TEXT_REF = f"WO_COMPLETED:{WO}/ho1/1@a/1"


def stored(written: WriteEntry, **changed: Any) -> Entry:
    """The entry as the ledger gives it back."""
    fields: dict[str, Any] = written._asdict()
    fields |= {
        "sequence": 7, "origin": "ho1/1@a", "ledger_at_us": 0, "body_hashes": [], "body_lengths": [], "chain": b"",
        "provenance": written.provenance,
    }  # fmt: skip
    return Entry(**{**fields, **changed})


def test_a_new_text_is_stored_and_named_by_the_ref_that_it_will_have() -> None:
    """A tool's output is body 1 of its end; the receipt says so before the ack."""
    receipt = make_completed(
        order(), OutputResult(text=Segment(name="001", text="out")), OrderUsage(started=10.0), HERE
    )
    assert receipt.output_result is not None
    assert receipt.output_result.text == Segment(name="001", ref=TEXT_REF, text="out")
    entry = end_entry(order(), receipt, HERE, parents=["p"])
    assert entry.bodies[1:] == [b"out"]
    assert read_receipt(entry) == receipt.model_copy(
        update={"output_result": OutputResult(text=Segment(name="001", ref=TEXT_REF))}
    )


@pytest.mark.parametrize("output", ["out", ""])
@pytest.mark.parametrize("event_type", ["WO_COMPLETED", "WO_FAILED", "WO_LATE"])
def test_what_a_tool_told_people_stands_behind_its_end_and_in_no_receipt(event_type: str, output: str) -> None:
    """As bodies of its own, so that each can be erased; the receipt that is rebuilt is the one that was answered."""
    said = ToolSaid(printed="looked in vain\n", traceback="KeyError: 'x'")
    receipt = make_completed(order(), OutputResult(text=Segment(text=output)), OrderUsage(started=10.0), HERE)
    if event_type == "WO_FAILED":
        receipt = make_failed(order(), "tool_failed", "no", OrderUsage(started=10.0), HERE)
    entry = end_entry(order(), receipt, HERE, parents=["p"], said=said, is_late=event_type == "WO_LATE")
    assert read_said(stored(entry)) == {"printed": "looked in vain\n", "traceback": "KeyError: 'x'"}
    assert read_said(stored(entry, bodies=[*entry.bodies[:-1], None])) == {"printed": "looked in vain\n"}
    assert read_said(stored(end_entry(order(), receipt, HERE, parents=["p"]))) == {}
    if event_type != "WO_LATE":
        assert read_order_end(stored(entry), order()) == receipt


def test_a_text_with_a_ref_is_not_stored_again() -> None:
    result = OutputResult(text=Segment(name="answer", ref="PROMPT_RECEIVED:k/1/1", text="secret words"))
    entry = end_entry(order(), make_completed(order(), result, OrderUsage(started=0.0), HERE), HERE, parents=[])
    assert len(entry.bodies) == 1
    assert b"secret words" not in entry.bodies[0]


def test_an_end_has_its_ids_key_codes_and_provenance() -> None:
    receipt = make_failed(order(), "tool_failed", "it broke", OrderUsage(started=0.0), HERE)
    entry = end_entry(order(), receipt, HERE, parents=["TOOL_STARTED:x"])
    assert (entry.submission_id, entry.once) == (f"WO_FAILED:{WO}/ho1/1@a", f"end:{WO}")
    assert (entry.stream, entry.event_type, entry.decision, entry.reason) == (
        "ho1m",
        "WO_FAILED",
        "FAILED",
        "tool_failed",
    )
    assert (entry.parents, entry.trace, entry.at_us) == (["TOOL_STARTED:x"], "t", 1_700_000_000_250_000)
    assert "it broke" not in repr(entry._replace(bodies=[]))
    assert entry.provenance.session_id == SESSION


@pytest.mark.parametrize(
    ("wo_id", "round_seq"),
    [(f"WO-{SESSION}-3.4.5", 4), (f"WO-{SESSION}-3.14.5.001", 14), ("WO-CONS-abc-2", 0), ("WO-DEGRADED-a.1.b", 0)],
)
def test_the_round_is_read_off_the_order_id(wo_id: str, round_seq: int) -> None:
    """WO-<session>-<run>.<round>.<step>[.<call>]; other orders have no round."""
    made = get_provenance(order(wo_id=wo_id))
    assert (made.round_seq, made.run_seq, made.work_order_id) == (round_seq, 1, wo_id)


@pytest.mark.parametrize(
    "result",
    [
        OutputResult(text=Segment(name="001", text="out ä"), truncated=True),
        OutputResult(text=Segment(name="answer"), parsed={"z": 1, "a": [1.5]}),
        OutputResult(tool_calls=[ToolCall(call_id="001", tool_id="t", arguments={"z": 1, "a": None})]),
    ],
)
def test_a_rebuilt_receipt_has_the_same_bytes(result: OutputResult) -> None:
    receipt = make_completed(order(), result, OrderUsage(started=0.0), HERE)
    entry = stored(end_entry(order(), receipt, HERE, parents=[]))
    rebuilt = read_order_end(entry, order())
    assert rebuilt is not None
    assert pack(rebuilt.model_dump()) == pack(receipt.model_dump())


def test_a_models_answer_is_asked_for_anew() -> None:
    result = OutputResult(text=Segment(name="answer", ref="PROMPT_RECEIVED:k/1/1", text="out"))
    receipt = make_completed(order(), result, OrderUsage(started=0.0), HERE)
    assert read_order_end(stored(end_entry(order(), receipt, HERE, parents=[])), order()) is None


def test_a_failed_receipt_is_rebuilt() -> None:
    receipt = make_failed(order(), "cancelled", "the request was cancelled", OrderUsage(started=0.0), HERE)
    entry = stored(end_entry(order(), receipt, HERE, parents=[]))
    assert read_order_end(entry, order()) == receipt


def test_a_text_that_was_erased_is_said_to_be_gone() -> None:
    receipt = make_completed(order(), OutputResult(text=Segment(text="out")), OrderUsage(started=0.0), HERE)
    entry = stored(end_entry(order(), receipt, HERE, parents=[]))
    gone = entry._replace(bodies=[entry.bodies[0], None])
    with pytest.raises(WorkOrderFault):
        read_order_end(gone, order())


@pytest.mark.parametrize("bodies", [[], [None], [pack({"error": "lost"})], [b"\xc1"]])
def test_an_end_by_somebody_else_reads_as_a_failure_with_its_code(bodies: list[bytes | None]) -> None:
    """A supervisor may fail a lost order in its own words."""
    receipt = make_failed(order(), "x", "", OrderUsage(started=0.0), HERE)
    entry = stored(
        end_entry(order(), receipt, HERE, parents=[]), bodies=bodies, reason="deadline_exceeded", origin="ho2/1@b"
    )
    made = read_order_end(entry, order())
    assert (made.state, made.executed_by, made.completed_at) == ("failed", "ho2/1@b", "2023-11-14T22:13:20.250000Z")
    assert made.error is not None
    assert made.error.code == "deadline_exceeded"


def test_a_late_end_has_no_key_and_names_the_winner() -> None:
    """A losing end is kept whole, text included, beside the one that won."""
    receipt = make_completed(order(), OutputResult(text=Segment(text="out")), OrderUsage(started=0.0), HERE)
    late = end_entry(order(), receipt, HERE, parents=["WO_FAILED:w"], is_late=True)
    assert (late.event_type, late.once, late.parents) == ("WO_LATE", None, ["WO_FAILED:w"])
    assert late.bodies[1:] == [b"out"]
    assert read_order_end(stored(late), order()).output_result == receipt.output_result.model_copy(  # type: ignore[union-attr]
        update={"text": Segment(ref=f"{late.submission_id}/1", text="out")}
    )


def test_what_an_attempt_without_an_answer_cost_is_unknown() -> None:
    again, unanswered = OrderUsage(started=10.0), OrderUsage(started=10.0)
    again.add_response(answer(sent_record_id="s", received_record_id="r1", attempts=2))
    unanswered.add_unanswered()
    assert (again.cost(10.0).llm_calls, again.cost(10.0).cost_usd) == (1, None)
    assert (unanswered.cost(10.0).llm_calls, unanswered.cost(10.0).cost_usd) == (0, None)


def test_cost_is_what_reached_a_provider() -> None:
    """A rejected call is no call; an unknown price makes the sum unknown, not smaller."""
    tally = OrderUsage(started=10.0)
    tally.add_response(answer(sent_record_id="s", received_record_id="r1"))
    tally.add_response(answer(outcome="REJECTED", input_tokens=0, output_tokens=0, cost_usd=None))
    assert (tally.cost(10.25).llm_calls, tally.cost(10.25).cost_usd, tally.cost(10.25).elapsed_ms) == (1, 0.001, 250)
    tally.add_response(answer(outcome="ERROR", sent_record_id="s2", output_tokens=0, cost_usd=None))
    tally.add_response(answer(received_record_id="r2"))
    cost = tally.cost(9.0)
    assert (cost.llm_calls, cost.total_tokens, cost.cost_usd, cost.elapsed_ms) == (3, 320, None, 0)
    assert tally.received_ids == ["r1", "r2"]
