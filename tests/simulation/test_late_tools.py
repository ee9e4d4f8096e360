"""Executors that have just started and whose tools are still on their way: a turn waits for them, or says what it lacked."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from bench.builders import shipped_snapshot
from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.actors.ho1_executor.tools.table import ToolTable
from hobus.bus.messages.control import AnnounceTools, ToolSource, ToolWord
from hobus.bus.record.ends import read_order_receipt
from hobus.bus.record.journal import unpack_result
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot
from tests.journals import check_record
from tests.simulated import SimulatedCluster
from tests.simulation.turns import AsksForTools, with_tools

NOTHING = '{"type": "object", "properties": {}, "additionalProperties": false}'
GRACE_S = shipped_snapshot().config.bus.service_grace_ms / 1000


class Card:
    """What a tool of a package charges."""

    def __init__(self) -> None:
        self.charges = 0

    async def charge(self, _arguments, _host):
        """Each call is one more."""
        self.charges += 1
        return {"charged": True}

    def tool(self) -> ToolDefinition:
        """As an entry point's description has it."""
        return ToolDefinition("charge", "Charges the card.", {}, idempotent=False, run=self.charge, source="python")


def configured(card: Card) -> Snapshot:
    """An agent that may use the tool, and executors that have to load it."""
    snapshot = with_tools(shipped_snapshot(), card.tool())
    config = snapshot.config.model_dump(mode="json")
    config["tools"]["entry_points"] = ["charge"]
    return dataclasses.replace(snapshot, config=AdminConfig.model_validate(config))


class Executors:
    """A cluster whose executors are told what the loading of their packages has come to."""

    def __init__(self, cluster: SimulatedCluster, table: ToolTable, card: Card) -> None:
        self.cluster, self.table, self.card = cluster, table, card

    def say(self, state: str) -> None:
        """Each announces its source in this state, and with `ready` its tool."""
        if state == "ready":
            self.table.put("python", [self.card.tool()])
        self.announce(state)

    def announce(self, state: str) -> None:
        """Each announces what the table holds."""
        words = [
            ToolWord(tool_id=name, source="python", description="", parameters=NOTHING, idempotent=False, writes=False)
            for name in self.table
        ]
        said = AnnounceTools(tools=words, sources=[ToolSource(name="python", kind="python", state=state)])
        for name, started in self.cluster.world.processes.items():
            if name.startswith("ho1/"):
                started.peer.announce(said)

    def later(self, after_s: float, state: str) -> None:
        """In virtual time."""
        self.cluster.world.loop.call_later(after_s, self.say, state)


@pytest.fixture
def made():
    """One executor that has just started."""
    card, table = Card(), ToolTable({})
    with SimulatedCluster(configured(card), providers={"offline": AsksForTools()}, tools=table) as cluster:
        yield Executors(cluster, table, card)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_turn_waits_for_tools_that_are_being_loaded(made, is_told):
    """Whether the broker has heard that they are on their way, or nothing yet from anybody."""
    if is_told:
        made.say("starting")
    made.later(GRACE_S / 2, "ready")
    result = made.cluster.ask("charge my card", input_id="in-1")
    assert [(call.tool_id, call.status) for call in result.tool_calls] == [("charge", "Succeeded")]
    assert (made.card.charges, result.tools_missing) == (1, [])


def test_a_broker_that_restarts_meanwhile_makes_no_turn_poorer(made):
    """What nobody can be asked for is not taken for absent."""
    made.say("starting")
    made.cluster.strike("broker", after_s=0.01, back_after_s=0.5)
    made.later(GRACE_S / 2, "ready")
    result = made.cluster.ask("charge my card", input_id="in-1")
    assert (made.card.charges, result.tools_missing) == (1, [])


