"""Turns that take long: nothing on their way bounds them but the client's deadline."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.builders import shipped_with
from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.bus.errors import GatewayError
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.messages.work_order import ToolCall
from tests.journals import check_record, count_of, list_answers
from tests.simulated import SimulatedCluster
from tests.simulation.turns import CALM, AsksForTools, with_tools

STEPS = 20
THINKS_S = 4.0


async def _looked(_arguments: Any, _host: Any) -> str:
    return "seen"


LOOK = ToolDefinition(
    tool_id="look", description="looks", parameters={"type": "object", "properties": {}}, run=_looked, idempotent=True
)  # fmt: skip


class Steps(AsksForTools):
    """A model that takes four seconds for each of so many calls of a tool, one after the other, and then answers."""

    def __init__(self, steps: int = STEPS) -> None:
        self.steps = steps
        self.asked: list[int] = []  # results that each prompt for an answer showed

    async def complete(self, prompt: Any, **how: Any) -> Any:
        if not prompt.contract_id.startswith("PRC-SYNTHESIZE"):
            return await super().complete(prompt, **how)
        results = sum(message.role == "tool" for message in prompt.messages)
        self.asked.append(results)
        await asyncio.sleep(THINKS_S)
        if results >= self.steps - 1:
            return self._answer(prompt, f"done after {results} looks")
        return self._answer(prompt, "", [ToolCall(call_id="", tool_id="look", arguments={})])


def ask(cluster: SimulatedCluster, timeout_s: float | None = None) -> TurnResult:
    """One turn, under the same input id whenever it is asked."""
    snapshot = cluster.snapshot
    turn = ProcessTurn(input_id="in-1", text="look around")
    wait_s = timeout_s or snapshot.config.host.turn_timeout_ms / 1000
    return cluster.world.run(cluster.door.request("host", turn, expect=TurnResult, timeout_s=wait_s))


def cluster_of(provider: AsksForTools) -> SimulatedCluster:
    """With the one tool."""
    snapshot = with_tools(shipped_with(*CALM), LOOK)
    return SimulatedCluster(snapshot, providers={"offline": provider}, tools={"look": LOOK})


def test_a_turn_of_twenty_slow_steps_is_answered_where_the_client_names_no_time() -> None:
    """Eighty seconds of thinking and more."""
    model = Steps()
    with cluster_of(model) as cluster:
        result = ask(cluster)
        entries = cluster.entries()
    assert (result.outcome, result.response) == ("success", "done after 19 looks")
    assert len(model.asked) == STEPS
    check_record(entries)


class Slow(AsksForTools):
    """A model that takes longer for one answer than any default."""

    async def complete(self, prompt: Any, **how: Any) -> Any:
        if prompt.contract_id.startswith("PRC-SYNTHESIZE"):
            await asyncio.sleep(420)
        return await super().complete(prompt.model_copy(update={"tools": []}), **how)


def test_one_call_may_take_as_long_as_the_client_waits() -> None:
    """Seven minutes of nine, through host, supervisor, executor and gateway."""
    with cluster_of(Slow()) as cluster:
        assert ask(cluster, 540.0).outcome == "success"
        check_record(cluster.entries())


@pytest.mark.parametrize("restarted", [(), ("ho2",), ("ho2", "ho1", "host", "gateway")])
def test_a_turn_that_ran_out_of_time_goes_on_from_its_last_recorded_step(restarted: tuple[str, ...]) -> None:
    """Twenty steps, of which eleven fit: asked again they are not made again, whoever owns the session by then."""
    model = Steps()
    with cluster_of(model) as cluster:
        late = ask(cluster, 50.0)
        assert (late.outcome, late.code) == ("error", "deadline_exceeded")
        assert "11 steps, which are kept" in late.response and "same input id" in late.response
        for role in restarted:
            cluster.kill_now(cluster.oldest(role) or "")
            cluster.start(role)
        result = ask(cluster)
        again = ask(cluster)
        entries = cluster.entries()
    assert (result.outcome, result.response, again) == ("success", "done after 19 looks", result)
    assert len(model.asked) == STEPS + 1 and sorted(set(model.asked)) == list(range(STEPS))
    assert [call.status for call in result.tool_calls] == ["Succeeded"] * (STEPS - 1)
    assert (count_of(entries, "RunRequested"), count_of(entries, "RunFailed"), count_of(entries, "RunAttached")) == (
        1,
        1,
        1,
    )
    assert (count_of(entries, "DEGRADATION"), len(list_answers(entries, "in-1"))) == (0, 1)
    check_record(entries)


def test_a_turn_that_runs_out_of_time_again_and_again_gets_there() -> None:
    """Each time with its steps kept; what was cut is asked for once more each time."""
    model = Steps()
    with cluster_of(model) as cluster:
        results = [ask(cluster, 30.0) for _ in range(4)]
        check_record(cluster.entries())
    assert [one.outcome for one in results] == ["error", "error", "error", "success"]
    assert len(model.asked) == STEPS + 3


@pytest.mark.parametrize("code", ["PROVIDER_ERROR", "PROVIDER_RATE_LIMITED", "PROVIDER_TIMEOUT"])
def test_a_turn_whose_provider_failed_goes_on_from_its_last_recorded_step(code: str) -> None:
    """As its error advises, under the same input id: no bare answer, and no step twice."""

    class FailsOnce(Steps):
        is_down = False

        async def complete(self, prompt: Any, **how: Any) -> Any:
            if self.is_down or (sum(message.role == "tool" for message in prompt.messages) == 2 and not self.is_back):
                self.is_down = True
                raise GatewayError(code, "provider offline is down", facts={"unbilled": True})
            return await super().complete(prompt, **how)

        is_back = False

    model = FailsOnce(4)
    with cluster_of(model) as cluster:
        failed = ask(cluster)
        model.is_down, model.is_back = False, True
        cluster.world.run(asyncio.sleep(120))
        result = ask(cluster)
        check_record(entries := cluster.entries())
    assert (failed.outcome, failed.code) == ("error", code) and "same input id" in failed.response
    assert (result.outcome, result.response, model.asked) == ("success", "done after 3 looks", [0, 1, 2, 3])
    assert len(list_answers(entries, "in-1")) == 1


def test_another_message_begins_a_run_of_its_own_after_one_that_ran_out_of_time() -> None:
    """And what has failed goes on no more: its answer is a degraded one."""
    with cluster_of(Steps()) as cluster:
        late = ask(cluster, 50.0)
        turn = ProcessTurn(input_id="in-2", text="never mind", session_id=late.session_id)
        other = cluster.world.run(cluster.door.request("host", turn, expect=TurnResult, timeout_s=600))
        assert other.outcome == "success"
        assert ask(cluster).outcome == "degraded"
        check_record(cluster.entries())
