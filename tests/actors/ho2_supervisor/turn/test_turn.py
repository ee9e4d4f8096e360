"""The turn, driven through the bus against the real ledger: what it sends, records and answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from hobus.bus.errors import BusError, RuntimeFault, WorkOrderFault
from hobus.bus.messages.given_history import find_own_words, with_history
from hobus.bus.messages.work_order import OutputResult, Segment, WorkOrder, WorkOrderError
from hobus.bus.record import text_parts
from hobus.bus.record.catalog import read_body
from hobus.bus.record.journal import read_event
from hobus.bus.record.payloads.orders import read_receipt
from hobus.bus.spent import read_calls
from tests.actors.ho2_supervisor.rig import (
    SESSION,
    Answer,
    Rig,
    calls,
    classified,
    one_tool,
    question_and_answer,
    text_of,
)
from tests.rig import names
from tests.sessions import facts

pytestmark = pytest.mark.slow


def asked(rig: Rig, text: str = "what packages are installed?") -> Any:
    """A first turn in a new session."""
    rig.run(rig.start_session())
    return rig.run(rig.turn("i1", text))


def payloads(rig: Rig, stream: str) -> dict[str, Any]:
    """Body 0 of the last entry of each type of a stream, as its class."""
    return {entry.event_type: read_body(entry) for entry in rig.run(rig.entries(stream))}


def test_turn_without_tools_is_recorded_step_by_step() -> None:
    """The journal of the plainest turn, entry by entry: nothing missing, nothing twice."""
    with Rig() as rig:
        result = asked(rig, "hello")
        assert (result.response, result.outcome, result.quality_gate_passed) == ("answer to hello", "success", True)
        assert names(rig.run(rig.entries())) == [
            "TookOver", "SESSION_START", "RunRequested", "WO_DISPATCHED", "OrderEnded", "INTENT_DECLARED",
            "WO_DISPATCHED", "OrderEnded", "RunCompleted",
        ]  # fmt: skip
        assert [fact.kind for fact in facts(rig.run(rig.entries()))] == [
            "TookOver", "SessionStarted", "RunRequested", "RunStarted", "StepStarted", "OrderDispatched", "OrderEnded",
            "IntentDeclared", "StepStarted", "OrderDispatched", "OrderEnded", "RunCompleted",
        ]  # fmt: skip
        assert names(rig.run(rig.entries("ho2m"))) == []


@pytest.mark.parametrize("off", [{"changes": [("ho2.classify", False)]}, {"agent": {"classification": "off"}}])
def test_turn_without_classification_begins_with_its_answer(off: dict[str, Any]) -> None:
    """By the setting, or by the agent's file: one call less, round 1 is the answer's, and nothing stands of labels."""
    with Rig(*off.get("changes", ()), agent=off.get("agent")) as rig:
        result = asked(rig, "hello")
        assert (result.response, result.outcome) == ("answer to hello", "success")
        assert [order.wo_type for order in rig.pool.orders] == ["synthesize"]
        assert payloads(rig, "ho2_context_authority")["CONTEXT_ASSEMBLED"].domain_labels == ()


def test_submission_ids_are_derived_or_counted_in_the_tenure() -> None:
    """Ids that take-overs and retries rest on have the form that the specification gives them."""
    with Rig() as rig:
        asked(rig)
        entries = {entry.event_type: entry for entry in rig.run(rig.entries())}
        assert entries["TookOver"].submission_id == f"TookOver:{SESSION}/1"
        assert entries["SESSION_START"].submission_id == f"SESSION_START:{SESSION}/1.1"
        assert entries["RunRequested"].submission_id == f"RunRequested:{SESSION}/i1"
        assert entries["WO_DISPATCHED"].submission_id == f"WO_DISPATCHED:WO-{SESSION}-1.2.1"
        assert entries["OrderEnded"].submission_id == f"OrderEnded:WO-{SESSION}-1.2.1"
        assert entries["RunCompleted"].submission_id == f"RunCompleted:{SESSION}-1"
        assert entries["RunCompleted"].once == f"turn:{SESSION}/i1"
        assert entries["SESSION_START"].once == f"session:{SESSION}"
        assert [kind for kind, entry in entries.items() if entry.once] == ["SESSION_START", "RunCompleted"]


def test_barriers_of_a_turn_are_its_dispatches_and_its_answer() -> None:
    """Three writes without tools, two more for a tool round: everything between shares them."""
    for script, barriers in ((question_and_answer, 3), (one_tool, 5)):
        with Rig(script=script) as rig:
            rig.run(rig.start_session())
            session = rig.supervisors[0]._registry.held(SESSION)
            assert session is not None
            before = session.barriers
            rig.run(rig.turn("i1", "hello"))
            assert session.barriers - before == barriers


def test_an_order_that_is_sent_before_it_is_durable_says_so() -> None:
    """The first one of a drive stands in the journal when HO1 gets it; others are on their way, or stand."""
    seen: list[bool] = []
    with Rig() as rig:

        def script(order: WorkOrder) -> Answer:
            found = rig.ledger_service._open().tables.find_by_submission(f"WO_DISPATCHED:{order.wo_id}")
            seen.append(found is not None)
            return question_and_answer(order)

        rig.pool.script = script
        asked(rig)
        assert [message.is_dispatching for message in rig.pool.received] == [False, True]
    assert seen[0]


def test_orders_carry_what_their_contracts_want() -> None:
    """Classify names no provider and has its tag; synthesize names the run's provider and model, tools and criteria."""
    with Rig() as rig:
        asked(rig, "hello")
        classify, synthesize = rig.pool.orders
    assert (classify.wo_id, synthesize.wo_id) == (f"WO-{SESSION}-1.1.1", f"WO-{SESSION}-1.2.1")
    assert classify.constraints.prompt_contract_id == "PRC-CLASSIFY-001"
    assert classify.constraints.domain_tags == ["classification"]
    assert (classify.constraints.provider_id, classify.constraints.model_id) == (None, None)
    assert classify.constraints.token_budget == rig.snapshot.config.budget.classify_budget
    assert classify.constraints.timeout_seconds == 15.0
    assert synthesize.constraints.prompt_contract_id == "PRC-SYNTHESIZE-001"
    assert (synthesize.constraints.provider_id, synthesize.constraints.model_id) == ("offline", "offline-rules-1")
    assert synthesize.constraints.tools_allowed == list(rig.snapshot.agents["ADMIN"].tools)
    assert synthesize.acceptance_criteria == {"requires_response_text": True, "min_response_length": 1}
    assert synthesize.parent_wo_id == classify.wo_id
    assert [s.name for s in synthesize.input_context] == ["system", "user_input"], "nothing was looked up"
    assert text_of(synthesize, "user_input") == "hello"
    assert {order.state for order in (classify, synthesize)} == {"dispatched"}


