"""What a model gets wrong is the model's to mend, and an answer that is not whole is told as that: never asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bench.builders import shipped_snapshot, shipped_with
from hobus.actors.ho2_supervisor.limits import MISTAKES_MAX
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import SessionConfig, TurnResult
from hobus.bus.messages.work_order import ToolCall
from tests.journals import check_record, count_of, tool_runs
from tests.simulated import SimulatedCluster
from tests.simulation.test_answer_form import WANTED
from tests.simulation.test_caller_tools import THEIRS, Scripted, call, results, turn
from tests.simulation.turns import CALM

WRONG = "its arguments are no JSON: Expecting value, at character 7 of 8"


class Ending(Scripted):
    """A model whose answers end for this reason, after so much thinking."""

    def __init__(self, said: str | list[ToolCall], finish_reason: str, thought: int = 0) -> None:
        super().__init__(lambda _prompt: said)
        self.changes = {"finish_reason": finish_reason, "reasoning_tokens": thought, "output_tokens": thought + 1}

    async def complete(self, prompt: Prompt, **more: Any) -> PromptResponse:  # type: ignore[override]
        """As a provider tells of it; a classification is whole."""
        answered = await super().complete(prompt, **more)
        return answered.model_copy(update=self.changes) if prompt in self.prompts else answered


def asked(model: Scripted, **fields: Any) -> tuple[TurnResult, list[Entry]]:
    """One turn, and the record after it."""
    with SimulatedCluster(shipped_snapshot(), providers={"offline": model}) as cluster:
        result = turn(cluster, "in-1", "tell me", **{"run_overrides": None, **fields})
        entries = cluster.entries()
        assert cluster.verify().ok
    check_record(entries)
    assert count_of(entries, "DEGRADATION") == count_of(entries, "BREAKER_CHANGED") == 0
    return result, entries


def bad(number: int = 1, tool_id: str = "list_packages", fault: str = WRONG) -> ToolCall:
    """A call that its model wrote wrong."""
    return call(number, tool_id).model_copy(update={"fault": fault})


def once(calls: list[ToolCall]) -> Callable[[Prompt], list[ToolCall] | str]:
    """These first, and words once there are results."""
    return lambda prompt: "told" if any(one.role == "tool" for one in prompt.messages) else calls


def shown(model: Scripted) -> list[str]:
    """The results that the newest prompt has."""
    return [one.text for one in model.prompts[-1].messages if one.role == "tool"]


@pytest.mark.parametrize(
    ("calls", "told", "started"),
    [
        ([bad()], [f"error tool_invalid_args: nothing was run: list_packages: {WRONG}"], 0),
        ([call(1, "brew")], ["error tool_not_found: there is no tool 'brew'"], 0),
        ([bad(), call(2, "list_packages")], ["error tool_invalid_args", "PKG-"], 1),
        ([call(1, "list_files", path=7)], ["error tool_invalid_args: list_files: $"], 0),
        ([bad(tool_id="", fault="it names no tool")], ["error tool_invalid_args"], 0),
    ],
    ids=["no JSON", "made up", "beside a good one", "of another schema", "no name"],
)
def test_a_call_that_is_wrong_is_told_to_the_model_and_not_run(calls, told, started):
    """As its result; the model's next round is one like any other."""
    model = Scripted(once(calls))
    result, entries = asked(model)
    assert (result.outcome, result.response, len(model.prompts)) == ("success", "told", 2)
    assert tool_runs(entries) == started
    assert all(part in text for part, text in zip(told, shown(model), strict=True)), shown(model)


def test_a_model_that_gets_every_call_wrong_is_not_asked_for_ever():
    """A bounded number of rounds, then the verdict says what was wrong."""
    model = Scripted(lambda _prompt: [bad()])
    result, _ = asked(model)
    assert (result.outcome, result.code, len(model.prompts)) == ("error", "tool_invalid_args", MISTAKES_MAX + 1)
    assert WRONG in result.response


@pytest.mark.parametrize("wrong", [bad(tool_id="get_weather"), call(1, "get_weather", city=7)], ids=["text", "schema"])
def test_the_caller_is_handed_no_call_that_is_wrong(wrong):
    """Its model mends it first; what the caller gets fits the schema that it gave."""
    right = call(1, "get_weather", city="Bern")
    model = Scripted(lambda prompt: [right] if any(one.role == "tool" for one in prompt.messages) else [wrong])
    result, _ = asked(model, run_overrides=THEIRS)
    assert [one.arguments for one in result.caller_calls] == [{"city": "Bern"}]
    assert "error tool_invalid_args: nothing was run: get_weather: " in shown(model)[0]


