"""One order in, one receipt out: model calls, failures, cancellation, on a simulated cluster with a real ledger."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bench.builders import SESSION, WO, order, shipped_snapshot, tool_order
from hobus import File
from hobus.actors.ho1_executor.model_step import is_stand_in as stands_in
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.messages.gateway import ERROR_CODES as GATEWAY_CODES
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.work_order import ERROR_CODES, Exchange, Receipt, Segment, ToolCall, ToolSpec, WorkOrder
from hobus.bus.record.payloads.orders import read_receipt
from hobus.gateway_service.histories import SharedParts
from tests.actors.ho1_executor.rig import Effects, ScriptedGateway, answer, cluster

GOOD = '{"speech_act": "question", "ambiguity": "low"}'


def run_one(gateway: ScriptedGateway, given: Any, **how: Any) -> tuple[Receipt, list[str]]:
    """The receipt of one order and the event types that it left in the record."""
    with cluster(gateway) as made:
        return made.world.run(made.execute(given, **how)), made.world.run(made.events())


def code_of(receipt: Receipt) -> str:
    """Of a failed receipt; every code is a closed one, and a failure never carries a text."""
    assert receipt.state == "failed"
    assert receipt.output_result is None
    assert receipt.error is not None
    assert receipt.error.code in ERROR_CODES + GATEWAY_CODES
    return receipt.error.code


# --- model calls ------------------------------------------------------------------------------------------------------


def test_a_synthesize_order_brings_the_answer_with_its_cost() -> None:
    """One call, a receipt that names the recorded answer, and no end of its own: its supervisor records that."""
    gateway = ScriptedGateway(answer("Five packages.", content_ref="PROMPT_RECEIVED:k/1"))
    receipt, events = run_one(gateway, order())
    assert receipt.output_result is not None
    assert receipt.output_result.text == Segment(name="answer", ref="PROMPT_RECEIVED:k/1", text="Five packages.")
    assert (receipt.cost.llm_calls, receipt.cost.total_tokens, receipt.cost.cost_usd) == (1, 110, 0.001)
    assert receipt.prompt_received_ids == [f"PROMPT_RECEIVED:{WO}#1/1"]
    assert (receipt.fence, receipt.executed_by) == (order().fence, "ho1/1@s1")
    assert events == []


SIGNAL = ("signal_id", "count", "session_count", "recent_events", "domain_labels", "task_labels")
LEARNED = '{"artifact_type": "task_pattern", "labels": {}, "context_line": "x", "weight": 0.5}'


def test_a_consolidation_which_has_no_journal_is_ended_by_its_worker() -> None:
    given = order("consolidate", input_context=[Segment(name=name, text="7") for name in SIGNAL])
    receipt, events = run_one(ScriptedGateway(answer(LEARNED)), given)
    assert (receipt.state, events) == ("completed", ["WO_COMPLETED"])


@pytest.mark.parametrize(
    ("own", "tags", "answered", "is_stand_in"),
    [
        ("other", {}, "offline", True), ("other", {}, "other", False), ("offline", {}, "offline", False),
        ("other", {"d": "offline"}, "offline", False), ("other", {"e": "offline"}, "offline", True),
        ("other", {}, "gone", False),
    ],
)  # fmt: skip
def test_embedded_rules_that_nobody_asked_for_are_a_stand_in(
    own: str, tags: dict[str, str], answered: str, is_stand_in: bool
) -> None:
    """Neither the default, nor the route of the order's tag: what follows at a fallback is told in its output."""
    shipped = shipped_snapshot().config.gateway
    route = shipped.default_route
    config = shipped.model_copy(
        update={
            "providers": {**shipped.providers, "other": SimpleNamespace(kind="openai")},
            "default_route": route.model_copy(update={"provider_id": own}),
            "domain_tag_routes": {tag: route.model_copy(update={"provider_id": to}) for tag, to in tags.items()},
        }
    )
    gateway = ScriptedGateway(answer("x"))
    run_one(gateway, order(constraints={"domain_tags": ["d"]}))
    assert stands_in(gateway.prompts[0], answer("x", provider_id=answered), config) is is_stand_in


