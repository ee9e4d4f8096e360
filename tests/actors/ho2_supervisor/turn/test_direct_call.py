"""A run that calls one tool for an operator: what it sends, records and answers, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.bus.errors import SessionFault
from hobus.bus.messages.ids import RunId, direct_order_id, held_id
from hobus.bus.messages.session import Approve, Cancel, Deny, SessionConfig
from hobus.bus.messages.work_order import WorkOrder, WorkOrderError
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, one_tool
from tests.rig import names

CALLS = SessionConfig(calls_tool="list_tools")
HELD = held_id("001", "list_tools", {}, "1.1")


def called(rig: Rig, text: str = '{"n": 1}', input_id: str = "i1", wanted: SessionConfig = CALLS) -> Any:
    """A first run in a new session."""

    async def run() -> Any:
        await rig.start_session()
        return await rig.turn(input_id, text, run_overrides=wanted)

    return rig.run(run())


def test_the_call_is_the_only_order_of_its_run_and_no_model_is_asked() -> None:
    """Its output is the answer, its arguments the message; it is in the journal like any call, under a known id."""
    with Rig(script=one_tool) as rig:
        result = called(rig)
        assert (result.outcome, result.response) == ("success", "result of list_tools")
        assert [(one.tool_id, one.status, one.code) for one in result.tool_calls] == [("list_tools", "Succeeded", "")]
        (order,) = rig.pool.orders
        assert order.wo_id == direct_order_id(RunId(session_id=SESSION, run_seq=1))
        assert (order.wo_type, order.tool_call.arguments, order.parent_wo_id) == ("tool_call", {"n": 1}, None)
        assert (result.cost.llm_calls, result.cost.tool_calls) == (0, 1)
        assert names(rig.run(rig.entries())) == [
            "TookOver", "SESSION_START", "RunRequested", "RunStarted", "StepStarted", "StepStarted", "ToolBatchIssued",
            "WO_DISPATCHED", "OrderEnded", "ToolReceipt", "BatchSettled", "RunCompleted", "SESSION_END",
        ]  # fmt: skip
        assert names(rig.run(rig.entries("ho2m"))) == ["WO_CHAIN_COMPLETE", "WO_QUALITY_GATE"]


def test_the_same_input_gets_the_same_answer_and_another_tool_a_conflict() -> None:
    """It never runs twice."""
    with Rig(script=one_tool) as rig:
        first = called(rig)
        assert rig.run(rig.turn("i1", '{"n": 1}', run_overrides=CALLS)) == first
        with pytest.raises(SessionFault) as conflict:
            rig.run(rig.turn("i1", '{"n": 1}', run_overrides=SessionConfig(calls_tool="list_packages")))
        assert conflict.value.code == "input_conflict"
        assert len(rig.pool.orders) == 1


def test_a_failed_call_is_an_answer_that_says_so() -> None:
    """The run has done what it was asked for; its code stands with the call."""

    def fails(order: WorkOrder) -> Answer:
        return WorkOrderError(code="tool_failed", message="the tool broke: KeyError")

    with Rig(script=fails) as rig:
        result = called(rig)
        assert (result.outcome, result.response) == ("success", "error tool_failed: the tool broke: KeyError")
        assert [(one.status, one.code) for one in result.tool_calls] == [("Failed", "tool_failed")]


def test_a_call_that_needs_an_approval_waits_for_it() -> None:
    """As a model's call does."""
    with Rig(("tools.approval", ("list_*",)), script=one_tool) as rig:

        async def run() -> Any:
            await rig.start_session()
            asked = rig.world.loop.create_task(rig.turn("i1", "{}", run_overrides=CALLS))
            await rig.until(lambda view: view.lifecycle == "WaitingInput")
            assert rig.pool.orders == []
            await rig.command(Approve(call_id=HELD))
            reply = await rig.asked("i1", "{}", run_overrides=CALLS)
            asked.cancel()
            return reply.result

        assert rig.run(run()).response == "result of list_tools"
        assert len(rig.pool.orders) == 1


def test_its_session_ends_with_it_whoever_still_waits() -> None:
    """The caller is gone before an operator decides; denied, cancelled or run: nobody else would end the session."""
    for said, end in (
        (Approve(call_id=HELD), "RunCompleted"),
        (Deny(call_id=HELD), "RunCompleted"),
        (Cancel(), "RunCancelled"),
    ):
        with Rig(("tools.approval", ("list_*",)), script=one_tool) as rig:

            async def run(rig: Rig = rig, said: Any = said) -> Any:
                await rig.start_session()
                asked = rig.world.loop.create_task(rig.turn("i1", "{}", run_overrides=CALLS))
                await rig.until(lambda view: view.lifecycle == "WaitingInput")
                asked.cancel()
                await rig.command(said)
                await rig.until(lambda view: view.status == "closed")

            rig.run(run())
            assert names(rig.run(rig.entries()))[-2:] == [end, "SESSION_END"]


def test_a_session_that_goes_on_does_not_end_with_a_call() -> None:
    """Neither one that began otherwise, nor one with a message that waits for its turn."""
    with Rig(script=one_tool) as rig:

        async def run() -> None:
            await rig.start_session()
            await rig.turn("i0", "hello")
            await rig.turn("i1", "{}", run_overrides=CALLS)
            await rig.turn("i2", "hello")

        rig.run(run())
        assert "SESSION_END" not in names(rig.run(rig.entries()))


def test_nobody_is_asked_to_approve_a_call_that_its_agent_may_not_make() -> None:
    """It goes on its way at once, and ends as refused, or as a tool that no worker here has."""
    with Rig(("tools.approval", ("write_*",)), script=one_tool) as rig:
        result = called(rig, "{}", wanted=SessionConfig(calls_tool="write_note"))
        assert [(one.tool_id, one.code) for one in result.tool_calls] == [("write_note", "tool_not_found")]
        assert "LifecycleChanged" not in names(rig.run(rig.entries()))


@pytest.mark.parametrize("text", ["[1]", "hello", "{", "{}" * 2, "[" * 1000])
def test_a_message_that_is_no_object_is_refused(text: str) -> None:
    """Before anything stands."""
    with Rig(script=one_tool) as rig:
        with pytest.raises(SessionFault, match="one JSON object") as refused:
            called(rig, text)
        assert refused.value.code == "invalid_input"
        assert "RunRequested" not in names(rig.run(rig.entries()))


def test_no_session_calls_a_tool_with_each_of_its_messages() -> None:
    """It is a setting of one run."""
    with Rig(script=one_tool) as rig, pytest.raises(SessionFault, match="of one run alone"):
        rig.run(rig.start_session(session_config=CALLS))


def test_clients_of_the_http_door_call_no_tool() -> None:
    """They talk to agents; an operator is on the machine. The host says who waits."""
    with Rig(script=one_tool) as rig:
        rig.run(rig.start_session())
        with pytest.raises(SessionFault, match="only an operator"):
            rig.run(rig.turn("i1", "{}", run_overrides=CALLS, client="http/1@a"))
        assert rig.run(rig.turn("i1", "{}", run_overrides=CALLS, client="door/7@a")).outcome == "success"
