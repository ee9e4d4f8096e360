"""What a refused append means to its owner, and that nothing of a fenced owner reaches the other streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hobus.actors.ho2_supervisor.ownership.owner import AppendRefused, EntryRefused, make_refusal
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.limits import BODY_MAX_BYTES
from hobus.bus.messages.ledger import Ack, Entry, Provenance, WriteEntry, name_session_stream
from hobus.bus.messages.work_order import OutputResult, Segment, WorkOrder
from hobus.bus.record.journal import read_event
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, classified, degraded_entry, question_and_answer
from tests.rig import names


async def failure(turn: Any) -> RuntimeFault:
    """The fault that a request gets."""
    with pytest.raises(RuntimeFault) as caught:
        await turn
    return caught.value


def appended(event_type: str = "RunStarted", *, tenure: int = 1) -> WriteEntry:
    """A conditional entry after entry `before`."""
    return WriteEntry(
        submission_id="mine", stream=name_session_stream(SESSION), event_type=event_type, at_us=1, bodies=[b""],
        provenance=Provenance(), prev="before", tenure=tenure,
    )  # fmt: skip


def refused(code: str, *, head: str = "before", tenure: int = 1) -> Ack:
    """What the ledger says of `mine`."""
    return Ack(outcome="refused", sequence=-1, submission_id="mine", code=code, head=head, tenure=tenure)


@pytest.mark.parametrize(
    "ack",
    [
        refused("head_mismatch", head="other"),
        refused("tenure_mismatch", tenure=2),
        refused("conflict", head="mine"),  # another owner derived the same id first
        refused("conflict", tenure=2),
        Ack(outcome="lost", sequence=3, submission_id="theirs"),
    ],
)
def test_stream_that_went_on_means_to_read_it_again(ack: Ack) -> None:
    """A head, a tenure or a once key that another writer changed: the session has moved."""
    assert isinstance(make_refusal(ack, appended()), AppendRefused)


@pytest.mark.parametrize("code", ["too_large", "invalid", "conflict"])
def test_stream_that_stands_still_means_that_the_entry_is_at_fault(code: str) -> None:
    """Reading again changes nothing: a fault that no retry fixes, under a code that the host takes for no verdict."""
    fault = make_refusal(refused(code), appended())
    assert isinstance(fault, EntryRefused)
    assert (fault.code, fault.retryable) == ("execution_error", False)
    assert "mine" in fault.detail
    assert code in fault.detail


def test_first_of_two_that_take_over_moves_the_other() -> None:
    """Both derive one id from one tenure; the loser meets its own id with other content under a head that moved."""
    ack = refused("conflict", head="TookOver", tenure=2)
    assert isinstance(make_refusal(ack, appended("TookOver", tenure=2)), AppendRefused)
    assert isinstance(make_refusal(refused("conflict"), appended("TookOver", tenure=2)), EntryRefused)


def test_answer_that_the_record_does_not_take_fails_the_run_once() -> None:
    """RunCompleted is too large: RunFailed stands instead, the requester gets one final no, and the session goes on."""

    def script(order: WorkOrder) -> Answer:
        is_big = order.wo_type == "synthesize" and any(part.text == "much" for part in order.input_context)
        return "x" * 12_000 if is_big else question_and_answer(order)

    with Rig(("ledger.bodies_max_bytes", 20_000), script=script) as rig:
        rig.run(rig.start_session())
        fault = rig.run(failure(rig.turn("i1", "much")))
        assert (fault.code, fault.retryable) == ("execution_error", False)
        journal = rig.run(rig.entries())
        assert names(journal)[-1] == "RunFailed"
        assert names(journal).count("TookOver") == 1
        assert read_event(journal[-1]).event.code == "execution_error"
        assert b"too_large" in (journal[-1].bodies[1] or b"")
        assert rig.run(rig.entries("ho2m")) == []
        assert rig.run(failure(rig.turn("i1", "much"))).code == "execution_error"
        assert len(rig.run(rig.entries())) == len(journal)
        assert rig.run(rig.turn("i2", "little")).response == "answer to little"


def test_input_that_the_record_does_not_take_leaves_no_run() -> None:
    """RunRequested itself is refused: there is no run to fail, and the session takes the next input."""
    with Rig(("ledger.bodies_max_bytes", 20_000)) as rig:
        rig.run(rig.start_session())
        fault = rig.run(failure(rig.turn("i1", "x" * 30_000)))
        assert (fault.code, fault.retryable) == ("execution_error", False)
        assert names(rig.run(rig.entries())) == ["TookOver", "SESSION_START"]
        assert rig.run(rig.turn("i2", "hello")).response == "answer to hello"


def test_write_that_the_bus_does_not_take_fails_the_run_once() -> None:
    """A frame over the bus's limit never reaches the ledger: the run fails as with a refused entry, and is told."""

    def script(order: WorkOrder) -> Answer:
        is_big = order.wo_type == "synthesize" and any(part.text == "much" for part in order.input_context)
        return "x" * (BODY_MAX_BYTES // 2) if is_big else question_and_answer(order)

    with Rig(script=script) as rig:
        rig.run(rig.start_session())
        fault = rig.run(failure(rig.turn("i1", "much")))
        assert (fault.code, fault.retryable) == ("execution_error", False)
        assert names(rig.run(rig.entries()))[-1] == "RunFailed"
        assert rig.run(rig.turn("i2", "little")).response == "answer to little"


def test_body_that_is_missing_is_no_unknown_session() -> None:
    """A rejected answer names a body that never committed: the successor fails the run, and not with `not_found`."""
    rejected = OutputResult(text=Segment(text="gone", ref="PROMPT_RECEIVED:never/1"))

    def script(order: WorkOrder) -> Answer:
        return question_and_answer(order) if order.wo_type == "classify" else rejected

    with Rig(("quality_gate.min_response_length", 10), script=script) as rig:
        rig.pool.delay_s = lambda order: 60.0 if "-1.3." in order.wo_id else 0.0
        rig.run(rig.start_session())

        async def cut() -> None:
            turn = asyncio.ensure_future(rig.turn("i1", "hello", timeout_s=20.0))
            await rig.host.sleep(0.5)
            rig.world.kill(rig.instances[0])
            rig.supervise()
            await failure(turn)

        rig.run(cut())
        last = rig.run(rig.entries())[-1]
        assert last.event_type == "RunFailed"
        assert read_event(last).event.code == "execution_error"
        assert rig.run(failure(rig.turn("i1", "hello"))).code == "execution_error"


ESCALATED = (("quality_gate.min_response_length", 100), ("quality_gate.max_retries", 0))
"""Of every answer the record says beside its journal why it is not good enough."""


def late(rig: Rig, stream: str) -> list[Entry]:
    """HO2's entries in a stream after the host has answered in the middle of a turn, two seconds before its order ends."""
    rig.pool.delay_s = lambda order: 2.0 if order.wo_type == "synthesize" else 0.0

    async def run() -> None:
        await rig.start_session()
        turn = asyncio.ensure_future(rig.turn("i1", "hello"))
        await rig.host.sleep(0.5)
        await rig.write(degraded_entry("i1", "hello", "bare reply"))
        await asyncio.gather(turn, return_exceptions=True)
        await rig.host.sleep(1)

    rig.run(run())
    assert names(rig.run(rig.entries()))[-1] == "TurnDegraded"
    return [entry for entry in rig.run(rig.entries(stream)) if entry.origin.startswith("ho2")]


def test_run_that_was_too_late_explains_no_answer() -> None:
    """RunCompleted is refused: nothing in the record says why an answer is bad that nobody got."""
    with Rig(*ESCALATED) as rig:
        assert late(rig, "ho2m") == []
        rig.pool.delay_s = lambda _: 0.0
        rig.run(rig.turn("i2", "next"))
        rig.run(rig.host.sleep(1))
        assert names(rig.run(rig.entries("ho2m"))) == ["ESCALATION"]


def test_order_of_a_run_that_is_no_longer_ours_is_not_failed() -> None:
    """OrderEnded is refused: WO_FAILED must not take the order's end from the worker that may still bring it."""

    def script(order: WorkOrder) -> Answer:
        return classified() if order.wo_type == "classify" else BusError("internal", "broken")

    with Rig(script=script) as rig:
        assert late(rig, "ho1m") == []
        rig.pool.delay_s = lambda _: 0.0
        rig.run(failure(rig.turn("i2", "next")))
        rig.run(rig.host.sleep(1))
        assert names(rig.run(rig.entries("ho1m"))) == ["WO_FAILED"]


def test_answer_stands_together_with_what_explains_it() -> None:
    """Whoever dies when the reply is out, the ledger and the supervisor at once, leaves the reason."""
    with Rig(*ESCALATED) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", "hello"))
        rig.world.kill(rig.instances[0])
        rig.kill_ledger()
        rig.start_ledger()
        explained = rig.run(rig.entries("ho2m"))
        completed = rig.run(rig.entries())[-1]
        assert (completed.event_type, names(explained)) == ("RunCompleted", ["ESCALATION"])
        assert [entry.sequence - completed.sequence for entry in explained] == [1]