def test_the_prompt_is_complete() -> None:
    gateway = ScriptedGateway(answer("x"))
    tools = ["session_cost", "nonsense", "list_packages"]
    limits = {
        "tools_allowed": tools,
        "domain_tags": ["d"],
        "model_id": "m",
        "budget_mode": "enforce",
        "token_budget": 99,
    }
    run_one(gateway, order(constraints=limits))
    prompt = gateway.prompts[0]
    assert (prompt.contract_id, prompt.prompt_pack_id) == ("PRC-SYNTHESIZE-001", "PRM-SYNTHESIZE-001")
    assert (prompt.work_order_id, prompt.idempotency_key, prompt.session_id, prompt.run_seq) == (
        WO,
        f"{WO}#1",
        SESSION,
        1,
    )
    assert (prompt.agent_id, prompt.framework_id, prompt.config_digest) == (
        "ADMIN",
        "FMWK-107",
        shipped_snapshot().digest,
    )
    assert (prompt.domain_tags, prompt.model_id, prompt.budget_mode) == (["d"], "m", "enforce")
    assert (prompt.max_tokens, prompt.temperature, prompt.output_schema) == (4096, 0.2, None)
    assert prompt.token_budget == 99
    assert [tool.tool_id for tool in prompt.tools] == ["session_cost", "list_packages"]
    segments = {segment.name: segment for message in prompt.messages for segment in message.segments}
    assert segments["user_input"].ref == "RunRequested:i1/1"
    assert segments["system"].text == shipped_snapshot().agents["ADMIN"].system_prompt


@pytest.mark.parametrize(
    ("limits", "max_tokens"),
    [({}, 4096), ({"token_budget": 4095}, 4096), ({"max_tokens": 4097}, 4096), ({"max_tokens": 7}, 7)],
)
def test_max_tokens_is_the_least_of_contract_and_order(limits: dict[str, Any], max_tokens: int) -> None:
    gateway = ScriptedGateway(answer("x"))
    run_one(gateway, order(constraints=limits))
    assert gateway.prompts[0].max_tokens == max_tokens


def test_tool_rounds_reach_the_model() -> None:
    asked = ToolCall(call_id="001", tool_id="list_packages", arguments={})
    result = Segment(name="001", ref="WO_COMPLETED:w/i/1", text="{}")
    gateway = ScriptedGateway(answer("x"))
    run_one(gateway, order(exchanges=[Exchange(tool_calls=[asked], results=[result])]))
    assert [message.role for message in gateway.prompts[0].messages] == ["system", "user", "assistant", "tool"]
    assert gateway.prompts[0].messages[-1].segments == [result]


THEIRS = ToolSpec(tool_id="get_weather", description="the weather", parameters={"type": "object"})
ASKS = [ToolCall(call_id="001", tool_id="get_weather", arguments={})]


def test_a_callers_tools_are_offered_beside_the_agents_own() -> None:
    """A call of one completes its order: whoever asked runs it."""
    gateway = ScriptedGateway(answer("", tool_calls=ASKS, finish_reason="tool_calls"))
    limits = {"tools_allowed": ["list_packages"], "caller_tools": [THEIRS]}
    receipt, _ = run_one(gateway, order(constraints=limits))
    assert [tool.tool_id for tool in gateway.prompts[0].tools] == ["list_packages", "get_weather"]
    assert gateway.prompts[0].tool_choice == "auto"
    assert receipt.output_result is not None
    assert (receipt.output_result.tool_calls, receipt.output_result.tools_invented) == (ASKS, [])


