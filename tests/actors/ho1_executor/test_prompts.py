"""From inputs and tool rounds to a transcript."""

from __future__ import annotations

import pytest

from bench.builders import order, shipped_snapshot
from hobus.actors.ho1_executor.prompts import list_offered_tools, load_pack, make_own_inputs, render
from hobus.actors.ho1_executor.tools.definition import SERVER_SAYS, ToolDefinition
from hobus.bus.errors import WorkOrderFault
from hobus.bus.messages.work_order import Exchange, Segment, ToolCall

PACKS = {"PRM-A-001": "[[user]]\n{{ user_input }}", "PRM-B-001": "no section"}
INPUTS = {"user_input": [Segment(text="q")]}
CALLS = [ToolCall(call_id=f"00{n}", tool_id="t", arguments={}) for n in (1, 2)]


def test_an_unknown_pack_is_prompt_pack_not_found() -> None:
    with pytest.raises(WorkOrderFault) as caught:
        load_pack(PACKS, "PRM-X-001")
    assert (caught.value.code, caught.value.detail) == (
        "prompt_pack_not_found",
        "no prompt pack PRM-X-001; known: PRM-A-001, PRM-B-001",
    )


def test_a_pack_that_is_none_fails_its_order_and_not_the_worker() -> None:
    """A governed file can be broken; that is data."""
    with pytest.raises(WorkOrderFault) as caught:
        load_pack(PACKS, "PRM-B-001")
    assert caught.value.code == "contract_schema_invalid"


def test_tool_rounds_follow_as_the_model_saw_them() -> None:
    results = [Segment(name="001", ref="WO_COMPLETED:w/i/1", text="one"), Segment(name="002", text="two")]
    rounds = [Exchange(tool_calls=CALLS, results=results, text=Segment(text="let me see"))]
    messages = render(load_pack(PACKS, "PRM-A-001"), INPUTS, order(exchanges=rounds))
    assert [(m.role, m.text, m.tool_call_id) for m in messages] == [
        ("user", "q", ""),
        ("assistant", "let me see", ""),
        ("tool", "one", "001"),
        ("tool", "two", "002"),
    ]
    assert messages[1].tool_calls == CALLS
    assert messages[2].segments == [results[0]]


def test_a_round_without_words_has_no_empty_segment() -> None:
    """Most models ask for tools without saying anything."""
    rounds = [Exchange(tool_calls=CALLS[:1], results=[Segment(name="001", text="one")])]
    assert render(load_pack(PACKS, "PRM-A-001"), INPUTS, order(exchanges=rounds))[1].segments == []


def test_drafts_notes_and_steers_are_messages_where_they_happened() -> None:
    rounds = [
        Exchange(said=[Segment(name="steer", text="be brief")]),
        Exchange(text=Segment(name="draft", text="so"), said=[Segment(name="note", text="not sent")]),
    ]
    messages = render(load_pack(PACKS, "PRM-A-001"), INPUTS, order(exchanges=rounds))
    assert [(one.role, one.text) for one in messages] == [
        ("user", "q"), ("user", "be brief"), ("assistant", "so"), ("user", "not sent"),
    ]  # fmt: skip


def test_rules_on_tools_stand_where_an_order_allows_any_and_history_is_no_input() -> None:
    """Whatever tools there are just now: who asks for the order again sends the same."""
    history = Segment(name="history", ref="r/1", text="x")
    given = make_own_inputs(
        order(input_context=[history], constraints={"tools_allowed": ["a", "b"], "token_budget": 1})
    )
    assert [(one.name, one.text) for one in given] == [("tools", "a, b")]
    assert make_own_inputs(order(input_context=[history], constraints={"tools_allowed": [], "token_budget": 1})) == []


@pytest.mark.parametrize("results", [[], [Segment(name="002", text="x"), Segment(name="001", text="y")]])
def test_a_call_without_its_result_in_place_is_refused(results: list[Segment]) -> None:
    """A transcript with an open or exchanged call is valid for no provider."""
    with pytest.raises(WorkOrderFault) as caught:
        render(load_pack(PACKS, "PRM-A-001"), INPUTS, order(exchanges=[Exchange(tool_calls=CALLS, results=results)]))
    assert caught.value.code == "input_schema_invalid"


@pytest.mark.parametrize("allowed", [["a__*", "b__*"], ["b__x", "a__y", "a__x"]])
def test_what_a_server_says_of_all_its_tools_is_told_with_the_first_of_them_that_is_told(allowed: list[str]) -> None:
    """Whichever that is; of another server that says something else, too; one that says nothing adds nothing."""
    says = {"a": SERVER_SAYS + "Say please.", "b": ""}
    specs = {
        name: ToolDefinition(name, f"does {name}{says[name[0]]}", {}, idempotent=True, source=name[0])
        for name in ("a__x", "a__y", "b__x")
    }
    agent = shipped_snapshot().agents["ADMIN"]
    permissions = agent.permissions.model_copy(update={"tools": allowed})
    agent = agent.model_copy(update={"tools": allowed, "permissions": permissions})
    made = order()
    made = made.model_copy(update={"constraints": made.constraints.model_copy(update={"tools_allowed": allowed})})
    told = {one.tool_id: one.description for one in list_offered_tools(made, agent, specs)}
    first = next(name for name in told if name.startswith("a"))
    assert told == {name: f"does {name}" + says["a"] * (name == first) for name in specs}
