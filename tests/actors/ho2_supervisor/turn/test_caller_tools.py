"""Tools of the caller: what may be offered, which results fit, and what a successor makes of a turn that brings some."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

import pytest

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.turn import caller_tools, quality_gate
from hobus.bus.errors import SessionFault
from hobus.bus.messages.ids import RunId
from hobus.bus.messages.ledger import name_session_stream
from hobus.bus.messages.session import (
    CallerCall,
    CallResult,
    RunConfig,
    SessionConfig,
    SessionReady,
    StartSession,
    TurnReply,
    TurnRequest,
)
from hobus.bus.messages.work_order import OutputResult, Segment, ToolCall, ToolSpec, WorkOrder
from hobus.bus.record.catalog import read_body
from hobus.bus.record.session_facts import OpenCalls
from tests.actors.ho2_supervisor.ownership.test_take_over import moved_to
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, classified, text_of
from tests.rig import names


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Borders that a test can reach."""
    monkeypatch.setattr(limits, "CALLER_TOOLS_MAX", 3)
    monkeypatch.setattr(limits, "CALLER_TOOLS_MAX_BYTES", 1000)


OPEN = OpenCalls(wo_id="WO-1", call_ids=["call_a", "call_b"])
GIVEN = [CallResult(tool_call_id="call_a", content="1"), CallResult(tool_call_id="call_b", content="2")]


def spec(name: str = "get_weather", **parameters: Any) -> ToolSpec:
    """A caller's tool."""
    return ToolSpec(tool_id=name, description="x", parameters=parameters or {"type": "object"})


def nested(levels: int) -> dict[str, Any]:
    """A schema that deep."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ([], ""),
        ([spec("a"), spec("b"), spec("c")], ""),
        ([spec("a"), spec("b"), spec("c"), spec("d")], "at most 3 are taken"),
        ([spec("a", description="x" * 1000)], "at most 1000 are taken"),
        ([spec("a b")], "letters"),
        ([spec("x" * 65)], "letters"),
        ([spec("a"), spec("a")], "twice"),
        ([spec("a", type="string")], "describe an object"),
        ([spec("a", type="object", properties={"a": {"type": "nonsense"}})], "schema"),
        ([spec("a", type="object", properties={"a": {"$ref": "http://example.org/x"}})], "outside"),
    ],
)
def test_what_may_be_offered(tools: list[ToolSpec], said: str) -> None:
    """Number, size, name and schema are bounded, and the fault says which; at the border it is taken."""
    fault = caller_tools.offer_fault(SessionConfig(caller_tools=tools))
    assert (said in fault) if said else fault == ""


def test_a_schema_that_is_nested_too_deeply_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have to be handed on, packed and recorded by everybody behind."""
    monkeypatch.setattr(limits, "CALLER_TOOLS_MAX_BYTES", 100_000)
    assert "nested" in caller_tools.offer_fault(SessionConfig(caller_tools=[spec("a", **nested(150))]))


def test_a_call_cannot_be_required_where_there_is_nothing_to_call() -> None:
    """Nor does a turn without overrides bring a fault."""
    assert "none is given" in caller_tools.offer_fault(SessionConfig(tool_choice="required"))
    assert caller_tools.offer_fault(None) == ""


@pytest.mark.parametrize(
    ("given", "text", "open_calls", "said"),
    [
        ([], "hello", OPEN, ""),
        (GIVEN, "", OPEN, ""),
        (GIVEN[::-1], "", OPEN, ""),
        (GIVEN, "hello", OPEN, "alone"),
        (GIVEN, "", None, "'call_a'"),
        (GIVEN[:1], "", OPEN, "call_b is missing"),
        ([*GIVEN, GIVEN[0]], "", OPEN, "twice"),
    ],
)
def test_which_results_fit(given: list[CallResult], text: str, open_calls: OpenCalls | None, said: str) -> None:
    """Every open call once, in any order, and no other."""
    fault = caller_tools.find_results_fault(given, text, open_calls)
    assert (said in fault) if said else fault == ""


def test_a_call_that_a_model_invented_is_nobodys_to_run() -> None:
    """It was not told of that tool then, whatever it is offered now."""
    config = RunConfig(provider="p", model="m", caller_tools=[spec("a"), spec("b")])
    calls = [ToolCall(call_id=f"00{n}", tool_id=name, arguments={}) for n, name in enumerate("abc", 1)]
    output = OutputResult(tool_calls=calls, tools_invented=["b", "c"])
    assert [call.tool_id for call in caller_tools.list_handed_out(output, config)] == ["a"]


