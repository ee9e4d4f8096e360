"""Tools of whoever asks, in the simulated cluster: handed out, answered with the next turn, one record of it all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import CallResult, ProcessTurn, SessionConfig, TurnResult
from hobus.bus.messages.work_order import ToolCall, ToolSpec
from hobus.bus.record.journal import read_event
from hobus.launch.sessions.turns import process_turn
from tests.journals import check_record, list_answers, tool_runs
from tests.simulated import SimulatedCluster
from tests.simulation.turns import CLASSIFY, with_thinking

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec(tool_id="get_weather", description="The weather of a city.", parameters=CITY)
CLOCK = ToolSpec(tool_id="get_time", description="The time in a city.", parameters=CITY)
THEIRS = SessionConfig(caller_tools=[WEATHER, CLOCK])
ASKS = 'use get_weather {"city": "Bern"}'


def turn(
    cluster: SimulatedCluster, input_id: str, text: str = "", *, timeout_s: float = 60.0, **fields: Any
) -> TurnResult:
    """One turn through the host, asked again as every client does."""
    asked = ProcessTurn(**{"session_id": None, "input_id": input_id, "text": text, "run_overrides": THEIRS, **fields})
    return cluster.world.run(process_turn(cluster.door, asked, timeout_s=timeout_s))


def results(asked: TurnResult, *contents: str) -> list[CallResult]:
    """What the calls of a turn brought."""
    return [
        CallResult(tool_call_id=call.tool_call_id, content=content)
        for call, content in zip(asked.caller_calls, contents, strict=True)
    ]


class Scripted:
    """A provider whose model does what a script says of each prompt that is not a classification."""

    provider_id = "offline"

    def __init__(self, script: Callable[[Prompt], list[ToolCall] | str]) -> None:
        self.script = script
        self.prompts: list[Prompt] = []

    async def prepare(self) -> None:
        """It needs nothing."""

    async def complete(
        self, prompt: Prompt, *, model_id: str, timeout_s: float, on_delta: Callable[[str], None] | None = None
    ) -> PromptResponse:
        """What the script says."""
        if prompt.contract_id == CLASSIFY:
            said: list[ToolCall] | str = json.dumps({"speech_act": "command", "ambiguity": "low"})
        else:
            self.prompts.append(prompt)
            said = self.script(prompt)
        calls = [] if isinstance(said, str) else said
        return PromptResponse(
            outcome="SUCCESS", content=said if isinstance(said, str) else "", tool_calls=calls, input_tokens=1,
            output_tokens=1, finish_reason="tool_calls" if calls else "stop", model_id="offline-rules-1",
        )  # fmt: skip


def call(number: int, tool_id: str, **arguments: Any) -> ToolCall:
    """A call as a provider's wire reads it."""
    return ToolCall(call_id=f"{number:03d}", provider_call_id=f"toolu_{number}", tool_id=tool_id, arguments=arguments)


def shown(prompt: Prompt) -> list[tuple[str, str, list[str]]]:
    """The transcript behind the pack's messages: role, text, tools asked for."""
    at = max(number for number, message in enumerate(prompt.messages) if message.role == "user")
    return [(m.role, m.text, [one.tool_id for one in m.tool_calls]) for m in prompt.messages[at + 1 :]]


def test_a_model_sees_its_call_and_the_result_as_messages_of_their_own():
    """Its own earlier rounds, its call under the provider's id and the result stand behind the prompt as it was."""

    def script(prompt: Prompt) -> list[ToolCall] | str:
        spoken = [message for message in prompt.messages if message.role == "tool"]
        if not spoken:
            return [call(1, "list_packages")]
        return [call(1, "get_weather", city="Bern"), call(2, "get_time", city="Bern")] if len(spoken) == 1 else "done"

    model = Scripted(script)
    with SimulatedCluster(shipped_snapshot(), providers={"offline": model}) as cluster:
        asked = turn(cluster, "in-1", "weather and time in Bern?")
        turn(cluster, "in-2", session_id=asked.session_id, results=results(asked, "sunny", "noon"))
        check_record(cluster.entries())
    first, second, third = model.prompts
    assert [tool.tool_id for tool in first.tools][-2:] == ["get_weather", "get_time"]
    assert "list_packages" in [tool.tool_id for tool in first.tools]
    assert third.messages[: len(second.messages)] == second.messages
    assert [(role, text, tools) for role, text, tools in shown(third) if role != "tool"] == [
        ("assistant", "", ["list_packages"]), ("assistant", "", ["get_weather", "get_time"]),
    ]  # fmt: skip
    asking, *told = third.messages[-3:]
    assert [one.provider_call_id for one in asking.tool_calls] == ["toolu_1", "toolu_2"]
    assert [(m.tool_call_id, m.text) for m in told] == [("001", "sunny"), ("002", "noon")]
    assert [m.segments[0].ref for m in told] == [f"RunRequested:{asked.session_id}/in-2/{n}" for n in (2, 3)]


def test_calls_of_both_kinds_in_one_answer_hand_out_the_callers_alone():
    """What the agent could run itself is not run: its model asks for it again if it still needs it."""

    def script(prompt: Prompt) -> list[ToolCall] | str:
        is_first = not any(message.role == "tool" for message in prompt.messages)
        return [call(1, "list_packages"), call(2, "get_weather", city="Bern")] if is_first else "done"

    model = Scripted(script)
    with SimulatedCluster(shipped_snapshot(), providers={"offline": model}) as cluster:
        asked = turn(cluster, "in-1", "both")
        turn(cluster, "in-2", session_id=asked.session_id, results=results(asked, "sunny"))
        entries = cluster.entries()
        check_record(entries)
    assert [one.name for one in asked.caller_calls] == ["get_weather"]
    assert tool_runs(entries) == 0
    assert shown(model.prompts[-1]) == [("assistant", "", ["get_weather"]), ("tool", "sunny", [])]


