"""What a model is told of the tools that other workers have."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from actors.ho1_executor.known_tools import KnownTools, is_missing
from actors.ho1_executor.model_step import offered_tools
from actors.ho1_executor.tools.definition import ToolDefinition
from actors.ho1_executor.tools.registry import BUILTIN
from bus.messages.control import AnnounceTools, ToolWord
from tests.actors.ho1_executor.rig import ScriptedGateway, cluster, order, shipped


def announced(*tool_ids: str) -> AnnounceTools:
    """What another worker says."""
    words = [
        ToolWord(tool_id=name, source="s", description=f"does {name}", parameters='{"type": "object"}',
                 idempotent=True, writes=False)
        for name in tool_ids
    ]  # fmt: skip
    return AnnounceTools(tools=words, sources=[])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["list_tools"], False),
        (["*"], False),
        (["list_*"], False),
        ([], False),
        (["s__read"], True),
        (["list_tools", "s__*"], True),
    ],
)
def test_the_broker_is_asked_only_for_what_is_not_here(names: list[str], expected: bool) -> None:
    """Most orders allow what every worker has."""
    assert is_missing(names, BUILTIN) is expected


def test_a_model_is_told_of_tools_that_another_worker_has() -> None:
    """Known as they were announced, asked for once per beat, kept while the broker is away; the own ones come first."""
    with cluster(ScriptedGateway(), executors=2) as made:

        async def scenario() -> None:
            other, peer = made.executors[1], made.executors[0]
            known = KnownTools(peer, BUILTIN, made.snapshot.config)
            assert sorted(await known.allowed_by(["s__*"])) == sorted(BUILTIN)
            other.announce(announced("s__read", "list_tools"))
            await peer.sleep(1.0)
            found = await known.allowed_by(["s__*"])
            assert found["s__read"].description == "does s__read"
            assert found["list_tools"] is BUILTIN["list_tools"]
            asked = peer.counters()["waiting"]
            other.announce(announced())
            await known.allowed_by(["s__*"])
            assert peer.counters()["waiting"] == asked
            await peer.sleep(1.0)
            made.world.network.kill_broker()
            assert "s__read" in await known.allowed_by(["s__*"])

        made.world.run(scenario())


def test_offered_are_those_that_are_allowed_had_and_permitted_each_once() -> None:
    """Wildcards mean what is there, by id; what writes needs its exact name."""

    def tool(name: str, *, writes: bool) -> ToolDefinition:
        run = BUILTIN["list_tools"].run
        return ToolDefinition(
            tool_id=name, description=name, parameters={}, idempotent=True, run=run, writes=writes, source="s"
        )

    specs: Mapping[str, ToolDefinition] = {
        name: tool(name, writes=writes) for name, writes in [("s__a", False), ("s__b", True), ("s__c", True)]
    }
    agent = shipped().agents["ADMIN"]
    permissions = agent.permissions.model_copy(update={"tools": ("s__*", "s__c")})
    agent = agent.model_copy(update={"tools": ("s__*",), "permissions": permissions})
    given = order(constraints={"tools_allowed": ["s__c", "s__*", "s__nothing"]})
    assert [spec.tool_id for spec in offered_tools(given, agent, specs)] == ["s__c", "s__a"]
    assert offered_tools(given, None, specs) == []
