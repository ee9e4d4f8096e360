"""A tool says how long its calls may take; its order and its turn follow."""

from __future__ import annotations

import asyncio

import pytest

from bench.builders import shipped_with
from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from tests.simulated import SimulatedCluster
from tests.simulation.turns import CALM, AsksForTools, with_tools


async def build(_arguments, _host):
    """Takes five minutes."""
    await asyncio.sleep(300)
    return {"built": True}


@pytest.mark.parametrize(("timeout_s", "status"), [(400.0, "Succeeded"), (200.0, "Failed"), (None, "Failed")])
def test_a_call_takes_what_its_tool_declares(timeout_s, status):
    """Not the bound of other orders, nor what tools have that declare nothing."""
    tool = ToolDefinition("build", "Builds.", {"type": "object"}, idempotent=False, run=build, timeout_s=timeout_s)
    snapshot = with_tools(shipped_with(*CALM, ("host.turn_timeout_ms", 900_000)), tool)
    with SimulatedCluster(snapshot, providers={"offline": AsksForTools()}, tools={"build": tool}) as cluster:
        result = cluster.ask("build it", input_id="in-1", timeout_s=900.0)
    assert [(call.tool_id, call.status) for call in result.tool_calls] == [("build", status)]
    assert result.outcome == "success"
    assert result.elapsed_ms // 1000 == {400.0: 300, 200.0: 200, None: 30}[timeout_s]
