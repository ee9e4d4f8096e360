"""What a model is told of the tools that other workers have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from structlog.testing import capture_logs

from bench.builders import order, shipped_snapshot
from hobus.actors.ho1_executor import limits
from hobus.actors.ho1_executor.known_tools import KnownTools, KnownToOrder, find_wanted, is_awaited, read_definition
from hobus.actors.ho1_executor.prompts import Offer, Offers, list_offered_tools
from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.actors.ho1_executor.tools.sources import make_word
from hobus.bus.messages.base import pack
from hobus.bus.messages.control import AnnounceTools, SourceRow, ToolWord
from hobus.config.assets import AgentFile
from hobus.config.sections.tools import StdioServer, ToolsConfig
from tests.actors.ho1_executor.rig import ScriptedGateway, cluster


def announced(*tool_ids: str) -> AnnounceTools:
    """What another worker says."""
    words = [
        ToolWord(tool_id=name, source="s", description=f"does {name}", parameters='{"type": "object"}',
                 idempotent=True, writes=False)
        for name in tool_ids
    ]  # fmt: skip
    return AnnounceTools(tools=words, sources=[])


def agent(*tools: str, permitted: Sequence[str] = ("*",)) -> AgentFile:
    given = shipped_snapshot().agents["ADMIN"]
    permissions = given.permissions.model_copy(update={"tools": tuple(permitted)})
    return given.model_copy(update={"tools": tools, "permissions": permissions})


def tools_config(*servers: str, entry_points: Sequence[str] = ()) -> ToolsConfig:
    """Where tools come from."""
    given = shipped_snapshot().config.tools
    server = StdioServer.model_construct(command=["serve"])
    return given.model_copy(update={"mcp_servers": dict.fromkeys(servers, server), "entry_points": list(entry_points)})


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["list_tools"], {"list_tools": ""}),
        (["*"], {"charge": "python", "s__*": "s"}),
        ([], {}),
        (["s__read", "charge"], {"s__read": "s", "charge": "python"}),
        (["list_tools", "s__*"], {"list_tools": "", "s__*": "s"}),
    ],
)
def test_what_an_agent_has_is_known_from_the_configuration(names: list[str], expected: dict[str, str]) -> None:
    tools = tools_config("s", entry_points=["charge"])
    assert find_wanted(names, agent(*names), tools) == expected


def test_what_an_agent_may_not_use_is_not_missed() -> None:
    tools = tools_config("s", "t", entry_points=["charge"])
    assert find_wanted(["*"], agent("*", permitted=["t__write"]), tools) == {"t__*": "t"}
    assert find_wanted(["*"], agent("charge"), tools) == {"charge": "python"}


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], True),
        (["starting"], True),
        (["failed", "starting"], True),
        (["ready"], False),
        (["ready", "starting"], False),
        (["failed"], False),
    ],
)
def test_a_source_is_awaited_until_somebody_came_to_an_end_with_it(states: list[str], expected: bool) -> None:
    rows = [
        SourceRow(name="s", kind="mcp", state=state, instance=f"ho1/{number}@a", tools=0)
        for number, state in enumerate(states, start=1)
    ]
    assert is_awaited("s", rows, tools_config("s")) is expected
    assert not is_awaited("s", rows, tools_config("t"))
    assert not is_awaited("python", rows, tools_config("s"))


def test_a_model_is_told_of_tools_that_another_worker_has() -> None:
    """KnownToOrder as they were announced, asked for once per beat, kept while the broker is away; the own ones come first."""
    with cluster(ScriptedGateway(), executors=2) as made:

        async def scenario() -> None:
            other, peer = made.executors[1], made.executors[0]
            known = KnownTools(peer, BUILTIN, made.snapshot.config)

            async def found() -> Mapping[str, ToolDefinition]:
                return (await known.find_allowed(["s__*"], agent("s__*"), within_s=1.0)).tools

            assert sorted(await found()) == sorted(BUILTIN)
            other.announce(announced("s__read", "list_tools"))
            await peer.sleep(1.0)
            tools = await found()
            assert tools["s__read"].description == "does s__read"
            assert tools["list_tools"] is BUILTIN["list_tools"]
            asked = peer.counters()["waiting"]
            other.announce(announced())
            await found()
            assert peer.counters()["waiting"] == asked
            await peer.sleep(1.0)
            made.world.network.kill_broker()
            assert "s__read" in await found()

        made.world.run(scenario())


def test_a_model_is_told_the_same_bytes_of_a_tool_whoever_has_it() -> None:
    """Its own worker, or one that has only heard of it; and a wildcard's tools in one order."""
    parameters = {
        "type": "object",
        "properties": {"b": {"type": "string"}, "a": {"enum": [1, 2.0, "ä"]}},
        "required": ["b"],
    }
    own = {
        name: ToolDefinition(
            name, f"does {name}", parameters, idempotent=True, run=BUILTIN["list_tools"].run, source="s"
        )
        for name in ("s__a", "s__b", "s__c")
    }
    read = [read_definition(make_word(tool)) for tool in own.values()]
    heard = {tool.tool_id: tool for tool in read if isinstance(tool, ToolDefinition)}
    assert list(heard) == list(own)
    given = order(constraints={"tools_allowed": ["s__*"]})
    told = {
        pack([spec.model_dump() for spec in list_offered_tools(given, agent("s__*"), specs)])
        for specs in (own, heard, {"s__b": heard["s__b"]} | own, {"s__c": own["s__c"]} | heard)
    }
    assert len(told) == 1


