"""What every tool runner must do: one suite, run against the runner in the process and the one with processes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from hobus.actors.ho1_executor.tools.definition import Bounds, ToolFault
from hobus.bus.messages.work_order import ToolCall
from hobus.bus.port import ToolRunner
from hobus.bus.tool import ToolResult
from tests.actors.ho1_executor.tools.suite_tools import BOTH

OUTPUT_MAX_BYTES = 100
SAID_MAX_BYTES = 2000
FILES_MAX_BYTES = 100
BOUNDS = Bounds(OUTPUT_MAX_BYTES, SAID_MAX_BYTES, FILES_MAX_BYTES)
VIEW = {"digest": "sha256:0", "packages": ["a"]}


async def request(service: str, type_name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Stands in for the executor's bus."""
    if body["session_id"] == "gone":
        raise ToolFault("the gateway did not answer: no_route")
    return {"asked": f"{service} {type_name} {body['session_id']}"}


async def run(runner: ToolRunner, tool_id: str, *, timeout_s: float = 60.0, **arguments: Any) -> ToolResult:
    call = ToolCall(call_id="001", tool_id=tool_id, arguments=arguments)
    context = {"session_id": "s", "agent_id": "A", "wo_id": "W", "idempotency_key": "W", "request": request}
    return await runner.run(call, context=context, timeout_s=timeout_s)


def shown(output: ToolResult) -> tuple[bool, str, str, bool]:
    return output.ok, output.code, output.text, output.truncated


class RunnerSuite:
    """Subclasses supply the fixture `runner` with the tools BOTH, VIEW, `request`, and OUTPUT_MAX_BYTES."""

    async def test_a_tool_gets_its_arguments_its_context_and_the_view(self, runner: ToolRunner) -> None:
        """And its value comes back as JSON with sorted keys; the way out is no part of the context."""
        output = await run(runner, "text", text="ä", times=2)
        assert shown(output) == (True, "", '"ää"', False)
        echoed = await run(runner, "echo", b=1, a=[None, 1.5])
        assert echoed.text.startswith('{"arguments": {"a": [null, 1.5], "b": 1}, "context": {"agent_id": "A", ')
        assert "request" not in echoed.text

    async def test_a_tool_asks_services_through_its_worker(self, runner: ToolRunner) -> None:
        """Several times in one call."""
        output = await run(runner, "ask", names=["1", "2"])
        assert output.text == (
            '[{"asked": "gateway gateway.read_budget 1"}, {"asked": "gateway gateway.read_budget 2"}]'
        )

    async def test_a_refused_question_reaches_the_tool_as_a_fault(self, runner: ToolRunner) -> None:
        """Which, not handled, is the tool's failure."""
        assert shown(await run(runner, "ask", names=["gone"])) == (
            False, "tool_failed", "the gateway did not answer: no_route", False,
        )  # fmt: skip

    async def test_a_fault_is_told_and_a_bug_is_named(self, runner: ToolRunner) -> None:
        """A tool's own sentence is for the model; what a bug says may hold anything and is kept back."""
        assert shown(await run(runner, "fault", sentence="no such thing")) == (
            False,
            "tool_failed",
            "no such thing",
            False,
        )
        bug = await run(runner, "bug")
        assert shown(bug) == (False, "tool_failed", "the tool broke: RuntimeError", False)

    async def test_what_a_bug_says_is_for_people(self, runner: ToolRunner) -> None:
        """Type, message and traceback from the tool's own first line on; a sentence that is meant has none."""
        said = (await run(runner, "bug")).traceback.splitlines()
        assert said[0] == "Traceback (most recent call last):"
        assert said[1].endswith("in _bug") and "suite_tools.py" in said[1]
        assert said[-1] == "RuntimeError: the secret of the house"
        assert (await run(runner, "fault", sentence="no")).traceback == ""

    async def test_the_cause_of_a_meant_fault_is_told_to_people_too(self, runner: ToolRunner) -> None:
        """`raise ToolFault(...) from error` tells the model the sentence, and its author the error."""
        output = await run(runner, "caused")
        assert output.text == "no such thing"
        assert "KeyError: 'under it'" in output.traceback and output.traceback.endswith("ToolFault: no such thing")

    async def test_a_traceback_is_bounded_and_keeps_both_ends(self, runner: ToolRunner) -> None:
        """Of a message of a megabyte the beginning and the end stand, and how much is missing."""
        said = (await run(runner, "long_bug", size=1_000_000)).traceback
        assert len(said.encode()) <= SAID_MAX_BYTES
        assert said.startswith("Traceback") and said.endswith("xxx") and "bytes left out" in said

    @pytest.mark.parametrize(("kind", "name"), [("nameless", "_NamelessBug"), ("unseen", "_Unseen")])
    async def test_an_exception_that_cannot_be_looked_at_is_a_failure(
        self, runner: ToolRunner, kind: str, name: str
    ) -> None:
        """Its class's name, its text, its cause or what it says to be raise something else, SystemExit too."""
        output = await run(runner, "unseeable", kind=kind)
        assert shown(output) == (False, "tool_failed", f"the tool broke: {name}", False)
        assert name in output.traceback

    @pytest.mark.parametrize(("times", "truncated"), [(98, False), (99, True), (1_000_000, True)])
    async def test_output_is_cut_at_the_limit_and_marked(self, runner: ToolRunner, times: int, truncated: bool) -> None:
        """Exactly at tools.output_max_bytes nothing is missing (two bytes are the quotes)."""
        output = await run(runner, "text", text="x", times=times)
        assert (len(output.text), output.truncated, output.ok) == (min(times + 2, OUTPUT_MAX_BYTES), truncated, True)

    async def test_a_character_is_never_cut_in_two(self, runner: ToolRunner) -> None:
        """99 bytes of text are left after the quote: 24 four-byte characters and no part of a 25th."""
        output = await run(runner, "text", text="𝄞", times=50)
        assert (output.text, output.truncated) == ('"' + "𝄞" * 24, True)

    async def test_a_long_fault_is_cut_too(self, runner: ToolRunner) -> None:
        """Whatever a tool says is bounded."""
        output = await run(runner, "fault", sentence="x" * 1000)
        assert (len(output.text), output.truncated, output.ok) == (OUTPUT_MAX_BYTES, True, False)

    @pytest.mark.parametrize("kind", ["nan", "set", "deep"])
    async def test_a_value_that_is_no_json_is_a_failure(self, runner: ToolRunner, kind: str) -> None:
        """NaN, other types, endless nesting."""
        output = await run(runner, "value", kind=kind)
        assert (output.ok, output.code) == (False, "tool_failed")
        assert output.text.startswith("value returned a ") and "; return texts" in output.text

    async def test_an_unknown_tool_is_said_to_be_unknown(self, runner: ToolRunner) -> None:
        """Orders go where they can run; this one came to the wrong place."""
        assert (await run(runner, "nonsense")).code == "tool_not_found"

    async def test_the_verifier_is_the_wiring_s(self, runner: ToolRunner) -> None:
        """An actor imports no service."""
        assert (await run(runner, "verify")).text == '{"directory": "/ledger", "ok": true}'

    async def test_more_calls_than_places_all_come_back(self, runner: ToolRunner) -> None:
        """Each with its own answer."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(runner, "text", text=str(n), times=1)) for n in range(10)]
        assert [task.result().text for task in tasks] == [f'"{n}"' for n in range(10)]

    def test_it_announces_its_tools_sorted(self, runner: ToolRunner) -> None:
        """What a hello carries."""
        assert set(BOTH) <= set(runner.available())
        assert list(runner.available()) == sorted(runner.available())
