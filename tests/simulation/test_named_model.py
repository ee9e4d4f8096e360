"""Whoever names a provider has everything of the turn sent there, to whatever end, and `why` says who named it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.messages.session import ProcessTurn, SessionConfig, SessionReady, StartSession, TurnResult
from hobus.bus.record.journal import read_event
from hobus.bus.record.session_facts import RunRequested
from hobus.config.schema import AdminConfig
from hobus.config.sections.gateway import Route
from hobus.config.snapshot import Snapshot
from tests.journals import check_record
from tests.simulated import SimulatedCluster
from tests.simulation.turns import AsksForTools

OTHER = SessionConfig(provider="other", model="offline-rules-1")


class Counting(AsksForTools):
    """A provider that writes down which prompts came to it."""

    def __init__(self, provider_id: str) -> None:
        self.provider_id = provider_id
        self.asked: list[str] = []

    async def complete(self, prompt: Any, **how: Any) -> Any:
        self.asked.append(prompt.contract_id)
        return await super().complete(prompt.model_copy(update={"tools": []}), **how)


def two_providers(*, of_agent: bool = False) -> Snapshot:
    """The shipped default, and another one with the same model."""
    snapshot = shipped_snapshot()
    config = snapshot.config.model_dump()
    config["gateway"]["providers"]["other"] = config["gateway"]["providers"]["offline"]
    agents = {
        name: agent.model_copy(
            update={"model": Route(provider_id="other", model_id="offline-rules-1") if of_agent else None}
        )
        for name, agent in snapshot.agents.items()
    }
    return dataclasses.replace(snapshot, config=AdminConfig.model_validate(config), agents=agents)


def ask(cluster: SimulatedCluster, input_id: str, **fields: Any) -> TurnResult:
    """One turn."""
    turn = ProcessTurn(input_id=input_id, text="hello", **fields)
    return cluster.world.run(cluster.door.request("host", turn, expect=TurnResult, timeout_s=20))


def begin(cluster: SimulatedCluster) -> str:
    """A session that names the other provider."""
    start = StartSession(session_config=OTHER)
    return cluster.world.run(cluster.door.request("host", start, expect=SessionReady, timeout_s=20)).session_id


@pytest.mark.parametrize("who", ["request", "session", "agent"])
def test_a_named_provider_gets_all_of_a_turn_and_no_other_one_anything(who: str) -> None:
    """Classification and answer; without a supervisor the degraded answer too, with or without the record."""
    main, other = Counting("offline"), Counting("other")
    snapshot = two_providers(of_agent=who == "agent")
    with SimulatedCluster(snapshot, providers={"offline": main, "other": other}) as cluster:
        fields: dict[str, Any] = {"run_overrides": OTHER} if who == "request" else {}
        if who == "session":
            fields["session_id"] = begin(cluster)
        first = ask(cluster, "in-1", **fields)
        assert (first.outcome, main.asked) == ("success", [])
        assert other.asked == ["PRC-CLASSIFY-001", "PRC-SYNTHESIZE-001"]
        fields["session_id"] = first.session_id
        cluster.kill_now(cluster.oldest("ho2") or "")
        assert ask(cluster, "in-2", **fields).outcome == "degraded"
        entries = cluster.entries()
        cluster.kill_now(cluster.oldest("ledger") or "")
        assert ask(cluster, "in-3", **fields).outcome == "degraded"
        assert (main.asked, other.asked[2:]) == ([], ["PRC-DEGRADED-001"] * 2)
    (requested,) = [entry for entry in entries if entry.event_type == "RunRequested"]
    event = read_event(requested).event
    assert isinstance(event, RunRequested) and event.model is not None
    assert (event.model.provider, event.model.named_by) == ("other", who)
    check_record(entries)


def test_a_host_that_was_restarted_reads_in_the_record_where_a_session_goes() -> None:
    """It holds nothing of it, and there is no supervisor to ask."""
    main, other = Counting("offline"), Counting("other")
    with SimulatedCluster(two_providers(), providers={"offline": main, "other": other}) as cluster:
        session_id = begin(cluster)
        for role in ("host", "ho2"):
            cluster.kill_now(cluster.oldest(role) or "")
        cluster.start("host")
        assert ask(cluster, "in-1", session_id=session_id).outcome == "degraded"
        assert (main.asked, other.asked) == ([], ["PRC-DEGRADED-001"])


def test_a_model_that_its_agent_may_not_use_is_refused_before_anything_is_sent() -> None:
    """Not even to classify; the sentence says what to write where."""
    main, other = Counting("offline"), Counting("other")
    snapshot = two_providers()
    admin = snapshot.agents["ADMIN"]
    permitted = admin.permissions.model_copy(update={"providers": ("offline",)})
    snapshot = dataclasses.replace(
        snapshot, agents={**snapshot.agents, "ADMIN": admin.model_copy(update={"permissions": permitted})}
    )
    with SimulatedCluster(snapshot, providers={"offline": main, "other": other}) as cluster:
        refused = ask(cluster, "in-1", run_overrides=OTHER)
        assert (refused.outcome, refused.code, main.asked, other.asked) == ("error", "FORBIDDEN", [], [])
        assert "permissions.providers in agents/ADMIN.json" in refused.response
        unknown = ask(cluster, "in-2", run_overrides=SessionConfig(model="other/none"))
        assert (unknown.code, main.asked) == ("MODEL_NOT_FOUND", [])