@pytest.mark.parametrize("allowed", ["list_packages", "*"])
def test_a_callers_tool_with_the_name_of_an_own_one_fails_its_order(allowed: str) -> None:
    """No model is asked: nobody could tell which of the two it means."""
    gateway = ScriptedGateway()
    limits = {"tools_allowed": [allowed], "caller_tools": [THEIRS.model_copy(update={"tool_id": "list_packages"})]}
    receipt, _ = run_one(gateway, order(constraints=limits))
    assert receipt.error is not None
    assert receipt.error.code == "tool_name_taken"
    assert gateway.prompts == []


def test_where_a_call_is_required_the_callers_tools_are_offered_alone_and_a_text_is_asked_to_be_one() -> None:
    gateway = ScriptedGateway(answer("sunny"), answer("", tool_calls=ASKS, finish_reason="tool_calls"))
    limits = {"tools_allowed": ["list_packages"], "caller_tools": [THEIRS], "tool_choice": "required"}
    receipt, _ = run_one(gateway, order(constraints=limits))
    first, second = gateway.prompts
    assert ([tool.tool_id for tool in first.tools], first.tool_choice) == (["get_weather"], "required")
    assert "a call of one of the tools" in second.messages[-1].text
    assert receipt.state == "completed"


def test_tools_are_brought_once_and_again_to_a_gateway_that_has_started_since() -> None:
    """The model of each order is told of all of them."""
    gateway = ScriptedGateway(*[answer("sunny")] * 4)
    with cluster(gateway) as made:

        async def main() -> None:
            for number in range(1, 5):
                if number == 4:
                    gateway.parts = SharedParts()
                limits = {"tools_allowed": ["list_packages"], "caller_tools": [THEIRS] if number == 3 else []}
                receipt = await made.execute(order(wo_id=f"{WO}{number}", constraints=limits))
                assert receipt.state == "completed"

        made.world.run(main())
    assert gateway.brought == [1, 0, 2, 0, 1]
    assert [[tool.tool_id for tool in one.tools] for one in gateway.prompts] == [
        ["list_packages"], ["list_packages"], ["list_packages", "get_weather"], ["list_packages"],
    ]  # fmt: skip


def test_an_answer_that_asks_for_tools_completes_its_order() -> None:
    """The loop is HO2's; such an answer is not held against the output schema."""
    calls = [ToolCall(call_id="001", tool_id="list_packages", arguments={})]
    gateway = ScriptedGateway(answer("", tool_calls=calls, finish_reason="tool_calls"))
    receipt, _ = run_one(gateway, order(constraints={"tools_allowed": ["list_packages"]}))
    assert receipt.output_result is not None
    assert (receipt.output_result.tool_calls, receipt.output_result.finish_reason) == (calls, "tool_calls")
    assert receipt.output_result.text.ref is None


def test_tools_that_the_model_was_not_told_of_are_named() -> None:
    calls = [ToolCall(call_id=f"00{n}", tool_id=name, arguments={}) for n, name in ((1, "brew"), (2, "list_packages"))]
    gateway = ScriptedGateway(answer("", tool_calls=calls, finish_reason="tool_calls"))
    receipt, _ = run_one(gateway, order(constraints={"tools_allowed": ["list_packages"]}))
    assert receipt.output_result is not None
    assert receipt.output_result.tools_invented == ["brew"]


def test_asking_for_tools_that_were_not_offered_is_no_answer() -> None:
    calls = [ToolCall(call_id="001", tool_id="list_packages", arguments={})]
    gateway = ScriptedGateway(answer("", tool_calls=calls), answer("", tool_calls=calls))
    assert code_of(run_one(gateway, order())[0]) == "output_schema_invalid"


def test_a_fenced_document_is_parsed() -> None:
    receipt, _ = run_one(ScriptedGateway(answer(f"```json\n{GOOD}\n```")), order("classify"))
    assert receipt.output_result is not None
    assert receipt.output_result.parsed == {"speech_act": "question", "ambiguity": "low"}


