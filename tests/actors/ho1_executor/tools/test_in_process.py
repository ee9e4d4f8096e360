"""Tools in the calling process: the suite, and what virtual time adds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from hobus.actors.ho1_executor.tools.definition import ToolDefinition, ToolHost
from hobus.actors.ho1_executor.tools.in_process import InProcessToolRunner
from tests.actors.ho1_executor.tools.runner_suite import BOUNDS, VIEW, RunnerSuite, run
from tests.actors.ho1_executor.tools.suite_tools import BOTH, report_of


async def _report() -> dict[str, Any]:
    return report_of("/ledger")


class TestInProcess(RunnerSuite):
    @pytest.fixture
    def runner(self) -> InProcessToolRunner:
        return InProcessToolRunner(tools=BOTH, view=VIEW, bounds=BOUNDS, checks={"verify": _report})


def _runner(run_tool: Any) -> InProcessToolRunner:
    tool = ToolDefinition("t", "t", {}, idempotent=True, run=run_tool)
    return InProcessToolRunner(tools={"t": tool}, view={}, bounds=BOUNDS)


async def test_a_tool_over_its_time_is_stopped() -> None:
    stopped: list[str] = []

    async def forever(arguments: Mapping[str, Any], host: ToolHost) -> Any:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.append("yes")

    output = await run(_runner(forever), "t", timeout_s=0.01)
    assert (output.ok, output.code, stopped) == (False, "deadline_exceeded", ["yes"])
    assert "0.010 s" in output.text


async def test_a_time_out_of_the_tool_s_own_is_its_failure() -> None:
    """Not mistaken for the limit."""

    async def own(arguments: Mapping[str, Any], host: ToolHost) -> Any:
        raise TimeoutError

    assert (await run(_runner(own), "t")).code == "tool_failed"


async def test_without_a_verifier_the_tool_says_so() -> None:
    async def verify(arguments: Mapping[str, Any], host: ToolHost) -> Any:
        return await host.check("verify")

    assert (await run(_runner(verify), "t")).text == "this worker has no home of a cluster at hand"