def test_a_turn_without_a_tool_that_its_agent_has_says_so_in_result_and_record(made):
    """After the grace; later turns wait no more, until the source has been there."""
    made.say("starting")
    result = made.cluster.ask("charge my card", input_id="in-1")
    assert (result.outcome, result.tool_calls, result.tools_missing) == ("success", [], ["charge"])
    assert GRACE_S * 1000 <= result.elapsed_ms < GRACE_S * 1000 + 1000
    again = made.cluster.ask("once more", input_id="in-2", session_id=result.session_id)
    assert again.tools_missing == ["charge"]
    assert again.elapsed_ms < 1000
    bodies = {entry.event_type: entry.bodies for entry in made.cluster.entries()}
    assert unpack_result(bodies["RunCompleted"][1]).tools_missing == ["charge"]
    receipt = read_order_receipt(
        next(entry for entry in reversed(made.cluster.entries()) if entry.event_type == "OrderEnded")
    )
    assert receipt.output_result.tools_missing == ["charge"]
    made.say("ready")
    last = made.cluster.ask("and now", input_id="in-3", session_id=result.session_id)
    assert (made.card.charges, last.tools_missing) == (1, [])


def test_nobody_waits_for_what_cannot_come(made):
    """A package that could not be loaded is told at once."""
    made.say("failed")
    result = made.cluster.ask("charge my card", input_id="in-1")
    assert result.tools_missing == ["charge"]
    assert result.elapsed_ms < 1000


def test_a_turn_that_is_asked_twice_names_what_it_lacked_both_times(made):
    """The answer is the recorded one."""
    made.say("failed")
    first = made.cluster.ask("charge my card", input_id="in-1")
    made.say("ready")
    assert made.cluster.ask("charge my card", input_id="in-1", session_id=first.session_id) == first


class Thinks(AsksForTools):
    """A model that takes a while for what it says, so that there is a middle to strike in."""

    async def complete(self, prompt, **how):
        """After a second."""
        await asyncio.sleep(1.0)
        return await super().complete(prompt, **how)


@pytest.mark.parametrize(
    ("struck", "is_asked_anew", "found"),
    [
        (["ho1"], False, "reworded"),
        (["ho1"], False, "gone"),
        (["ho1", "gateway"], True, "reworded"),
        (["ho1", "gateway"], True, "gone"),
        (["ho1", "gateway", "broker"], True, "reworded"),
        (["ho1", "gateway", "broker"], True, "gone"),
    ],
    ids=lambda given: "+".join(given) if isinstance(given, list) else None,
)
def test_an_order_goes_on_at_a_worker_that_knows_other_tools(struck, is_asked_anew, found):
    """Its call is no other one: joined while it is under way, and asked anew once nobody knows of it but the record."""
    card, table = Card(), ToolTable({})
    with SimulatedCluster(configured(card), providers={"offline": Thinks()}, tools=table) as cluster:
        executors = Executors(cluster, table, card)
        executors.say("ready")
        for role in struck:
            cluster.strike(role, after_s=1.5, back_after_s=0.2)
        reworded = dataclasses.replace(card.tool(), description="Charges the card, once.")
        cluster.world.loop.call_later(1.6, table.put, "python", [reworded] if found == "reworded" else [])
        cluster.world.loop.call_later(1.9, executors.announce, "ready" if found == "reworded" else "failed")
        result = cluster.ask("charge my card", input_id="in-1")
        entries = cluster.entries()
    assert (result.outcome, result.code) == ("success", None)
    check_record(entries)
    # What was lacking is said of the model that answered, not of the worker that passes its answer on.
    was_told = found == "reworded" or not is_asked_anew
    [end] = [
        one for one in entries if one.submission_id.startswith("OrderEnded:") and one.submission_id.endswith("-1.2.1")
    ]
    assert read_order_receipt(end).output_result.tools_missing == ([] if was_told else ["charge"])
    assert [call.tool_id for call in result.tool_calls] == (["charge"] if was_told else [])
    calls = {entry.submission_id.partition(":")[2] for entry in entries if entry.event_type == "PROMPT_SENT"}
    assert not [name for name in calls if "#2/" in name]  # no answer was taken for a bad one