def test_texts_are_stored_once_and_named_by_ref() -> None:
    """System prompt and input stand in one body each; the first round's order holds their refs, the next names it."""
    with Rig(script=one_tool) as rig:
        asked(rig)
        system = rig.snapshot.agents["ADMIN"].system_prompt.encode()
        bodies = [body for entry in rig.run(rig.entries()) for body in entry.bodies if body]
        assert sum(body.count(system) for body in bodies) == 1
        rounds = [order for order in rig.pool.orders if order.wo_type == "synthesize"]
        assert len({s.ref for order in rounds for s in order.input_context if s.name == "system"}) == 1
        for order in rounds:
            for segment in order.input_context:
                assert segment.ref is not None
                assert rig.run(rig.ledger_client("operator").body(segment.ref)).decode() == segment.text
        first, second = (
            read_event(entry).event.order
            for entry in rig.run(rig.entries())
            if entry.submission_id.removeprefix("WO_DISPATCHED:") in [order.wo_id for order in rounds]
        )
        assert [(bool(one.ref), one.text) for one in first.input_context] == [(True, "")] * 2
        assert second.input_context == first.input_context


def test_the_system_prompt_of_a_session_is_stored_once_and_named_by_later_turns() -> None:
    with Rig() as rig:
        asked(rig, "first question")
        rig.run(rig.turn("i2", "second question"))
        system = rig.snapshot.agents["ADMIN"].system_prompt
        shown = [one for order in rig.pool.orders for one in order.input_context if one.name == "system"]
        first = next(order for order in rig.pool.orders if order.wo_type == "synthesize")
        assert [(one.ref, one.text) for one in shown] == [(f"WO_DISPATCHED:{first.wo_id}/1", system)] * 2
        bodies = [body for entry in rig.run(rig.entries()) for body in entry.bodies if body]
        assert sum(body.count(system.encode()) for body in bodies) == 1