def test_what_later_prompts_show_of_calls_that_were_handed_out() -> None:
    """Name, arguments and id, so that the result that follows can be told."""
    calls = [CallerCall(tool_call_id="call_a", name="f", arguments={"city": "Zürich"})]
    assert caller_tools.render_reply("I look.", calls) == (
        'I look.\n[asked the caller for f {"city": "Zürich"} as call_a]'
    )
    assert caller_tools.render_reply("", calls).startswith("[asked")


def test_ids_are_one_of_a_kind() -> None:
    """Session, run and round are in them; a provider's own may come twice."""
    call = ToolCall(call_id="001", provider_call_id="c", tool_id="f", arguments={})
    [told] = caller_tools.as_told([call], RunId(session_id=SESSION, run_seq=7), 2)
    assert told.tool_call_id == "call_11111111_7_2_001"


def test_an_answer_that_hands_out_calls_needs_no_text() -> None:
    """No criterion for an answer can be held against it."""
    criteria = {"requires_response_text": True, "min_response_length": 1}
    output = OutputResult(tool_calls=[ToolCall(call_id="001", tool_id="f", arguments={})])
    assert not quality_gate.find_faults(criteria, output, is_handed_out=True)
    assert quality_gate.find_faults(criteria, output)


def test_a_session_that_starts_with_tools_out_of_bounds_is_refused() -> None:
    """What every turn of it would bring along is bounded like what one turn brings."""
    wanted = StartSession(session_id=SESSION, session_config=SessionConfig(caller_tools=[spec("a b")]))
    with Rig() as rig, pytest.raises(SessionFault) as raised:
        rig.run(rig.ask(wanted, SessionReady))
    assert raised.value.code == "invalid_input"


THEIRS = SessionConfig(caller_tools=[spec()])


def asks_twice(order: WorkOrder) -> Answer:
    """An own tool, then one of the caller, then an answer from all results."""
    match order.wo_type:
        case "classify":
            return classified()
        case "tool_call":
            return "own result"
        case _ if not order.exchanges:
            return [ToolCall(call_id="001", tool_id="list_packages", arguments={})]
        case _ if len(order.exchanges) == 1:
            calls = [ToolCall(call_id="001", tool_id="get_weather", arguments={"city": "Bern"})]
            return OutputResult(text=Segment(text="I look."), tool_calls=calls, finish_reason="tool_calls")
        case _:
            return ", ".join(result.text for exchange in order.exchanges for result in exchange.results)


def results(content: str = "sunny") -> list[CallResult]:
    """Of the one call that the rig's session hands out."""
    return [CallResult(tool_call_id="call_11111111_1_3_001", content=content)]


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_successor_goes_on_with_a_turn_that_brings_results_from_every_prefix_of_its_journal(stride: int) -> None:
    """Whatever the dead owner had recorded: the same calls, one answer that rests on them, the same orders."""
    with Rig(script=asks_twice) as rig:
        rig.run(rig.start_session())
        asked = rig.run(rig.turn("i1", "weather?", run_overrides=THEIRS))
        answered = rig.run(rig.turn("i2", "", results=results(), run_overrides=THEIRS))
        journal = rig.run(rig.entries())
        sent = {order.wo_id: order for order in rig.pool.orders}
    assert (asked.response, [call.tool_call_id for call in asked.caller_calls]) == (
        "I look.", ["call_11111111_1_3_001"],
    )  # fmt: skip
    assert answered.response == "own result, sunny"
    with Rig(script=asks_twice) as rig:
        for length in sorted({*range(2, len(journal), stride), len(journal)}):
            session_id = f"{SESSION[:8]}{str(UUID(int=length))[8:]}"
            rig.run(rig.write(*(moved_to(session_id, entry) for entry in journal[:length])))
            first = TurnRequest(session_id=session_id, input_id="i1", text="weather?", run_overrides=THEIRS)
            again = rig.run(rig.ask(first, TurnReply)).result
            assert again.caller_calls == asked.caller_calls, length
            second = TurnRequest(session_id=session_id, input_id="i2", text="", results=results(), run_overrides=THEIRS)
            assert rig.run(rig.ask(second, TurnReply)).result.response == "own result, sunny", length
            after = rig.run(rig.entries(name_session_stream(session_id)))
            assert names(after).count("RunCompleted") == names(after).count("RunRequested") == 2, length
            for order in rig.pool.orders:
                if order.session_id == session_id and order.wo_type == "synthesize":
                    same = sent[order.wo_id.replace(session_id, SESSION)]
                    assert text_of(order, "user_input") == text_of(same, "user_input") == "weather?"
                    assert [e.model_copy(update={"results": [], "text": ""}) for e in order.exchanges] == [
                        e.model_copy(update={"results": [], "text": ""}) for e in same.exchanges
                    ], length
                    assert [[r.text for r in e.results] for e in order.exchanges] == [
                        [r.text for r in e.results] for e in same.exchanges
                    ], length


