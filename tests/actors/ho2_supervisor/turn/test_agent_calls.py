"""An agent that is another's tool: whose turn that is, what becomes of it, and that nothing of it is done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from hobus.actors.ho2_supervisor.limits import CALLED_TIME_SHARE
from hobus.bus.messages.ids import derive_called_session, parse_iso
from hobus.bus.messages.ledger import name_session_stream
from hobus.bus.messages.session import Cancel, ReadSession, SessionView
from hobus.bus.messages.work_order import LEARNED, ToolCall, WorkOrder, WorkOrderError
from hobus.bus.record.journal import read_recorded
from tests.actors.ho2_supervisor.remembering import Remembering, bias
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, snapshot
from tests.rig import names, of_type

pytestmark = pytest.mark.slow

FIRST = snapshot().agents["ADMIN"]


def having(*tools: str) -> dict[str, Any]:
    """An agent with these tools."""
    return {"tools": tools, "permissions": FIRST.permissions.model_copy(update={"tools": tools})}


def asks(*given: dict[str, Any]) -> list[ToolCall]:
    """Calls of the agent DESK with these arguments."""
    return [ToolCall(call_id=f"{n:03d}", tool_id="DESK", arguments=one) for n, one in enumerate(given, 1)]


def script(desk: Callable[[WorkOrder], Answer], *given: dict[str, Any]) -> Callable[[WorkOrder], Answer]:
    """CLERK asks DESK, and tells what it has heard."""

    def answer(order: WorkOrder) -> Answer:
        if order.agent_id == "DESK":
            return desk(order)
        if not order.exchanges:
            return asks(*given or ({"text": "two rooms"},))
        return "heard: " + "; ".join(segment.text for segment in order.exchanges[-1].results)

    return answer


def rig_of(desk: Callable[[WorkOrder], Answer], *given: dict[str, Any], changes: Any = (), **desk_has: Any) -> Rig:
    """A cluster with both."""
    others = {"CLERK": having("DESK"), "DESK": having() | desk_has}
    return Rig(("ho2.classify", False), *changes, script=script(desk, *given), others=others)


async def asked(rig: Rig, **fields: Any) -> Any:
    """What CLERK answers in its first turn."""
    await rig.start_session(agent_id="CLERK")
    return await rig.turn("i1", "book", **fields)


def call_of(rig: Rig, number: int = 1) -> str:
    """The order of that call of the first turn."""
    return f"WO-{SESSION}-1.1.2.{number:03d}"


def test_a_call_is_a_turn_of_a_session_of_its_own() -> None:
    """Its text is the message, its answer the tool's result; both records name each other, and what it cost is added."""
    with rig_of(lambda order: f"booked {order.input_context[-1].text}") as rig:
        result = rig.run(asked(rig))
        assert (result.response, result.cost.llm_calls, result.cost.total_tokens) == ("heard: booked two rooms", 3, 330)
        assert [(one.tool_id, one.status) for one in result.tool_calls] == [("DESK", "Succeeded")]
        inner = derive_called_session(call_of(rig))
        journal = rig.run(rig.entries(name_session_stream(inner)))
        assert "RunCompleted" in names(journal) and names(journal)[-1] == "SESSION_END"
        event: Any = read_recorded(of_type(journal, "RunRequested")[0])
        requested = event.event.event
        assert (requested.called_by, requested.input_id) == (call_of(rig), call_of(rig))
        ends = of_type(rig.run(rig.entries("ho1m")), "WO_COMPLETED")
        assert [one.provenance.work_order_id for one in ends if one.origin.startswith("ho2/")] == [call_of(rig)]
        assert Counter(order.agent_id for order in rig.pool.orders) == {"CLERK": 2, "DESK": 1}