def test_tool_calls_go_out_as_orders_of_their_own_and_come_back_in_call_order() -> None:
    """One batch: parallel orders with call suffixes, results shown by call id although they arrived in reverse."""
    with Rig(script=one_tool) as rig:
        rig.pool.delay_s = lambda order: 1.0 - int(order.wo_id[-3:]) / 10 if order.wo_type == "tool_call" else 0.0
        result = asked(rig)
        assert result.response == "from tools: result of list_packages, result of list_tools, result of list_packages"
        assert [call.tool_id for call in result.tool_calls] == ["list_packages", "list_tools", "list_packages"]
        tools = [order for order in rig.pool.orders if order.wo_type == "tool_call"]
        assert [order.wo_id for order in tools] == [f"WO-{SESSION}-1.2.2.{n:03d}" for n in (1, 2, 3)]
        assert rig.pool.executed[2:5] == [f"WO-{SESSION}-1.2.2.{n:03d}" for n in (3, 2, 1)]
        journal = rig.run(rig.entries())
        ended = [entry.submission_id for entry in journal if entry.event_type == "OrderEnded"]
        assert [one[-3:] for one in ended[2:5]] == ["003", "002", "001"]
        assert result.elapsed_ms < 1000  # in parallel: the slowest alone


def test_batch_is_sent_in_waves_of_what_may_be_in_flight() -> None:
    """max_in_flight_effects is kept, and all calls are made."""
    in_flight: list[int] = []
    with Rig(("sessions.max_in_flight_effects", 2), script=one_tool) as rig:
        rig.pool.delay_s = lambda order: 0.1 if order.wo_type == "tool_call" else 0.0
        inner = rig.pool.script

        def script(order: WorkOrder) -> Answer:
            open_now = {m.order.wo_id for m in rig.pool.received} - set(rig.pool.executed)
            in_flight.append(len(open_now))
            return inner(order)

        rig.pool.script = script
        assert len(asked(rig).tool_calls) == 3
    assert max(in_flight) == 2


def test_failed_tool_is_a_result_for_the_model() -> None:
    """A tool that fails does not fail the turn: the model is told, and the client sees the code."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "tool_call":
            return WorkOrderError(code="tool_failed", message="no such file")
        return one_tool(order)

    with Rig(script=script) as rig:
        result = asked(rig)
        assert result.response.startswith("from tools: error tool_failed: no such file")
        assert {(call.status, call.code) for call in result.tool_calls} == {("Failed", "tool_failed")}


@pytest.mark.parametrize("said", ["no_route", "busy", "expired", "peer_lost", "denied"])
@pytest.mark.parametrize(("is_begun", "code"), [(True, "unknown_outcome"), (False, "")])
def test_a_tool_that_was_begun_ends_in_doubt_whatever_is_said(is_begun: bool, code: str, said: str) -> None:
    """By the record of its start alone: its worker gave no end, and no next try got as far."""
    tries: Counter[str] = Counter()

    def script(order: WorkOrder) -> Answer:
        if order.wo_type != "tool_call":
            return one_tool(order)
        tries[order.wo_id] += 1
        return BusError(said, "away")

    with Rig(script=script) as rig:
        rig.pool.begins = lambda order: is_begun and order.tool_call is not None and not tries[order.wo_id]
        result = asked(rig)
        plain = "deadline_exceeded" if said == "expired" else "execution_error"
        assert {(call.status, call.code) for call in result.tool_calls} == {("Failed", code or plain)}
        assert result.cost.tool_ids_used == (["list_packages", "list_tools"] if is_begun else [])
        ends = [entry.reason for entry in rig.run(rig.entries("ho1m")) if entry.event_type == "WO_FAILED"]
        assert ends == [code or plain] * 3
        assert (min(tries.values()) > 1) is BusError(said, "").retryable


def test_a_run_that_fails_says_which_tool_was_begun() -> None:
    """Its deadline is over while one tool works, which must not run twice, another waits, and a third is done."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "tool_call" and not order.wo_id.endswith("002"):
            return None
        return one_tool(order)

    with Rig(script=script) as rig:
        rig.pool.begins = lambda order: order.wo_id.endswith(".001")
        rig.run(rig.start_session())
        with pytest.raises(RuntimeFault) as caught:
            rig.run(rig.turn("i1", "hello", timeout_s=5.0))
        assert [(call.tool_id, call.status, call.code) for call in read_calls(caught.value)] == [
            ("list_packages", "Failed", "unknown_outcome"),
            ("list_tools", "Succeeded", ""),
        ]