def test_words_where_a_call_is_required_are_no_answer():
    """The model is told once; then the caller is."""
    model = Scripted(lambda _prompt: "I would rather talk")
    required = THEIRS.model_copy(update={"tool_choice": "required"})
    result, _ = asked(model, run_overrides=required)
    assert (result.outcome, result.code, len(model.prompts)) == ("error", "format_not_met", 2)
    assert "no tool is asked for" in result.response


@pytest.mark.parametrize("reason", ["length", "content_filter", "refusal", "pause", "too_large"])
@pytest.mark.parametrize("wanted", [None, WANTED], ids=["words", "form"])
def test_an_answer_that_is_not_whole_is_shown_as_far_as_it_came(reason, wanted):
    """One call: no repair, no other gate; its half of a form is no bad JSON."""
    model = Ending('{"city": "Be', reason)
    result, _ = asked(model, run_overrides=wanted)
    assert (result.outcome, result.response, result.cut, len(model.prompts)) == ("success", '{"city": "Be', reason, 1)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Ending("", "refusal"), "the model refused to answer"),
        (Ending("", "content_filter"), "a content filter"),
        (Ending("", "pause"), "interrupted"),
        (Ending([call(1, "list_packages")], "too_large"), "is larger than any answer that is read"),
        (Ending("", "length"), "it was cut at its cap of tokens; its cap is"),
        (Ending("", "length", thought=40), "all 41 tokens of it went into thinking"),
        (Ending("", "window"), "the window of its model was full; begin a new session, or choose a model"),
        (Ending([call(1, "list_packages")], "length"), "it was cut at its cap of tokens"),
    ],
    ids=["refusal", "filter", "pause", "too large", "length", "thinking", "window", "in a call"],
)
def test_nothing_to_show_is_a_verdict_that_says_why(model, words):
    """Asked once; nobody else answers in its place, and a call that may be cut is not run."""
    result, entries = asked(model)
    assert (result.outcome, result.code, len(model.prompts)) == ("error", "answer_cut", 1)
    assert words in result.response and tool_runs(entries) == 0


def test_an_answer_that_was_all_thought_says_so_once_it_was_asked_for_in_words():
    """It ended by itself: once more is a fair try."""
    model = Ending("", "stop", thought=9)
    result, _ = asked(model)
    assert (result.code, len(model.prompts)) == ("answer_cut", 2) and "went into thinking" in result.response


def test_an_answer_with_nothing_in_it_is_a_verdict_and_no_outage():
    """Asked for in words once more; no other model answers in its place."""
    model = Ending("", "stop")
    result, _ = asked(model)
    assert (result.outcome, result.code, len(model.prompts)) == ("error", "answer_cut", 2)
    assert "answered with nothing" in result.response


class Slow(Scripted):
    """A model on a processor: seconds to its answer."""

    async def complete(self, prompt: Prompt, **more: Any) -> PromptResponse:  # type: ignore[override]
        """Late, but for a classification."""
        answered = await super().complete(prompt, **more)
        await asyncio.sleep(75 if prompt in self.prompts else 0)
        return answered


@pytest.mark.parametrize(("timeout_s", "outcome"), [(300.0, "success"), (60.0, "error")])
def test_a_slow_model_has_the_time_that_its_client_gives(timeout_s, outcome):
    """No bound of hobus' own is shorter; less than that is no answer in time, and says so."""
    model = Slow(lambda _prompt: "slow but whole")
    with SimulatedCluster(shipped_with(*CALM), providers={"offline": model}) as cluster:
        result = turn(cluster, "in-1", "hello", timeout_s=timeout_s, run_overrides=None)
    assert (result.outcome, result.response == "slow but whole") == (outcome, outcome == "success")


def test_what_a_model_thought_comes_back_with_its_calls_and_with_nothing_else():
    """To the model in the next round, also when the caller ran them; to no tool."""
    kept = {"model": "m", "message": {"reasoning_content": "hm"}}
    for calls, config in (
        ([call(1, "list_packages")], None),
        ([call(1, "get_weather", city="Bern")], SessionConfig(caller_tools=THEIRS.caller_tools)),
    ):
        model = Scripted(once([calls[0].model_copy(update={"given_back": kept})]))
        with SimulatedCluster(shipped_snapshot(), providers={"offline": model}) as cluster:
            result = turn(cluster, "in-1", "tell me", run_overrides=config)
            if result.caller_calls:
                brought = results(result, "rain")
                turn(cluster, "in-2", results=brought, session_id=result.session_id, run_overrides=config)
            check_record(cluster.entries())
        [asking] = [one for one in model.prompts[-1].messages if one.tool_calls]
        assert asking.tool_calls[0].given_back == kept