def test_what_an_answer_lacked_is_said_of_the_tools_that_its_model_knew() -> None:
    """Whoever passes it on may know more by now, or less; what the agent may not be told of is not lacking."""
    known = KnownToOrder({}, missing=("gone",), wanted=("gone", "a", "s__*", "hidden"))
    offered = {"a", "s__x"}
    assert known.list_lacking(offered, {"a", "s__x"}) == ["gone"]
    assert known.list_lacking(offered, {"a", "s__y", "gone"}) == []
    assert known.list_lacking(offered, set()) == ["gone", "a", "s__*"]


BAD = {
    "no_json": "{",
    "nested": "[" * 30_000,
    "nested_object": '{"not":' * 200 + "{}" + "}" * 200,
    "no_object": "1",
    "of_strings": '{"type": "string"}',
    "no_schema": '{"properties": {"a": {"type": 5}}}',
    "leads_out": '{"$ref": "http://127.0.0.1:1/x"}',
    "no_number": '{"maximum": 1e999}',
    "no_message": '{"maximum": 18446744073709551616}',
    "no_text": '{"description": "\\ud800"}',
}


@pytest.mark.parametrize("why", BAD)
def test_a_word_that_is_no_tool_is_none(why: str) -> None:
    (word,) = announced("s__bad").tools
    assert isinstance(read_definition(word), ToolDefinition)
    assert isinstance(read_definition(word.model_copy(update={"parameters": BAD[why]})), str)


def test_the_schema_of_anothers_tool_is_not_run_here() -> None:
    """It may take as long as its author likes: this one doubles forty times."""
    steps = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(40)}
    schema = {"$defs": steps | {"40": {}}, "$ref": "#/$defs/0"}
    (word,) = announced("s__slow").tools
    assert isinstance(read_definition(word.model_copy(update={"parameters": json.dumps(schema)})), ToolDefinition)


def test_a_word_is_bounded_as_a_servers_tool_is(monkeypatch: pytest.MonkeyPatch) -> None:
    (word,) = announced("s__big").tools
    size = len(word.description) + len(word.parameters)
    monkeypatch.setattr(limits, "DEFINITION_MAX_BYTES", size)
    assert isinstance(read_definition(word), ToolDefinition)
    assert "id" in str(read_definition(word.model_copy(update={"tool_id": "no!tool"})))
    monkeypatch.setattr(limits, "DEFINITION_MAX_BYTES", size - 1)
    assert f"exceed {size - 1} bytes" in str(read_definition(word))


