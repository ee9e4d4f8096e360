"""What tools do outside, when everything around them dies: once where once is all that is allowed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from actors.ho1_executor.tools.definition import ToolDefinition
from config.snapshot import load_snapshot
from launch.simulated import SimulatedCluster
from tests.journals import answers_of, check_record
from tests.simulation.test_seeds import BACK_S, FREEZE_S, ROLES
from tests.simulation.turns import AsksForTools, with_tools

NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
WORK_S = 0.05


class Outside:
    """The world beyond the cluster: what was booked by key, and how often each letter was sent."""

    def __init__(self) -> None:
        self.booked: dict[str, int] = {}
        self.bookings = 0
        self.sent: Counter[str] = Counter()

    async def book(self, _arguments, host):
        """Takes the call's key, as a service outside does that is asked twice: the second time changes nothing."""
        await asyncio.sleep(WORK_S / 2)
        self.bookings += 1
        self.booked.setdefault(host.context["idempotency_key"], len(self.booked) + 1)
        await asyncio.sleep(WORK_S / 2)
        return {"number": self.booked[host.context["idempotency_key"]]}

    async def send(self, _arguments, host):
        """Knows no key: each call is one more letter."""
        await asyncio.sleep(WORK_S / 2)
        self.sent[host.context["wo_id"]] += 1
        await asyncio.sleep(WORK_S / 2)
        return {"sent": True}

    def tools(self) -> list[ToolDefinition]:
        """One tool that may be run again, and one that must not."""
        return [
            ToolDefinition("book", "Books a place.", NOTHING, idempotent=True, run=self.book),
            ToolDefinition("send_letter", "Sends a letter.", NOTHING, idempotent=False, run=self.send),
        ]


def drill(seed: int, *, freezes: bool) -> None:
    """Two turns with both tools while processes are struck around the time at which the tools run."""
    draw, outside = random.Random(seed), Outside()
    tools = outside.tools()
    snapshot = with_tools(load_snapshot(), *tools)
    with SimulatedCluster(
        snapshot,
        seed=seed,
        ho1=draw.randint(1, 2),
        ho2=draw.randint(1, 2),
        providers={"offline": AsksForTools()},
        tools={tool.tool_id: tool for tool in tools},
    ) as cluster:
        strikes = []
        for _ in range(draw.randint(1, 3)):
            role, after_s = draw.choice((*ROLES, "ho1", "ho2")), draw.random() * draw.choice((0.02, 0.08, 0.3))
            is_freeze = freezes and draw.random() < 0.6
            for_s = draw.choice(FREEZE_S if is_freeze else BACK_S)
            if is_freeze:
                cluster.freeze(role, after_s=after_s, for_s=for_s)
            else:
                cluster.strike(role, after_s=after_s, back_after_s=for_s)
            strikes.append(("freeze" if is_freeze else "kill", role, round(after_s, 4), for_s))
        first = cluster.ask("please book", input_id="in-1", timeout_s=30)
        second = cluster.ask("once more", input_id="in-2", session_id=first.session_id, timeout_s=30)
        cluster.world.run(asyncio.sleep(max(FREEZE_S) + 1))
        entries = cluster.entries()
    told = (seed, strikes, first.outcome, second.outcome, outside.sent)
    assert {first.outcome, second.outcome} <= {"success", "degraded"}, told
    assert [len(answers_of(entries, name)) for name in ("in-1", "in-2")] == [1, 1], told
    check_record(entries)
    assert max(outside.sent.values(), default=0) <= 1, told
    succeeded = [call.tool_id for result in (first, second) for call in result.tool_calls if call.status == "Succeeded"]
    assert len(outside.booked) >= succeeded.count("book"), told
    assert outside.sent.total() >= succeeded.count("send_letter"), told
    unknown = [call.code for result in (first, second) for call in result.tool_calls if call.tool_id == "send_letter"]
    assert set(unknown) <= {"", "unknown_outcome"}, (told, unknown)
    booked_by_order = Counter(key.split("#")[0] for key in outside.booked)
    assert max(booked_by_order.values(), default=0) <= 1, told


def test_without_a_strike_each_tool_runs_once():
    """What the drills compare with: two turns, two bookings, two letters."""
    outside = Outside()
    tools = outside.tools()
    with SimulatedCluster(
        with_tools(load_snapshot(), *tools),
        providers={"offline": AsksForTools()},
        tools={tool.tool_id: tool for tool in tools},
    ) as cluster:
        first = cluster.ask("please book", input_id="in-1")
        cluster.ask("once more", input_id="in-2", session_id=first.session_id)
    assert [(call.tool_id, call.status) for call in first.tool_calls] == [
        ("book", "Succeeded"),
        ("send_letter", "Succeeded"),
    ]
    assert (len(outside.booked), outside.bookings, outside.sent.total()) == (2, 2, 2)


@pytest.mark.parametrize("seed", range(8))
def test_a_letter_is_never_sent_twice_whoever_dies(seed):
    """A tool with a key takes effect once; one without runs at most once and is told as unknown where that is so."""
    drill(seed, freezes=False)


@pytest.mark.parametrize("seed", range(100, 104))
def test_a_letter_is_never_sent_twice_whoever_stands_still(seed):
    """The same with processes that go on after they were replaced."""
    drill(seed, freezes=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(200, 500, 50))
def test_more_letters_are_never_sent_twice(first):
    """Three hundred further seeds, every second one with freezes."""
    for seed in range(first, first + 50):
        drill(seed, freezes=bool(seed % 2))