def test_a_turn_that_brings_results_records_the_context_that_it_shows_again() -> None:
    """That of the order whose model asked, byte for byte, with the lines of memory in it; once, and said to be that."""
    with Rig(script=asks_twice) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i0", "hello"))
        [call] = rig.run(rig.turn("i1", "weather?", run_overrides=THEIRS)).caller_calls
        given = [CallResult(tool_call_id=call.tool_call_id, content="sunny")]
        rig.run(rig.turn("i2", "", results=given, run_overrides=THEIRS))
        entries = rig.run(rig.entries("ho2_context_authority"))
        found = [read_body(one) for one in entries if one.event_type == "CONTEXT_ASSEMBLED"]
        *_, asked, answered = [one for one in rig.pool.orders if one.wo_type == "synthesize"]
        shown = "".join(one.text for one in answered.input_context if one.name in ("history", "assembled_context"))
        assert len(found) == 3 and shown
        assert (found[2].shown_by, found[2].context_hash) == (asked.wo_id, hashlib.sha256(shown.encode()).digest())
        assert (found[2].is_cached, found[2].tokens_assembled) == (True, len(shown) // 4)


def test_open_calls_are_known_to_who_loads_a_snapshot() -> None:
    """A state that was recorded while calls were open lets their results be taken by another owner."""
    with Rig(script=asks_twice, snapshot_entries=5) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", "weather?", run_overrides=THEIRS))
        rig.run(rig.host.sleep(1))
        assert names(rig.run(rig.entries())).count("STATE_SNAPSHOT") == 1
        rig.world.kill(rig.instances[0])
        rig.supervise()
        answered = rig.run(rig.turn("i2", "", results=results(), run_overrides=THEIRS))
        assert answered.response == "own result, sunny"


def test_a_later_message_shows_what_was_asked_for_and_opens_calls_of_its_own() -> None:
    """The open calls are those of the newest answered turn."""
    with Rig(script=asks_twice) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", "weather?", run_overrides=THEIRS))
        session = rig.supervisors[0]._registry.held(SESSION)
        assert session is not None
        assert session.record.state.open_calls == OpenCalls(
            wo_id=f"WO-{SESSION}-1.3.1", call_ids=["call_11111111_1_3_001"]
        )
        shown = rig.run(rig.turn("i2", "hello", run_overrides=THEIRS))
        assert shown.outcome == "success"
        assert session.record.state.open_calls is not None  # the script asks for it again, of another run
        assert session.record.state.open_calls.wo_id.startswith(f"WO-{SESSION}-2.")
        assert '[asked the caller for get_weather {"city": "Bern"} as call_11111111_1_3_001]' in text_of(
            rig.pool.orders[-1], "history"
        )


@pytest.mark.parametrize("is_struck", [False, True])
def test_later_prompts_show_calls_that_were_answered_as_the_messages_that_they_were(is_struck: bool) -> None:
    """The turn that asked and those that brought results are one, as its model saw it: a prefix of what follows.

    So, too, for an owner that reads it from the record.
    """
    with Rig(script=asks_thrice, agent={"classification": "off"}) as rig:
        rig.run(rig.start_session())
        calls = rig.run(rig.turn("i1", "weather?", run_overrides=THEIRS)).caller_calls
        for number in (2, 3):
            given = [CallResult(tool_call_id=call.tool_call_id, content=f"sunny {number}") for call in calls]
            calls = rig.run(rig.turn(f"i{number}", "", results=given, run_overrides=THEIRS)).caller_calls
        if is_struck:
            rig.world.kill(rig.instances[0])
            rig.supervise()
        rig.run(rig.turn("i4", "and now?"))
        shown = text_of(rig.pool.orders[-1], "history")
        called = '\x1f[{"call_id":"001","tool_id":"%s","arguments":%s}]'
        weather = called % ("get_weather", '{"city":"Bern"}')
        assert shown.splitlines() == [
            "user: weather?",
            "assistant: " + called % ("list_packages", "{}"), "tool: own result",
            "assistant: I look." + weather, "tool: sunny 2",
            "assistant: I look." + weather, "tool: sunny 3",
            "assistant: own result, sunny 2, sunny 3",
        ]  # fmt: skip


def asks_thrice(order: WorkOrder) -> Answer:
    """As `asks_twice`, and the caller's tool once more."""
    return asks_twice(order.model_copy(update={"exchanges": order.exchanges[:1]} if len(order.exchanges) == 2 else {}))
