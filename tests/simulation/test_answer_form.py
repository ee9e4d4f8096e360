"""Answers in the form that whoever asks wants, in the simulated cluster: told to the model, judged, repaired, recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import SessionConfig, SessionReady, StartSession
from hobus.bus.messages.work_order import ToolCall
from hobus.bus.record.journal import read_event
from tests.actors.ho2_supervisor.rig import snapshot
from tests.journals import check_record, count_of, list_answers, tool_runs
from tests.simulated import SimulatedCluster
from tests.simulation.test_caller_tools import Scripted, turn
from tests.simulation.turns import with_thinking

CITY = {
    "type": "object", "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["city", "people"], "additionalProperties": False,
}  # fmt: skip
WANTED = SessionConfig(output_schema=CITY)
ASKS = "city: Bern, people: 134000"
BERN = '{"city": "Bern", "people": 134000}'


class Refusing(Scripted):
    """A model that says in words that it gives no such answer."""

    async def complete(self, prompt: Prompt, **more: Any) -> PromptResponse:  # type: ignore[override]
        """As a provider tells of it."""
        answered = await super().complete(prompt, **more)
        is_asked = prompt.contract_id == "PRC-SYNTHESIZE-001"
        return answered.model_copy(update={"finish_reason": "refusal"}) if is_asked else answered


def scripted(*answers: str) -> Scripted:
    """A model that answers in this order."""
    left = list(answers)
    return Scripted(lambda _prompt: left.pop(0))


def asked(model: Scripted, text: str = "tell me", **fields: Any) -> tuple[Any, list[Entry]]:
    """One turn in this form, and the record after it."""
    with SimulatedCluster(shipped_snapshot(), providers={"offline": model}) as cluster:
        result = turn(cluster, "in-1", text, **{"run_overrides": WANTED, **fields})
        entries = cluster.entries()
        assert cluster.verify().ok
    check_record(entries)
    return result, entries


def test_the_answer_has_the_form_that_was_asked_for_and_the_record_says_so():
    """By the embedded model; the run's settings stand in RunRequested, and once more with the order."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        result = turn(cluster, "in-1", ASKS, run_overrides=WANTED)
        entries = cluster.entries()
        check_record(entries)
    assert (result.outcome, result.refused, json.loads(result.response)) == ("success", False, json.loads(BERN))
    [requested] = [entry for entry in entries if entry.event_type == "RunRequested"]
    assert read_event(requested).event.run_overrides.output_schema == CITY
    assert count_of(entries, "PROMPT_SENT") == 2


def test_a_model_is_told_the_form_in_words_and_beside_them():
    """Its user's message ends with the schema; the provider is asked to keep it; the classification is not."""
    model = scripted(BERN)
    asked(model)
    [prompt] = model.prompts
    assert (prompt.output_schema, prompt.structured_output) == (CITY, True)
    assert json.dumps(CITY) in prompt.messages[-2].text


def test_an_answer_that_does_not_fit_is_repaired():
    """One further call, which shows the model what it said and what is wrong with it."""
    unfit = ("It is Bern.", '{"city": "Bern"}', '{"city": "Bern", "people": -1}', "[]", f"{BERN} as you asked", "")
    model = scripted(*(answer for first in unfit for answer in (first, BERN)))
    with SimulatedCluster(snapshot(("ho3.enabled", False)), providers={"offline": model}) as cluster:
        for number, first in enumerate(unfit, 1):
            result = turn(cluster, f"in-{number}", "tell me", run_overrides=WANTED)
            assert (result.outcome, result.response, len(model.prompts)) == ("success", BERN, 2 * number), first
            assert "was not accepted" in model.prompts[-1].messages[-1].text, first
        entries = cluster.entries()
    assert count_of(entries, "DEGRADATION") == 0
    check_record(entries)


