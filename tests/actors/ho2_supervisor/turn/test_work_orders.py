"""Work orders: validation in words, their dispatch, texts stored once."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.actors.ho2_supervisor.turn import work_orders
from hobus.actors.ho2_supervisor.turn.order_codec import (
    blank_order,
    blank_receipt,
    expand_order,
    expand_receipt,
    list_order_refs,
)
from hobus.actors.ho2_supervisor.turn.work_orders import OrderContext, find_faults, prepare_dispatch
from hobus.bus.errors import WorkOrderFault
from hobus.bus.messages.base import pack
from hobus.bus.messages.ids import RunId, StepId, TurnId
from hobus.bus.messages.session import RunConfig, SessionConfig
from hobus.bus.messages.work_order import (
    Exchange,
    Fence,
    OutputResult,
    Receipt,
    Segment,
    ToolCall,
    WorkOrder,
)
from tests.actors.ho2_supervisor.journals import SESSION, at
from tests.actors.ho2_supervisor.rig import Rig, receipt_of, snapshot

RUN = RunId(session_id=SESSION, run_seq=3)
STEP = StepId(turn_id=TurnId(run_id=RUN, turn_seq=2), step_seq=1)
CONTEXT = OrderContext(
    step_id=STEP, fence=Fence(run_id=RUN, session_epoch=1, step_epoch=4), agent=snapshot().agents["ADMIN"],
    package_id="PKG-X", config_digest="sha256:0", planned_at=at(), budget_mode="warn",
)  # fmt: skip
LONG = "a text that is longer than any ref into the record could possibly be, " * 3


def synthesized(**changes: Any) -> WorkOrder:
    """A sound synthesize order, with some fields changed."""
    order = work_orders.synthesize(
        CONTEXT,
        inputs=[Segment(name="system", text=LONG), Segment(name="user_input", ref="r/1", text="hello")],
        exchanges=[],
        run_config=RunConfig(provider="p", model="m"),
        token_budget=100,
        timeout_seconds=5.0,
        criteria={"requires_response_text": True},
        parent_wo_id=None,
    )
    return order.model_copy(update=changes)


def tool_order(**changes: Any) -> WorkOrder:
    """A sound tool_call order."""
    call = ToolCall(call_id="001", tool_id="list_tools", arguments={})
    order = work_orders.make_tool_call(CONTEXT, call, token_budget=1, timeout_seconds=1.0, parent_wo_id="WO-x")
    return order.model_copy(update=changes)


def limits(order: WorkOrder, **changes: Any) -> dict[str, Any]:
    """The order's constraints with some fields changed."""
    return {"constraints": order.constraints.model_copy(update=changes)}


def test_sound_orders_have_no_fault() -> None:
    """What the builders make may be dispatched."""
    assert find_faults(synthesized(), ()) == []
    assert find_faults(tool_order(), {"WO-x"}) == []
    classify = work_orders.classify(CONTEXT, inputs=[], token_budget=1, timeout_seconds=0.1)
    assert find_faults(classify, ()) == []


def test_ids_are_derived_from_the_step_and_the_call() -> None:
    """The same step always makes the same id."""
    assert synthesized().wo_id == f"WO-{SESSION}-3.2.1"
    assert tool_order().wo_id == f"WO-{SESSION}-3.2.1.001"


@pytest.mark.parametrize(
    ("order", "fault"),
    [
        (synthesized(**limits(synthesized(), prompt_contract_id="")), "no prompt_contract_id"),
        (synthesized(**limits(synthesized(), token_budget=0)), "token_budget is 0"),
        (synthesized(**limits(synthesized(), timeout_seconds=-1.0)), "timeout_seconds is -1.0"),
        (tool_order(**limits(tool_order(), tools_allowed=[])), "allows no tools"),
        (tool_order(parent_wo_id="WO-y"), "parent WO-y is not completed"),
    ],
)
def test_each_fault_is_named_alone(order: WorkOrder, fault: str) -> None:
    """One thing wrong gives one sentence that says what."""
    found = find_faults(order, {"WO-x"})
    assert len(found) == 1
    assert fault in found[0]


def test_every_fault_is_named_at_once() -> None:
    """Whoever fixes an order is told everything, not the first thing."""
    order = synthesized(parent_wo_id="WO-y")
    order = order.model_copy(update=limits(order, prompt_contract_id="", token_budget=0, timeout_seconds=0.0))
    assert len(find_faults(order, ())) == 4