def test_an_end_that_its_worker_recorded_stands_whatever_the_bus_says() -> None:
    """The worker died between its record and its answer, and nobody else is there."""

    def script(order: WorkOrder) -> Answer:
        return BusError("peer_lost", "gone", retryable=False) if order.wo_type == "tool_call" else one_tool(order)

    with Rig(script=script) as rig:
        rig.pool.ends = "it was paid"
        result = asked(rig)
        assert {(call.status, call.code) for call in result.tool_calls} == {("Succeeded", "")}
        assert result.response == "from tools: it was paid, it was paid, it was paid"


def test_tool_that_no_worker_announces_is_a_result_for_the_model_too() -> None:
    """Once, after the broker's grace: asking again would not bring the tool. The others are run."""
    with Rig(script=one_tool, tools=["list_packages"]) as rig:
        began = rig.world.loop.time()
        result = asked(rig)
        assert {(call.tool_id, call.status, call.code) for call in result.tool_calls} == {
            ("list_packages", "Succeeded", ""),
            ("list_tools", "Failed", "tool_not_found"),
        }
        grace_s = rig.snapshot.config.bus.service_grace_ms / 1000
        assert grace_s <= rig.world.loop.time() - began < 2 * grace_s
        assert [order.tool_call.tool_id for order in rig.pool.orders if order.tool_call] == ["list_packages"] * 2


@pytest.mark.parametrize("approval", [(), ("make_*",)])
def test_invented_tool_is_answered_to_the_model_at_once(approval: tuple[str, ...]) -> None:
    """No order, no wait for a worker that never comes or for an approval, and no cost unknown; the real call is made."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "synthesize" and not order.exchanges:
            return OutputResult(tool_calls=calls("make_coffee", "list_tools"), tools_invented=["make_coffee"])
        return one_tool(order)

    with Rig(("tools.approval", approval), script=script) as rig:
        began = rig.world.loop.time()
        result = asked(rig)
        assert rig.world.loop.time() - began < 0.5
        assert [(call.tool_id, call.status, call.code) for call in result.tool_calls] == [
            ("make_coffee", "Failed", "tool_not_found"),
            ("list_tools", "Succeeded", ""),
        ]
        assert "there is no tool 'make_coffee'" in result.response
        assert result.cost.cost_usd is not None
        assert [order.tool_call.tool_id for order in rig.pool.orders if order.tool_call] == ["list_tools"]


def test_a_tool_of_the_agents_own_that_was_not_offered_is_not_said_to_be_none() -> None:
    """As where a caller's tool has to be called: it is not run, and its model is told the truth about it."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "synthesize" and not order.exchanges:
            return OutputResult(tool_calls=calls("list_tools"), tools_invented=["list_tools"])
        return one_tool(order)

    with Rig(script=script) as rig:
        result = asked(rig)
        assert "tool 'list_tools' is not offered for this answer" in result.response
        assert not [order for order in rig.pool.orders if order.tool_call]