def test_a_fence_around_the_answer_is_not_part_of_it():
    """A program reads it: what it gets is JSON, also when it asks again."""
    with SimulatedCluster(shipped_snapshot(), providers={"offline": scripted(f"```json\n{BERN}\n```\n")}) as cluster:
        first = turn(cluster, "in-1", "tell me", run_overrides=WANTED)
        again = turn(cluster, "in-1", "tell me", run_overrides=WANTED, session_id=first.session_id)
        check_record(cluster.entries())
    assert first.response == again.response == BERN


def test_an_answer_that_never_fits_is_refused_with_what_is_wrong():
    """A verdict, durable like any other: nobody degrades to an answer in words, and asked again it is the same."""
    with SimulatedCluster(shipped_snapshot(), providers={"offline": scripted("no", '{"city": 1}', "x")}) as cluster:
        first = turn(cluster, "in-1", "tell me", run_overrides=WANTED)
        again = turn(cluster, "in-1", "tell me", run_overrides=WANTED, session_id=first.session_id)
        entries = cluster.entries()
        check_record(entries)
    assert (first.outcome, first.code) == ("error", "format_not_met")
    assert "$.city: type" in first.response and "missing people" in first.response
    assert again == first
    assert count_of(entries, "DEGRADATION") == 0


def test_a_model_that_refuses_is_heard():
    """No repair, no verdict: its words, marked as what they are."""
    model = Refusing(lambda _prompt: "I will not say.")
    result, _ = asked(model)
    assert (result.outcome, result.refused, result.response) == ("success", True, "I will not say.")
    assert len(model.prompts) == 1


def test_without_a_form_a_refusal_is_an_answer_as_before():
    """Nobody reads it by a program."""
    result, _ = asked(Refusing(lambda _prompt: "I will not say."), run_overrides=None)
    assert (result.refused, result.response) == (False, "I will not say.")


def test_calls_come_before_the_form():
    """A tool that the agent runs itself, then the answer in its form."""
    told: Callable[[Prompt], list[ToolCall] | str] = lambda prompt: (  # noqa: E731
        BERN
        if any(message.role == "tool" for message in prompt.messages)
        else [ToolCall(call_id="001", tool_id="list_packages", arguments={})]
    )
    result, entries = asked(Scripted(told))
    assert (result.response, tool_runs(entries)) == (BERN, 1)


def test_the_same_input_in_another_form_is_another_request():
    """409 at the door; the same form again is the same request, also after the owner has died."""
    other = SessionConfig(output_schema={"type": "object"})
    with SimulatedCluster(shipped_snapshot()) as cluster:
        first = turn(cluster, "in-1", ASKS, run_overrides=WANTED)
        about = {"session_id": first.session_id}
        answers = [
            turn(cluster, "in-1", ASKS, run_overrides=wanted, **about).code or "" for wanted in (other, None, WANTED)
        ]
        turn(cluster, "in-2", "hello", run_overrides=None, **about)
        victim = cluster.oldest("ho2")
        assert victim is not None
        cluster.world.kill(victim)
        cluster.start("ho2")
        cluster.world.run(asyncio.sleep(1))
        after = [
            turn(cluster, "in-1", ASKS, run_overrides=wanted, **about).code or "" for wanted in (other, None, WANTED)
        ]
        entries = cluster.entries()
        check_record(entries)
    assert answers == after == ["input_conflict", "input_conflict", ""]
    assert list_answers(entries, "in-1") == [f"RunCompleted:{first.run_id}"]