def test_a_word_that_is_no_tool_costs_nobody_but_its_sender() -> None:
    """It is left out alone and said once; and no word of another stands for a tool that this worker has itself."""
    with cluster(ScriptedGateway(), executors=2) as made:
        other, peer = made.executors[1], made.executors[0]
        known = KnownTools(peer, BUILTIN, made.snapshot.config)
        words = announced("s__read", "s__bad", "list_tools").tools
        bad = [word.model_copy(update={"parameters": '{"type": "string"}'}) for word in words[1:]]
        other.announce(AnnounceTools(tools=[words[0], *bad], sources=[]))
        made.world.run(peer.sleep(1.0))
        with capture_logs() as logs:
            for _ in range(3):
                found = made.world.run(
                    known.find_allowed(
                        ["list_tools", "s__*", "s__gone"], agent("list_tools", "s__*", "s__gone"), within_s=1.0
                    )
                )
                assert "s__read" in found.tools
                assert "s__bad" not in found.tools
                assert found.tools["list_tools"] is BUILTIN["list_tools"]
                made.world.run(peer.sleep(1.0))
        assert [entry["tool"] for entry in logs if entry["event"] == "tool_word_dropped"] == ["s__bad"]


def test_nobody_waits_longer_than_an_order_has() -> None:
    """Nor is a source waited for a second time while it stays away."""
    with cluster(ScriptedGateway()) as made:
        peer = made.executors[0]
        config = made.snapshot.config.model_copy(update={"tools": tools_config("s")})
        known = KnownTools(peer, BUILTIN, config)
        waits: list[float] = []
        made.world.run(peer.sleep(1.0))
        for within_s in (0.5, 60.0, 60.0):
            began = peer.clock.monotonic()
            assert made.world.run(known.find_allowed(["s__*"], agent("s__*"), within_s=within_s)).missing == ("s__*",)
            waits.append(peer.clock.monotonic() - began)
        grace_s = config.bus.service_grace_ms / 1000
        assert waits == pytest.approx([0.5, grace_s - 0.5, 0.0], abs=0.02)


def test_offered_are_those_that_are_allowed_had_and_permitted_each_once() -> None:
    def tool(name: str, *, writes: bool) -> ToolDefinition:
        run = BUILTIN["list_tools"].run
        return ToolDefinition(
            tool_id=name, description=name, parameters={}, idempotent=True, run=run, writes=writes, source="s"
        )

    specs: Mapping[str, ToolDefinition] = {
        name: tool(name, writes=writes) for name, writes in [("s__a", False), ("s__b", True), ("s__c", True)]
    }
    agent = shipped_snapshot().agents["ADMIN"]
    permissions = agent.permissions.model_copy(update={"tools": ("s__*", "s__c")})
    agent = agent.model_copy(update={"tools": ("s__*",), "permissions": permissions})
    given = order(constraints={"tools_allowed": ["s__c", "s__*", "s__nothing"]})
    assert [spec.tool_id for spec in list_offered_tools(given, agent, specs)] == ["s__c", "s__a"]
    assert Offers().to(given, None, specs) == Offer()


def test_an_offer_is_made_anew_when_anything_of_it_changed() -> None:
    run = BUILTIN["list_tools"].run
    before = {"s__a": ToolDefinition("s__a", "a", {"enum": [1]}, idempotent=True, run=run, source="s")}
    offers, given = Offers(), order(constraints={"tools_allowed": ["s__*"]})
    first = offers.to(given, agent("s__*"), before)
    owner = agent("s__*")
    kept = offers.to(given, owner, before)
    assert offers.to(order(constraints={"tools_allowed": []}), owner, before) == Offer()
    assert offers.to(given, owner, dict(before)) is kept  # an order that allows nothing, as a classification, between
    assert kept == first
    equal = {"s__a": ToolDefinition("s__a", "a", {"enum": [True]}, idempotent=True, run=run, source="s")}
    assert pack(offers.to(given, owner, equal).told[0].model_dump()) != pack(kept.told[0].model_dump())
    more = before | {"s__b": ToolDefinition("s__b", "b", {}, idempotent=True, run=run, source="s")}
    assert [tool.tool_id for tool in offers.to(given, owner, more).told] == ["s__a", "s__b"]
    assert offers.to(order(constraints={"tools_allowed": []}), owner, more) == Offer()
    assert offers.to(given, agent("t__*"), more) == Offer([], [])
    assert offers.to(given, None, more) == Offer()