def test_a_run_that_only_invents_tools_goes_on() -> None:
    """A batch without a single order is settled all the same."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "synthesize" and not order.exchanges:
            return OutputResult(tool_calls=calls("make_coffee"), tools_invented=["make_coffee"])
        return one_tool(order)

    with Rig(script=script) as rig:
        assert asked(rig).outcome == "success"


def test_result_sums_costs_and_names_its_prompt_records() -> None:
    """Tokens, calls, tools and PROMPT_RECEIVED entries of all orders, in order."""
    with Rig(script=one_tool) as rig:
        result = asked(rig)
    assert (result.cost.total_tokens, result.cost.llm_calls, result.cost.tool_calls) == (330, 3, 3)
    assert result.cost.tool_ids_used == ["list_packages", "list_tools"]
    assert result.exchange_entry_ids == [
        f"PROMPT_RECEIVED:WO-{SESSION}-1.{n}.1#1/1" for n in (1, 2, 3)
    ]  # fmt: skip


def test_failed_classification_is_recorded_and_the_turn_goes_on() -> None:
    """Labels are an aid: without them the answer still comes."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "classify":
            return WorkOrderError(code="output_schema_invalid", message="no speech_act")
        return "answered"

    with Rig(script=script) as rig:
        assert asked(rig).response == "answered"
        synthesize = rig.pool.orders[-1]
        assert text_of(synthesize, "classification") == ""
        assert synthesize.parent_wo_id is None
        ended = next(entry for entry in rig.run(rig.entries()) if entry.event_type == "OrderEnded")
        assert read_event(ended).event.receipt.error.code == "output_schema_invalid"


def test_labels_outside_the_vocabulary_are_dropped() -> None:
    """The model's own words never become labels."""
    odd = classified(
        {"speech_act": "command", "ambiguity": "low", "labels": {"domain": ["tools", "space"], "task": "fly"}}
    )
    with Rig(script=lambda order: odd if order.wo_type == "classify" else "done") as rig:
        asked(rig)
        context = payloads(rig, "ho2_context_authority")["CONTEXT_ASSEMBLED"]
        assert (context.domain_labels, context.task_labels) == (("tools",), ())
        assert "space" not in text_of(rig.pool.orders[-1], "classification")


@pytest.mark.parametrize("wo_type", ["classify", "synthesize"])
def test_gateway_refusal_is_a_verdict(wo_type: str) -> None:
    """Refused on purpose, in either order: an error result with that code, recorded as the input's one answer."""
    with Rig() as rig:
        rig.run(rig.start_session())
        for code in ("HIERARCHY_EXCEEDED", "TURN_LIMIT", "NOT_ALLOCATED", "FORBIDDEN", "BUDGET_EXHAUSTED"):

            def script(order: WorkOrder, code: str = code) -> Answer:
                refused = WorkOrderError(code=code, message="limit")
                return refused if order.wo_type == wo_type else question_and_answer(order)

            rig.pool.script = script
            result = rig.run(rig.turn(code, "what packages are installed?"))
            if wo_type == "classify" and code in ("BUDGET_EXHAUSTED", "HIERARCHY_EXCEEDED"):  # the answer's order says
                assert result.outcome == "success"
                continue
            assert (result.outcome, result.code) == ("error", code)
            assert result.response.endswith("."), code
            assert "limit" in result.response, code
            last = rig.run(rig.entries())[-1]
            assert (last.event_type, last.once) == ("RunFailed", f"turn:{SESSION}/{code}")
            assert rig.run(rig.turn(code, "what packages are installed?")) == result  # asked again: the same answer


