"""`reached_within_s`: a request that nobody could take is given up long before its deadline, and no other."""

from __future__ import annotations

import asyncio

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import BusError
from hobus.bus.messages.gateway import DegradedPrompt, Prompt, PromptMessage, PromptResponse
from hobus.bus.messages.work_order import Segment
from hobus.bus.sim.world import World

SETTINGS = shipped_snapshot().config.bus
QUESTION = DegradedPrompt(
    prompt=Prompt(
        messages=[PromptMessage(role="user", segments=[Segment(text="hello")])], prompt_pack_id="PRM-DEGRADED-001",
        contract_id="PRC-DEGRADED-001", agent_id="ADMIN", work_order_id="WO-x", session_id="s", max_tokens=1,
        temperature=0.0, idempotency_key="WO-x#1",
    )
)  # fmt: skip


class Slow(Actor):
    """Answers after a while."""

    service = "gateway"

    async def on_degraded(self, message: DegradedPrompt, call: Call) -> PromptResponse:
        await asyncio.sleep(8)
        return PromptResponse(outcome="SUCCESS", content="late")


async def asked(world: World, host, *, reached_within_s: float | None) -> tuple[str, float]:
    """Content, or the fault's code, and virtual seconds."""
    began = world.loop.time()
    try:
        response = await host.request(
            "gateway", QUESTION, expect=PromptResponse, timeout_s=20, reached_within_s=reached_within_s
        )
    except BusError as fault:
        return fault.code, world.loop.time() - began
    return response.content, world.loop.time() - began


@pytest.mark.parametrize(("reached_within_s", "code", "seconds"), [(2.0, "no_route", 2.0), (None, "expired", 20.0)])
def test_a_lane_that_never_comes_up_is_given_up(reached_within_s, code, seconds):
    world = World(SETTINGS)
    host = world.start(None, role="host")
    found, took_s = world.run(asked(world, host, reached_within_s=reached_within_s))
    world.close()
    assert (found, took_s <= seconds + 0.1) == (code, True)


def test_a_server_that_takes_its_time_is_waited_for():
    world = World(SETTINGS)
    world.start(Slow(), role="gateway", slots=1)
    host = world.start(None, role="host")
    world.run(world.settled())
    found, _ = world.run(asked(world, host, reached_within_s=1.0))
    world.close()
    assert found == "late"


def test_a_server_that_dies_and_stays_away_is_given_up_too():
    world = World(SETTINGS)
    gateway = world.start(Slow(), role="gateway", slots=1)
    host = world.start(None, role="host")
    world.run(world.settled())

    async def scenario() -> tuple[str, float]:
        asking = asyncio.ensure_future(asked(world, host, reached_within_s=2.0))
        await asyncio.sleep(1)
        world.kill(gateway.instance)
        return await asking

    found, took_s = world.run(scenario())
    world.close()
    assert (found, took_s < 1 + 2 * 2.0 + 1) == ("no_route", True)