def test_a_planned_order_is_sent_once() -> None:
    """It becomes dispatched, and nothing else of it changes; one that was sent is not sent anew."""
    order = synthesized().model_copy(update={"input_context": []})
    sent, _ = prepare_dispatch(order, "WO_DISPATCHED:x", {})
    assert sent == order.model_copy(update={"state": "dispatched"}) and order.state == "planned"
    with pytest.raises(WorkOrderFault) as caught:
        prepare_dispatch(sent, "WO_DISPATCHED:x", {})
    assert caught.value.code == "rejected"


def test_long_texts_get_refs_into_their_own_entry_and_short_ones_stay() -> None:
    """Bodies lie in the order of the refs; what has a ref already, and what is shorter than one, is left alone."""
    order, brought = prepare_dispatch(synthesized(), "WO_DISPATCHED:x", {})
    assert brought == {LONG: "WO_DISPATCHED:x/1"}
    assert [segment.ref for segment in order.input_context] == ["WO_DISPATCHED:x/1", "r/1"]
    assert [segment.text for segment in order.input_context] == [LONG, "hello"]


def test_text_of_an_earlier_order_is_not_brought_again() -> None:
    """The next round names the system prompt where the first one put it."""
    order, brought = prepare_dispatch(synthesized(), "WO_DISPATCHED:y", {LONG: "WO_DISPATCHED:x/1"})
    assert brought == {}
    assert order.input_context[0].ref == "WO_DISPATCHED:x/1"


def test_recorded_order_expands_to_the_same_bytes() -> None:
    """Blank where a ref stands, the rest in words; with its texts back it is the order that was sent."""
    exchange = Exchange(
        tool_calls=[ToolCall(call_id="001", tool_id="t", arguments={"ref": "x", "name": "n", "text": "kept"})],
        results=[Segment(name="001", ref="r/2", text="outcome"), Segment(name="002", text="short")],
        text=Segment(ref="r/3", text="thinking"),
    )
    order, _ = prepare_dispatch(synthesized(exchanges=[exchange]), "WO_DISPATCHED:x", {})
    form = blank_order(order)
    for text in (LONG, "hello", "outcome", "thinking"):
        assert text not in str(form)
    assert "kept" in str(form)
    assert "short" in str(form)
    texts = {"WO_DISPATCHED:x/1": LONG, "r/1": "hello", "r/2": "outcome", "r/3": "thinking"}
    recorded = WorkOrder.model_validate(form)
    assert list_order_refs(recorded) == ("WO_DISPATCHED:x/1", "r/1", "r/3", "r/2")
    assert pack(expand_order(recorded, texts).model_dump()) == pack(order.model_dump())


def test_recorded_receipt_expands_to_the_same_bytes() -> None:
    """A receipt's text by its ref, one without a ref as it is, and a failed one."""
    by_ref = receipt_of(synthesized(), OutputResult(text=Segment(ref="r/9", text="said")), at())
    plain = receipt_of(synthesized(), "said", at())
    failed = plain.model_copy(update={"state": "failed", "output_result": None})
    assert "said" not in str(blank_receipt(by_ref))
    for receipt in (by_ref, plain, failed):
        recorded = Receipt.model_validate(blank_receipt(receipt))
        assert pack(expand_receipt(recorded, {"r/9": "said"}).model_dump()) == pack(receipt.model_dump())


def test_an_agent_s_form_is_that_of_its_answers_unless_somebody_asks_for_another() -> None:
    """A request goes first; a client's errand is answered in words."""
    own, asked_for = ({"type": "object", "properties": {name: {"type": "string"}}} for name in ("own", "other"))
    agent = {"output_schema": own, "errands": ("### Task:",)}
    with Rig(agent=agent) as rig:
        rig.run(rig.start_session())
        for number, (text, wanted) in enumerate([("a", None), ("b", asked_for), ("### Task: title", None)], start=1):
            overrides = wanted and SessionConfig(output_schema=wanted)
            rig.run(rig.turn(f"i{number}", text, run_overrides=overrides))
        told = [one.constraints.output_schema for one in rig.pool.orders if one.wo_type == "synthesize"]
        assert told == [own, asked_for, None]