def test_failed_order_is_a_failure_and_never_text() -> None:
    """The handler raises, so that the host degrades; RunFailed holds no once key, so that TurnDegraded can win it."""

    def script(order: WorkOrder) -> Answer:
        failed = WorkOrderError(code="execution_error", message="broken")
        return failed if order.wo_type == "synthesize" else classified()

    with Rig(script=script) as rig:
        with pytest.raises(BusError) as caught:
            asked(rig)
        assert caught.value.code == "execution_error"
        assert not caught.value.retryable
        last = rig.run(rig.entries())[-1]
        assert (last.event_type, last.once) == ("RunFailed", None)
        with pytest.raises(BusError) as again:
            rig.run(rig.turn("i1", "what packages are installed?"))
        assert (again.value.code, again.value.detail, caught.value.detail) == ("execution_error", "broken", "broken")
        assert len(rig.pool.received) == 2  # a failed input is not run again


def test_lost_order_is_sent_again_and_then_failed_by_ho2() -> None:
    """Retryable faults are retried `ORDER_ATTEMPTS_MAX` times with a growing attempt; then HO2 writes the order's end."""
    lost = BusError("peer_lost", "gone")
    with Rig(script=lambda order: classified() if order.wo_type == "classify" else lost) as rig:
        with pytest.raises(BusError) as caught:
            asked(rig)
        assert caught.value.code == "execution_error"
        attempts = [message.attempt for message in rig.pool.received if message.order.wo_type == "synthesize"]
        assert attempts == [1, 2, 3, 4]
        rig.run(rig.host.sleep(0.1))  # the end follows OrderEnded; nobody waits for it
        end = rig.run(rig.entries("ho1m"))[-1]
        assert (end.event_type, end.once) == ("WO_FAILED", f"end:WO-{SESSION}-1.2.1")
        receipt = read_receipt(end)
        assert receipt is not None
        assert (receipt.state, receipt.cost.cost_usd) == ("failed", None)


def test_fault_that_cannot_pass_is_not_retried() -> None:
    """A refusal that a retry cannot fix ends the order at once."""
    denied = WorkOrderFault("denied", "no")
    with Rig(script=lambda order: classified() if order.wo_type == "classify" else denied) as rig:
        with pytest.raises(BusError):
            asked(rig)
        assert [message.attempt for message in rig.pool.received] == [1, 1]


def test_rejected_answer_is_asked_for_again_with_the_reason() -> None:
    """The quality gate's reason goes into the next round; the accepted answer is the turn's."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "classify":
            return classified()
        return "long enough now" if text_of(order, "note") else "short"

    with Rig(("quality_gate.min_response_length", 10), script=script) as rig:
        result = asked(rig)
        assert (result.response, result.quality_gate_passed) == ("long enough now", True)
        assert "at least 10" in text_of(rig.pool.orders[-1], "note")
        assert rig.pool.orders[-1].wo_id == f"WO-{SESSION}-1.3.1"
        assert "ESCALATION" not in payloads(rig, "ho2m")


def test_answer_that_stays_rejected_is_escalated_and_returned() -> None:
    """After max_retries the best text is given, marked, and recorded as ESCALATION and REJECTED."""
    texts = {"1.2.1": "better", "1.3.1": "  "}

    def script(order: WorkOrder) -> Answer:
        return classified() if order.wo_type == "classify" else texts[order.wo_id.removeprefix(f"WO-{SESSION}-")]

    with Rig(("quality_gate.min_response_length", 10), script=script) as rig:
        result = asked(rig)
        assert (result.response, result.outcome, result.quality_gate_passed) == ("better", "success", False)
        entries = {entry.event_type: entry for entry in rig.run(rig.entries("ho2m"))}
        assert read_event(rig.run(rig.entries())[-1]).event.faults == ["it has 6 characters, at least 10 are needed"]
        assert entries["ESCALATION"].parents == [f"RunCompleted:{SESSION}-1"]


def test_turn_limit_ends_a_run_that_only_calls_tools() -> None:
    """turn_limit counts model rounds, classification included; at the limit the verdict, and not one round more."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "tool_call":
            return "again"
        return classified() if order.wo_type == "classify" else calls("list_tools")

    with Rig(("budget.turn_limit", 4), script=script) as rig:
        result = asked(rig)
        assert (result.outcome, result.code) == ("error", "turn_limit_exceeded")
        assert sum(order.wo_type != "tool_call" for order in rig.pool.orders) == 4
        assert len(result.tool_calls) == 3
        assert result.cost.llm_calls == 4