def test_it_has_a_share_of_its_callers_time_and_tokens() -> None:
    """What the caller has left is divided among the calls that it makes at once."""
    with rig_of(lambda _: "yes", {"text": "one"}, {"text": "two"}) as rig:
        rig.run(asked(rig, timeout_s=20.0))
        budget = rig.snapshot.agents["CLERK"].budget_tokens("synthesize", rig.snapshot.config.budget)
        given = [order for order in rig.pool.orders if order.agent_id == "DESK"]
        assert [order.constraints.token_budget for order in given] == [(budget - 110) // 2] * 2
        for number in (1, 2):
            journal = rig.run(rig.entries(name_session_stream(derive_called_session(call_of(rig, number)))))
            event: Any = read_recorded(of_type(journal, "RunRequested")[0])
            said = event.event.event
            assert parse_iso(said.deadline_at) - parse_iso(said.at) < 20.0 * CALLED_TIME_SHARE
        assert {order.wo_type for order in rig.pool.orders} == {"synthesize"}


def test_its_orders_name_the_sessions_that_pay_with_it() -> None:
    """The nearest caller first: its budgets are those of all who called, whichever of them is asked."""

    def answer(order: WorkOrder) -> Answer:
        if order.agent_id == "ROOMS" or order.exchanges:
            return "yes"
        called = {"CLERK": "DESK", "DESK": "ROOMS"}[order.agent_id]
        return [ToolCall(call_id="001", tool_id=called, arguments={"text": "book"})]

    others = {"CLERK": having("DESK"), "DESK": having("ROOMS"), "ROOMS": having()}
    with Rig(("ho2.classify", False), script=answer, others=others) as rig:
        rig.run(asked(rig))
        desk = derive_called_session(call_of(rig))
        rooms = [[(one.session_id, one.agent_id) for one in order.constraints.callers] for order in rig.pool.orders]
        outer, nearer = (SESSION, "CLERK"), (desk, "DESK")
        assert sorted(rooms, key=len) == [[], [], [outer], [outer], [nearer, outer]]


@pytest.mark.parametrize("has_memory", [True, False])
def test_it_is_shown_what_it_knows_of_its_callers_principal_and_learns_nothing(has_memory: bool) -> None:
    """As its own `memory` says. What a model says to it is no person's habit, whatever becomes of the call."""

    def desk(order: WorkOrder) -> Answer:
        if order.input_context[-1].text == "break":
            return WorkOrderError(code="execution_error", message="broke")
        return "shown " + "".join(segment.text for segment in order.input_context if segment.name == LEARNED)

    async def story(rig: Rig, memory: Remembering) -> Any:
        rig.world.start(memory, role="ho3")
        await rig.world.settled()
        result = await asked(rig)
        await rig.host.sleep(5)
        return result

    given, memory = ({"text": "book"}, {"text": "break"}), Remembering([bias("ART-1", scope="global")])
    changes = (("ho3.enabled", True),)
    with rig_of(desk, *given, changes=changes, memory=has_memory) as rig:
        result = rig.run(story(rig, memory))
        shown = "shown line of ART-1" if has_memory else "shown ;"
        assert shown in result.response, result.response
        reads = [(one.agent_id, one.principal) for one in memory.reads if one.agent_id == "DESK"]
        assert set(reads) == ({("DESK", "local")} if has_memory else set())
        assert {one.agent_id for one in memory.logs} == {"CLERK"}


def test_an_agent_with_an_output_gives_its_caller_an_object() -> None:
    """As its schema says, which its own model is asked to keep."""
    schema = {"type": "object", "properties": {"room": {"type": "integer"}}, "required": ["room"]}
    with rig_of(lambda _: '{"room": 7}', output_schema=schema) as rig:
        assert rig.run(asked(rig)).response == 'heard: {"room": 7}'
        forms = {order.agent_id: order.constraints.output_schema for order in rig.pool.orders}
        assert forms == {"CLERK": None, "DESK": schema}


@pytest.mark.parametrize(
    ("desk", "given", "said"),
    [
        (lambda _: WorkOrderError(code="BUDGET_EXHAUSTED", message="spent"), {"text": "x"}, "BUDGET_EXHAUSTED"),
        (lambda _: WorkOrderError(code="execution_error", message="broke"), {"text": "x"}, "execution_error: broke"),
        (lambda _: "yes", {"text": " "}, "error tool_invalid_args: agent DESK was not asked: takes one argument"),
        (lambda _: "yes", {"text": 3}, "error tool_invalid_args: agent DESK"),
        (lambda _: "yes", {"text": "x", "more": 1}, "error tool_invalid_args: agent DESK"),
        (lambda _: None, {"text": "x"}, "error deadline_exceeded: agent DESK"),
    ],
)
def test_what_is_no_answer_is_told_in_a_sentence_and_the_turn_goes_on(
    desk: Callable[[WorkOrder], Answer], given: dict[str, Any], said: str
) -> None:
    """Also where the called agent has used all of its time."""
    with rig_of(desk, given) as rig:
        result = rig.run(asked(rig))
        assert result.outcome == "success" and said in result.response, result.response


def test_a_call_that_waits_for_an_approval_there_is_ended() -> None:
    """Which a wildcard may bring about; the model is told, and nothing of it stays open."""

    def desk(_: WorkOrder) -> Answer:
        return [ToolCall(call_id="001", tool_id="list_tools", arguments={})]

    approval = (("tools.approval", ("list_tools",)),)
    with rig_of(desk, changes=approval, **having("*")) as rig:
        result = rig.run(asked(rig))
        assert "waits for an approval, for which nobody is asked here" in result.response
        journal = rig.run(rig.entries(name_session_stream(derive_called_session(call_of(rig)))))
        assert "RunCancelled" in names(journal) and names(journal)[-1] == "SESSION_END"


def test_whoever_cancels_the_turn_cancels_what_it_called() -> None:
    """Its session is over when the turn is."""

    async def story(rig: Rig) -> Any:
        await rig.start_session(agent_id="CLERK")
        turn = asyncio.get_running_loop().create_task(rig.turn("i1", "book"))
        while not any(order.agent_id == "DESK" for order in rig.pool.orders):
            await rig.host.sleep(0.01)
        await rig.command(Cancel())
        return await turn

    with rig_of(lambda _: None) as rig:
        assert rig.run(story(rig)).code == "cancelled"
        view = rig.run(rig.ask(ReadSession(session_id=derive_called_session(call_of(rig))), SessionView))
        assert (view.status, view.lifecycle) == ("closed", "Idle")
        journal = rig.run(rig.entries(name_session_stream(derive_called_session(call_of(rig)))))
        assert "RunCancelled" in names(journal) and names(journal)[-1] == "SESSION_END"


@pytest.mark.parametrize("when", ["asked", "answered"])
def test_a_supervisor_that_is_killed_costs_no_second_question(when: str) -> None:
    """Its successor joins the turn of the called agent, or reads its answer from the record."""

    async def story(rig: Rig) -> Any:
        await rig.start_session(agent_id="CLERK")
        turn = asyncio.get_running_loop().create_task(rig.turn("i1", "book"))
        stream = name_session_stream(derive_called_session(call_of(rig)))
        while not (
            any(order.agent_id == "DESK" for order in rig.pool.orders)
            if when == "asked"
            else of_type(await rig.entries(stream, rests_s=0.0), "RunCompleted")
        ):
            await rig.host.sleep(0.001)
        rig.supervise()
        rig.world.kill(rig.instances[0])
        return await turn

    with rig_of(lambda _: "booked") as rig:
        rig.pool.delay_s = lambda order: 1.0 if order.agent_id == "DESK" else 0.0
        result = rig.run(story(rig))
        assert result.response == "heard: booked"
        executed = Counter(rig.pool.executed)
        assert len(executed) == 3 and set(executed.values()) == {1}
        assert len({order.session_id for order in rig.pool.orders if order.agent_id == "DESK"}) == 1