def test_one_repair_with_its_own_number_and_the_budget_that_is_left() -> None:
    gateway = ScriptedGateway(answer("no json", content_ref="PROMPT_RECEIVED:k/1"), answer(GOOD))
    receipt, events = run_one(gateway, order("classify", constraints={"token_budget": 400}))
    assert receipt.state == "completed"
    assert (receipt.cost.llm_calls, receipt.cost.total_tokens) == (2, 220)
    assert receipt.prompt_received_ids == [f"PROMPT_RECEIVED:{WO}#1/1", f"PROMPT_RECEIVED:{WO}#2/1"]
    first, second = gateway.prompts
    assert (second.idempotency_key, first.max_tokens, second.max_tokens) == (f"{WO}#2", 500, 500)
    assert (first.token_budget, second.token_budget) == (400, 400)
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[-2].segments[0].ref == "PROMPT_RECEIVED:k/1"
    assert events == []


def test_a_second_bad_answer_fails_the_order() -> None:
    gateway = ScriptedGateway(answer("no json §"), answer('{"speech_act": "§", "ambiguity": "low"}'))
    receipt, events = run_one(gateway, order("classify"))
    assert code_of(receipt) == "output_schema_invalid"
    assert receipt.error is not None
    assert "$.speech_act: enum" in receipt.error.message
    assert "§" not in receipt.error.message
    assert (receipt.cost.llm_calls, events) == (2, ["WO_FAILED"])


def test_no_repair_without_budget() -> None:
    gateway = ScriptedGateway(answer("no json"), answer(GOOD))
    assert (
        code_of(run_one(gateway, order("classify", constraints={"token_budget": 110, "budget_mode": "enforce"}))[0])
        == "output_schema_invalid"
    )
    assert len(gateway.prompts) == 1
    other = ScriptedGateway(answer("no json"), answer(GOOD))
    assert (
        run_one(other, order("classify", constraints={"token_budget": 111, "budget_mode": "enforce"}))[0].state
        == "completed"
    )


@pytest.mark.parametrize("content", ["", " \n"])
def test_an_empty_answer_is_never_a_completed_order(content: str) -> None:
    gateway = ScriptedGateway(answer(content), answer(content))
    assert code_of(run_one(gateway, order())[0]) == "answer_cut"
    assert len(gateway.prompts) == 2


@pytest.mark.parametrize("outcome", ["REJECTED", "TIMEOUT", "ERROR"])
def test_the_outcome_counts_before_the_content(outcome: str) -> None:
    refusal = answer(GOOD, outcome=outcome, error_code="BUDGET_EXHAUSTED", error_message="session: 0 left")
    receipt, events = run_one(ScriptedGateway(refusal), order("classify"))
    assert code_of(receipt) == "BUDGET_EXHAUSTED"
    assert receipt.cost.llm_calls == 0
    assert events == ["WO_FAILED"]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"constraints": {"prompt_contract_id": "PRC-NONE-001"}}, "contract_not_found"),
        ({"constraints": {"prompt_contract_id": ""}}, "contract_not_found"),
        ({"constraints": {"token_budget": 0, "budget_mode": "enforce"}}, "budget_exhausted"),
        ({"input_context": []}, "input_schema_invalid"),
        ({"input_context": [Segment(name="user_input", text=" ")]}, "input_schema_invalid"),
        ({"config_digest": "sha256:0"}, "execution_error"),
    ],
)
def test_what_is_wrong_with_an_order_is_a_code_and_no_call(changed: dict[str, Any], code: str) -> None:
    gateway = ScriptedGateway()
    receipt, events = run_one(gateway, order(**changed))
    assert (code_of(receipt), gateway.prompts, events) == (code, [], ["WO_FAILED"])


@pytest.mark.parametrize("state", ["planned", "executing", "completed", "failed"])
def test_only_a_dispatched_order_is_executed(state: str) -> None:
    with cluster(ScriptedGateway()) as made:
        with pytest.raises(RuntimeFault) as caught:
            made.world.run(made.execute(order(state=state)))
        assert caught.value.code == "rejected"
        assert made.world.run(made.events()) == []


# --- the gateway away, deadlines, cancels -----------------------------------------------------------------------------