@pytest.mark.parametrize(("mode", "rounds", "warned"), [("enforce", 1, False), ("warn", 2, True), ("off", 2, False)])
def test_further_round_needs_its_budget(mode: str, rounds: int, warned: bool) -> None:
    """110 of 500 tokens used and 391 to remain: refused in enforce, warned of in warn, silent in off."""
    settings = (("budget.budget_mode", mode), ("budget.synthesize_budget", 500), ("budget.followup_min_remaining", 391))
    with Rig(*settings, script=one_tool) as rig:
        result = asked(rig)
        assert sum(order.wo_type == "synthesize" for order in rig.pool.orders) == rounds
        assert (result.code == "budget_exhausted") == (mode == "enforce")
        assert ("BUDGET_WARNING" in payloads(rig, "ho2m")) == warned
        assert {order.constraints.budget_mode for order in rig.pool.orders} == {mode}


def test_round_gets_what_the_rounds_before_it_left() -> None:
    """Exactly followup_min_remaining left is enough; the next order's budget is the remainder."""
    settings = (
        ("budget.budget_mode", "enforce"),
        ("budget.synthesize_budget", 500),
        ("budget.followup_min_remaining", 390),
    )
    with Rig(*settings, script=one_tool) as rig:
        assert asked(rig).outcome == "success"
        budgets = [order.constraints.token_budget for order in rig.pool.orders if order.wo_type == "synthesize"]
        assert budgets == [500, 390]


def test_deadline_ends_the_run_before_the_requester_gives_up() -> None:
    """A run that is out of time fails within the reserve, and nothing of it is submitted afterwards."""
    with Rig(script=lambda order: classified() if order.wo_type == "classify" else None) as rig:
        rig.run(rig.start_session())
        begun = rig.host.clock.monotonic()
        with pytest.raises(BusError) as caught:
            rig.run(rig.turn("i1", "hello", timeout_s=5.0))
        code, took_s = caught.value.code, rig.host.clock.monotonic() - begun
        assert code == "deadline_exceeded"
        assert 4.6 <= took_s < 5.0
        rig.run(rig.host.sleep(10))
        assert names(rig.run(rig.entries()))[-1] == "RunFailed"


def test_history_of_the_session_reaches_the_next_prompt_by_ref() -> None:
    """The second turn shows the first one verbatim, in one segment that lists the refs of its texts, and stores none."""
    with Rig() as rig:
        asked(rig, "first question")
        rig.run(rig.turn("i2", "second question"))
        synthesize = rig.pool.orders[-1]
        assert text_of(synthesize, "history") == "user: first question\nassistant: answer to first question\n"
        shown = [segment.ref for segment in synthesize.input_context if segment.name == "history"]
        dispatched = rig.run(rig.entries())[-3]
        assert shown == [f"{dispatched.submission_id}/1"] == [f"WO_DISPATCHED:{synthesize.wo_id}/1"]
        listed = text_parts.read_parts(dispatched.bodies[1] or b"")
        assert listed is not None
        assert [ref for ref, _ in listed if ref] == [f"RunRequested:{SESSION}/i1/1", f"RunCompleted:{SESSION}-1/2"]
        assert not any(b"first question" in (body or b"") for body in dispatched.bodies)
        assert (
            text_of(rig.pool.orders[-2], "earlier")
            == "- user: first question | assistant: answer to first question (turn 1)"
        )


def test_answer_that_is_recorded_elsewhere_is_not_stored_again() -> None:
    """A reply with a ref is named by it: RunCompleted brings the result and no second copy of the text."""
    refs: dict[str, str] = {}

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "classify":
            return classified()
        return OutputResult(text=Segment(ref=refs["reply"], text="said"))

    with Rig(script=script) as rig:
        rig.run(rig.start_session())
        refs["reply"] = f"SESSION_START:{SESSION}/1.1/0"
        rig.run(rig.turn("i1", "hello"))
        completed = rig.run(rig.entries())[-1]
        assert len(completed.bodies) == 2
        assert read_event(completed).event.reply_ref == refs["reply"]