def test_results_that_do_not_fit_the_open_calls_are_refused_and_change_nothing():
    """A verdict that says what is the matter, time after time; the right results are taken after it."""
    wrong = [
        ([("{id}", "sunny"), ("{id}", "rainy")], "twice"),
        ([("call_none", "sunny")], "no call"),
        ([("{id}", "sunny"), ("call_none", "x")], "no call"),
    ]
    with SimulatedCluster(shipped_snapshot()) as cluster:
        asked = turn(cluster, "in-1", ASKS)
        [handed] = asked.caller_calls
        for number, (brought, said) in enumerate(wrong):
            given = [
                CallResult(tool_call_id=name.format(id=handed.tool_call_id), content=text) for name, text in brought
            ]
            refused = turn(cluster, f"wrong-{number}", session_id=asked.session_id, results=given)
            assert (refused.outcome, refused.code) == ("error", "invalid_input"), brought
            assert said in refused.response, brought
        with_text = turn(cluster, "in-3", "and?", session_id=asked.session_id, results=results(asked, "sunny"))
        taken = turn(cluster, "in-4", session_id=asked.session_id, results=results(asked, "sunny"))
    assert with_text.code == "invalid_input"
    assert taken.response == "get_weather: sunny"


def test_a_failed_turn_leaves_the_calls_open():
    """Who sends the same results again under another input id is answered: nothing was before."""
    answers = ["none", "good"]

    def script(prompt: Prompt) -> list[ToolCall] | str:
        told = any(message.role == "tool" for message in prompt.messages)
        return answers.pop(0) if told else [call(1, "get_weather", city="Bern")]

    snapshot = shipped_snapshot()
    with SimulatedCluster(snapshot, providers={"offline": Scripted(script)}) as cluster:
        asked = turn(cluster, "in-1", "weather?")
        cancelled = turn(
            cluster, "in-2", session_id=asked.session_id, results=results(asked, "sunny"),
            run_overrides=SessionConfig(provider="nobody"),
        )  # fmt: skip
        taken = turn(cluster, "in-3", session_id=asked.session_id, results=results(asked, "sunny"))
    assert (cancelled.outcome, cancelled.code) == ("error", "PROVIDER_NOT_FOUND")
    assert taken.response == "none"


@pytest.mark.parametrize("role", ["ho1", "ho2", "gateway", "ledger", "host"])
@pytest.mark.parametrize("moments_s", [(0.001, 0.07), (0.02, 0.12)])
def test_a_turn_that_brings_results_survives_the_loss_of_a_process(role, moments_s):
    """One answer that rests on the result, or the degraded one where the record of it was away; never two."""
    answers: dict[str, TurnResult] = {}
    with SimulatedCluster(with_thinking(shipped_snapshot(), 100)) as cluster:
        for moment_s in moments_s:
            asked = turn(cluster, f"asks-{moment_s}", ASKS)
            victim = cluster.oldest(role)
            cluster.strike(role, after_s=moment_s, back_after_s=0.3)
            brings: dict[str, Any] = {"session_id": asked.session_id, "results": results(asked, "sunny")}
            answers[f"in-{moment_s}"] = answered = turn(cluster, f"in-{moment_s}", **brings)
            again = turn(cluster, f"in-{moment_s}", **brings)
            assert answered.response == again.response == "get_weather: sunny"
            cluster.world.run(asyncio.sleep(1))
            assert cluster.oldest(role) != victim
        entries = cluster.entries()
        assert cluster.verify().ok
        check_record(entries)
    for input_id, answered in answers.items():
        assert list_answers(entries, input_id) == [f"RunCompleted:{answered.run_id}"]


def test_a_degraded_turn_hands_nothing_out_and_closes_what_was_open():
    """With the supervisor away the results are answered without it, and said to be that."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        asked = turn(cluster, "in-1", ASKS)
        victim = cluster.oldest("ho2")
        assert victim is not None
        cluster.world.kill(victim)
        degraded = turn(cluster, "in-2", session_id=asked.session_id, results=results(asked, "sunny"))
        cluster.start("ho2")
        cluster.world.run(asyncio.sleep(3))
        late = turn(cluster, "in-3", session_id=asked.session_id, results=results(asked, "sunny"))
        text = turn(cluster, "in-4", "what packages are installed?", session_id=asked.session_id)
        check_record(cluster.entries())
    assert (degraded.outcome, degraded.caller_calls) == ("degraded", [])
    assert late.code == "invalid_input"
    assert text.outcome == "success"


def requested(entries: list[Entry], input_id: str) -> Entry:
    """An input's RunRequested."""
    return next(e for e in entries if e.event_type == "RunRequested" and e.submission_id.endswith(f"/{input_id}"))


def test_the_record_has_each_result_once_beside_the_words_of_its_turn():
    """Where it was said it can be erased; the request names the order that asked."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        asked = turn(cluster, "in-1", ASKS)
        turn(cluster, "in-2", session_id=asked.session_id, results=results(asked, "sunny"))
        entries = cluster.entries()
    entry = requested(entries, "in-2")
    event = read_event(entry).event
    [handed] = asked.caller_calls
    assert entry.bodies[1:] == [f"Result of {handed.tool_call_id}: sunny".encode(), b"sunny"]
    assert event.continues == f"WO-{asked.session_id}-1.2.1"
    assert event.model_dump()["results"] == [
        {"tool_call_id": handed.tool_call_id, "content_ref": f"RunRequested:{asked.session_id}/in-2/2"}
    ]
    elsewhere = [e.event_type for e in entries if e is not entry and any(b == b"sunny" for b in e.bodies)]
    assert elsewhere == []