def test_a_fault_that_may_pass_is_asked_again_under_the_same_key() -> None:
    gateway = ScriptedGateway(BusError("busy", "full"), BusError("peer_lost", "gone"), answer("x"))
    receipt, _ = run_one(gateway, order())
    assert receipt.state == "completed"
    assert [prompt.idempotency_key for prompt in gateway.prompts] == [f"{WO}#1"] * 3


def test_a_fault_that_will_not_pass_fails_the_order_at_once() -> None:
    gateway = ScriptedGateway(BusError("malformed", "no"), answer("x"))
    assert code_of(run_one(gateway, order())[0]) == "execution_error"
    assert len(gateway.prompts) == 1


def test_a_denied_call_ends_no_order_in_the_record() -> None:
    """Its worker was cut off for a moment, and another one has the order by now, whose end is the one that counts."""
    gateway = ScriptedGateway(BusError("denied", "foreign id"), answer("x"))
    with cluster(gateway) as made:
        with pytest.raises(BusError, match="foreign id"):
            made.world.run(made.execute(order()))
        assert made.world.run(made.events()) == []
    assert len(gateway.prompts) == 1


@pytest.mark.parametrize("gateway", [ScriptedGateway(hangs=True), None])
def test_an_order_ends_by_its_own_time_out(gateway: ScriptedGateway | None) -> None:
    with cluster(gateway) as made:
        made.world.run(made.world.settled())
        before = made.ho2.clock.monotonic()
        receipt = made.world.run(made.execute(order(constraints={"timeout_seconds": 4.0})))
        took_s, events = made.ho2.clock.monotonic() - before, made.world.run(made.events())
        assert (code_of(receipt), events) == ("deadline_exceeded", ["WO_FAILED"])
        assert 3.8 <= took_s <= 4.1


def test_an_order_ends_before_its_envelope_does() -> None:
    """A reserve is kept for the record and the receipt: the requester gets a receipt, not silence."""
    with cluster(ScriptedGateway(hangs=True)) as made:
        assert (
            code_of(made.world.run(made.execute(order(constraints={"timeout_seconds": 500.0}), timeout_s=2.0)))
            == "deadline_exceeded"
        )


@pytest.mark.parametrize("given", ["model", "tool"])
def test_a_cancel_reaches_the_gateway_or_the_tool_and_is_recorded(given: str) -> None:
    gateway = ScriptedGateway(hangs=True)
    effects = Effects()
    with cluster(gateway, tools=effects.tools()) as made:
        effects.gate = asyncio.Event()

        async def main() -> tuple[list[Entry], list[str]]:
            work = order() if given == "model" else tool_order("show_config")
            task = asyncio.get_running_loop().create_task(made.execute(work))
            await made.until(lambda: bool(gateway.prompts or effects.runs))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await made.ho2.sleep(0.1)
            assert made.actors[0].counters()["at_work"] == 0
            return await made.entries(), await made.events()

        entries, events = made.world.run(main())
        receipt = read_receipt(entries[-1])
        assert receipt is not None
        # What an unanswered call cost stands in the gateway's record alone.
        assert receipt.cost.cost_usd == (None if given == "model" else 0.0)
        assert entries[-1].reason == "cancelled"
        assert events == (["WO_FAILED"] if given == "model" else ["TOOL_STARTED", "WO_FAILED"])
        assert gateway.cancelled == ([f"{WO}#1"] if given == "model" else [])


# --- delivered again --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_repeat_brings_the_same_again(succeeds: bool) -> None:
    """By another worker too: a failure from the record, an answer by its call key, of which there is one call."""
    gateway = ScriptedGateway(
        answer("x", content_ref="PROMPT_RECEIVED:k/1")
        if succeeds
        else answer("", outcome="ERROR", error_code="PROVIDER_ERROR")
    )
    with cluster(gateway, executors=2) as made:
        first = made.world.run(made.execute(order()))
        for attempt in (2, 3):
            again = made.world.run(made.execute(order(), attempt=attempt))
            assert (again.output_result, again.error) == (first.output_result, first.error)
            assert succeeds or again == first
        assert len(gateway.prompts) == 1
        assert made.world.run(made.events()) == ([] if succeeds else ["WO_FAILED"])