def test_a_host_that_answers_for_a_supervisor_tells_forms_apart_too():
    """Of an input that is in the record, with nobody else there to ask."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        first = turn(cluster, "in-1", ASKS, run_overrides=WANTED)
        victim = cluster.oldest("ho2")
        assert victim is not None
        cluster.world.kill(victim)
        same = turn(cluster, "in-1", ASKS, run_overrides=WANTED, session_id=first.session_id)
        other = turn(cluster, "in-1", ASKS, run_overrides=None, session_id=first.session_id)
    assert (same.response, other.code) == (first.response, "input_conflict")


PATTERN = {"type": "object", "properties": {"city": {"type": "string", "pattern": "^(a+)+$"}}, "required": ["city"]}
DOUBLING = {
    "type": "object",
    "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": {}},
    "allOf": [{"$ref": "#/$defs/d0"}],
}


@pytest.fixture(scope="module")
def idle() -> Iterator[SimulatedCluster]:
    """A cluster in which no turn is begun, whoever asks for one."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        yield cluster
        assert count_of(cluster.entries(), "RunRequested") == 0


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array"}, "does not describe an object"),
        ({"type": "object", "properties": {"a": {"type": "nothing"}}}, "is no JSON Schema at $.properties.a.type"),
        ({"$ref": "#/$defs/none"}, "refers to a missing definition"),
        ({"$ref": "http://127.0.0.1/schema"}, "refers to something outside itself"),
        ({"description": "x" * 40_000}, "at most 32768 are taken"),
        (DOUBLING, "would check one value too often"),
    ],
)
def test_an_illegal_form_is_refused_before_anything_is_asked(idle, schema, said):
    """By its field; in a session's settings as in a turn's."""
    result = turn(idle, "in-1", "hello", run_overrides=SessionConfig(output_schema=schema))
    assert (result.outcome, result.code) == ("error", "invalid_input")
    assert result.response.startswith("output_schema ") and said in result.response


def test_a_pattern_that_other_engines_take_for_ever_to_match_costs_nothing():
    """It is matched in linear time; the answer simply is not of that form."""
    model = scripted(*[json.dumps({"city": "a" * 60 + "!"})] * 2, "hello yourself")
    with SimulatedCluster(shipped_snapshot(), providers={"offline": model}) as cluster:
        result = turn(cluster, "in-1", "tell me", run_overrides=SessionConfig(output_schema=PATTERN))
        after = turn(cluster, "in-2", "hello", run_overrides=None)
    assert (result.outcome, result.code) == ("error", "format_not_met") and "$.city: pattern" in result.response
    assert after.outcome == "success"


def test_a_session_may_want_a_form_of_all_its_answers():
    """As any of its settings; a turn's own goes before it."""
    other = SessionConfig(output_schema={"type": "object", "properties": {"x": {"const": 1}}, "required": ["x"]})
    with SimulatedCluster(shipped_snapshot()) as cluster:
        started = StartSession(session_id="00000000-0000-4000-8000-000000000001", session_config=WANTED)
        ready = cluster.world.run(cluster.door.request("host", started, expect=SessionReady, timeout_s=5))
        first = turn(cluster, "in-1", ASKS, session_id=ready.session_id, run_overrides=None)
        second = turn(cluster, "in-2", ASKS, session_id=ready.session_id, run_overrides=other)
    assert json.loads(first.response) == json.loads(BERN)
    assert json.loads(second.response) == {"x": 1}


@pytest.mark.parametrize("role", ["ho1", "ho2", "gateway"])
def test_a_turn_in_a_form_survives_the_loss_of_a_process(role):
    """In the middle of its classification, and of its answer: one answer, in its form."""
    with SimulatedCluster(with_thinking(shipped_snapshot(), 100)) as cluster:
        for moment_s in (0.02, 0.12):
            victim = cluster.oldest(role)
            cluster.strike(role, after_s=moment_s, back_after_s=0.3)
            first = turn(cluster, f"in-{moment_s}", ASKS, run_overrides=WANTED)
            again = turn(cluster, f"in-{moment_s}", ASKS, run_overrides=WANTED, session_id=first.session_id)
            assert first.response == again.response
            assert json.loads(first.response) == json.loads(BERN)
            cluster.world.run(asyncio.sleep(1))
            assert cluster.oldest(role) != victim
        check_record(cluster.entries())