def test_long_message_is_classified_by_both_ends_of_what_is_said_now() -> None:
    """A text that would fill the classification's budget alone is cut for it, and whole for the answer.

    What a client told of before it stands before it there.
    """
    long, behind = "x" * 5000 + "y" * 4000, with_history(["Be kind."] * 900, [], "hello")
    for said, shown in ((long, "x" * 1998 + " … " + "y" * 1998), (behind, "hello"), ("x" * 4000, "x" * 4000)):
        with Rig() as rig:
            asked(rig, said)
            classify, synthesize = rig.pool.orders
            assert text_of(classify, "user_input") == shown
            assert text_of(synthesize, "user_input") == find_own_words(said)
            assert ("Be kind." in text_of(synthesize, "history")) == (said == behind)


def test_budget_of_the_agent_decides() -> None:
    """Its orders carry what the settings say that it names, and every entry names the package that owns it."""
    with Rig(agent={"budget": {"classify": "projection_budget", "synthesize": "history_budget"}}) as rig:
        asked(rig)
        budget = rig.snapshot.config.budget
        assert [order.constraints.token_budget for order in rig.pool.orders] == [
            budget.projection_budget,
            budget.history_budget,
        ]
        owner = rig.snapshot.map_agent_packages()["ADMIN"]
        assert {order.package_id for order in rig.pool.orders} == {owner}
        started = [entry for entry in rig.run(rig.entries()) if entry.event_type == "RunCompleted"]
        assert [entry.provenance.package_id for entry in started] == [owner]


BESIDE = f"WO-{SESSION}-1.1.1"
AT_ONCE = {"classification": "beside"}


def test_a_message_is_classified_while_its_answer_is_asked_for() -> None:
    """Both leave in one write under one step; labels and intents are recorded with the turn, of which memory learns."""
    with Rig(agent=AT_ONCE, script=one_tool) as rig:
        rig.pool.delay_s = lambda order: 0.3 if order.wo_type == "classify" else 0.1
        result = asked(rig)
        assert (result.outcome, result.elapsed_ms < 700) == ("success", True)
        dispatched = [order.wo_id for order in rig.pool.orders]
        assert sorted(dispatched[:2]) == [BESIDE, f"{BESIDE}.000"] and dispatched[2].startswith(f"WO-{SESSION}-1.1.2.")
        entries = rig.run(rig.entries())
        assert names(entries).count("INTENT_DECLARED") == 1
        sent = [entry.sequence for entry in entries if entry.event_type == "WO_DISPATCHED"][:2]
        assert sent[1] - sent[0] == 1


@pytest.mark.parametrize("ended", ["classify", "synthesize"])
def test_a_turn_that_classifies_beside_is_driven_on_by_its_journal(ended: str) -> None:
    """Whichever of the two had ended: its successor asks for the other one alone, with the same bytes."""
    with Rig(agent=AT_ONCE) as rig:
        rig.pool.delay_s = lambda order: 0.1 if order.wo_type == ended else 3.0

        async def run() -> Any:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.turn("i1", "hello"))
                await rig.host.sleep(1.0)
                rig.supervise()
                rig.world.kill(rig.instances[0])
            return turn.result()

        assert rig.run(run()).outcome == "success"
        rig.run(rig.until(lambda view: view.run is None))
        assert sorted(rig.pool.executed) == [BESIDE, f"{BESIDE}.000"]
        again = [message for message in rig.pool.received if message.attempt > 1]
        assert {message.order.wo_id for message in again} <= {BESIDE, f"{BESIDE}.000"}
        assert names(rig.run(rig.entries())).count("INTENT_DECLARED") == 1


def test_a_failed_classification_beside_takes_no_answer() -> None:
    """The turn goes on without labels; its message is the objective."""
    fault = WorkOrderError(code="output_schema_invalid", message="x")
    with Rig(agent=AT_ONCE, script=lambda order: fault if order.wo_type == "classify" else "done") as rig:
        assert asked(rig).response == "done"