def test_two_deliveries_at_once_give_one_end_and_one_answer() -> None:
    """Both workers ask under one key, so one call is made and both say the same; who asked takes one of them."""
    gateway = ScriptedGateway(answer("x"))
    with cluster(gateway, executors=2) as made:

        async def main() -> None:
            await made.world.settled()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(made.execute(order(), message_id=f"m{n}")) for n in range(2)]
            receipts = [task.result() for task in tasks]
            assert [one.output_result and one.output_result.text.text for one in receipts] == ["x", "x"]
            await made.ho2.sleep(0.1)
            assert (await made.events(), len(gateway.prompts)) == ([], 1)

        made.world.run(main())


def test_two_deliveries_to_one_worker_are_one_execution() -> None:
    gateway = ScriptedGateway(answer("x"))
    with cluster(gateway) as made:

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(made.execute(order(), message_id=f"m{n}")) for n in range(2)]
            assert tasks[0].result() == tasks[1].result()
            assert (await made.events(), len(gateway.prompts)) == ([], 1)

        made.world.run(main())


def test_a_worker_killed_in_a_model_call_is_followed_by_another() -> None:
    gateway = ScriptedGateway(answer("x"))
    gateway.hangs = True
    with cluster(gateway, executors=1) as made:

        async def main() -> Receipt:
            task = asyncio.get_running_loop().create_task(made.execute(order()))
            await made.until(lambda: bool(gateway.prompts))
            gateway.hangs = False
            made.world.kill(made.executors[0].instance)
            made.executor()
            return await task

        assert made.world.run(main()).executed_by == "ho1/2@s2"
        assert {prompt.idempotency_key for prompt in gateway.prompts} == {f"{WO}#1"}


GIVEN_UP = pytest.mark.parametrize("given", [tool_order(), tool_order("show_config")], ids=["idempotent tool", "tool"])


@GIVEN_UP
def test_no_tool_begins_once_its_order_was_given_up(given: WorkOrder) -> None:
    """A worker that was frozen or cut off comes back: somebody was told that nothing was done."""
    effects = Effects()
    with cluster(ScriptedGateway(answer("x")), tools=effects.tools()) as made:
        made.world.run(made.give_up(given, "deadline_exceeded"))
        receipt = made.world.run(made.execute(given))
        assert receipt.error is not None and receipt.error.code == "deadline_exceeded"
        assert (effects.runs, made.world.run(made.events())) == ([], ["WO_FAILED"])


@GIVEN_UP
def test_a_success_after_the_order_was_given_up_is_kept_as_late(given: WorkOrder) -> None:
    """A true success is hidden from nobody and changes nothing; what waits for its end answers the end that stands."""
    effects = Effects()
    with cluster(ScriptedGateway(answer("x")), tools=effects.tools()) as made:

        async def main() -> Receipt:
            await made.world.settled()
            effects.gate = asyncio.Event()
            work = asyncio.get_running_loop().create_task(made.execute(given))
            await made.until(lambda: bool(effects.runs))
            await made.give_up(given, "unknown_outcome")
            effects.gate.set()
            return await work

        receipt = made.world.run(main())
        made.world.run(made.ho2.sleep(0.1))
        assert given.tool_call is not None
        assert (receipt.state == "failed") is (given.tool_call.tool_id == "show_config")
        assert made.world.run(made.events()) == ["TOOL_STARTED", "WO_FAILED", "WO_LATE"]


def test_a_models_answer_does_not_wait_for_the_record() -> None:
    """The ledger is away: the answer comes at once, and again to whoever delivers it again."""
    gateway = ScriptedGateway(answer("x"))
    with cluster(gateway) as made:
        made.world.run(made.world.settled())
        made.kill_ledger()
        asked_at = made.ho2.now()
        receipt = made.world.run(made.execute(order()))
        assert made.ho2.now() - asked_at < 0.1
        made.start_ledger()
        again = made.world.run(made.execute(order(), attempt=2))
        assert again.output_result == receipt.output_result
        assert (made.world.run(made.events()), len(gateway.prompts)) == ([], 1)


@pytest.mark.parametrize(("brings", "events"), [({}, []), ({"file": File(data=b"1")}, ["WO_COMPLETED"])])
def test_a_tool_that_only_reads_runs_again_and_leaves_a_record_of_what_no_receipt_has(
    brings: dict[str, Any], events: list[str]
) -> None:
    """Nobody asks whether it was begun before, by whomever: doing it again is harmless. Its files stand in its end."""
    effects = Effects()
    effects.brings = brings
    with cluster(None, tools=effects.free()) as made:
        made.world.run(made.world.settled())
        first = made.world.run(made.execute(tool_order()))
        again = made.world.run(made.execute(tool_order(), attempt=2))
        assert first.output_result is not None and first.output_result == again.output_result
        assert len(effects.runs) == 2 - len(events)
        made.world.run(made.ho2.sleep(0.5))
        assert made.world.run(made.events()) == events


@pytest.mark.parametrize(
    ("tool_id", "brings", "waits"),
    [("list_packages", {}, False), ("show_config", {}, True), ("list_packages", {"file": File(data=b"1")}, True)],
)
def test_an_answer_waits_for_its_end_in_the_record_unless_the_tool_is_idempotent(
    tool_id: str, brings: dict[str, Any], waits: bool
) -> None:
    """While the ledger is away there is no receipt of what must not be done twice, nor of files, which stand there alone."""
    effects = Effects()
    effects.brings = brings
    gate = effects.gate = asyncio.Event()
    with cluster(None, tools=effects.tools()) as made:

        async def main() -> None:
            await made.world.settled()
            task = asyncio.get_running_loop().create_task(made.execute(tool_order(tool_id)))
            await made.until(lambda: bool(effects.runs))
            made.kill_ledger()
            gate.set()
            await made.ho2.sleep(0.5)
            assert task.done() is not waits
            made.start_ledger()
            assert (await task).state == "completed"
            await made.ho2.sleep(0.5)
            assert await made.events() == ["TOOL_STARTED", "WO_COMPLETED"]

        made.world.run(main())


# --- readiness --------------------------------------------------------------------------------------------------------


def test_an_executor_without_gateway_is_degraded_and_says_why() -> None:
    with cluster(None) as made:
        made.world.run(made.ho2.sleep(5.0))
        state, receipt = made.executors[0].state, made.world.run(made.execute(tool_order()))
        assert state[0] == "degraded"
        assert state[1].startswith("gateway: ")
        assert receipt.state == "completed"


def test_counters_tell_how_orders_ended() -> None:
    with cluster(ScriptedGateway(answer("x"))) as made:
        made.world.run(made.execute(order()))
        made.world.run(made.execute(tool_order("nonsense", wo_id=f"{WO}.001")))
        made.world.run(made.execute(tool_order("nonsense", wo_id=f"{WO}.001"), attempt=2))
        assert made.actors[0].counters() == {"completed": 1, "failed": 1, "replayed": 1, "at_work": 0}


def test_a_draining_worker_finishes_what_it_has() -> None:
    """And a stop never fails an order: what is not done is given back."""
    gateway = ScriptedGateway(answer("x"), hangs=True)
    with cluster(gateway) as made:

        async def main() -> Receipt:
            task = asyncio.get_running_loop().create_task(made.execute(order()))
            await made.until(lambda: bool(gateway.prompts))
            gateway.hangs = False
            await made.world.stop(made.executors[0].instance, 0.05)
            assert await made.events() == []
            made.executor()
            return await task

        receipt = made.world.run(main())
        assert (receipt.state, receipt.executed_by) == ("completed", "ho1/2@s2")
