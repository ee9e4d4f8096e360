"""A model that cannot be had is said to be, by name and with the fix; no other one answers in its place."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.errors import GatewayError
from hobus.bus.messages.session import ProcessTurn, SessionConfig, TurnResult
from hobus.bus.record.catalog import read_body
from hobus.config.schema import AdminConfig
from hobus.launch.sessions.account import contexts_in
from hobus.launch.sessions.evidence import seen_in
from tests.actors.ho2_supervisor.rig import snapshot
from tests.journals import check_record, count_of, list_answers
from tests.simulated import SimulatedCluster
from tests.simulation.turns import AsksForTools


def asked(
    cluster: SimulatedCluster, input_id: str, overrides: SessionConfig, session_id: str | None = None
) -> TurnResult:
    """One turn with these overrides."""
    turn = ProcessTurn(session_id=session_id, input_id=input_id, text="hello", run_overrides=overrides)
    return cluster.world.run(cluster.door.request("host", turn, expect=TurnResult, timeout_s=60))


@pytest.mark.parametrize(
    ("overrides", "code", "word"),
    [
        (SessionConfig(provider="nowhere"), "PROVIDER_NOT_FOUND", "no provider 'nowhere'"),
        (SessionConfig(model="gpt-nothing"), "MODEL_NOT_FOUND", "no model 'gpt-nothing'"),
    ],
)
def test_a_provider_or_model_that_does_not_exist_is_refused(overrides, code, word):
    """An error with its name in it, the turn's one answer, also when it is asked for again; nothing degrades."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        unborn = asked(cluster, "in-0", overrides)  # a session that names it would be of no use
        session_id = cluster.ask("hello", input_id="first").session_id
        results = [asked(cluster, "in-1", overrides, session_id) for _ in range(2)]
        entries = cluster.entries()
    for result in (unborn, *results):
        assert (result.outcome, result.code) == ("error", code)
        assert word in result.response and "offline" in result.response
    assert count_of(entries, "DEGRADATION") == 0
    assert len(list_answers(entries, "in-1")) == 1
    check_record(entries)


def test_where_any_model_may_be_asked_for_the_embedded_rules_refuse_one_that_they_do_not_have():
    """Sent, so no longer the gateway's to reject: the provider names what it has, and it costs nothing."""
    with SimulatedCluster(snapshot(("gateway.providers.offline.any_model", True))) as cluster:
        result = asked(cluster, "in-1", SessionConfig(model="a-great-model"))
        entries = cluster.entries()
    assert (result.outcome, result.code) == ("error", "PROVIDER_REFUSED")
    assert "has no model 'a-great-model'; it has offline-rules-1" in result.response
    assert (count_of(entries, "PROMPT_FAILED"), count_of(entries, "DEGRADATION")) == (2, 0)  # its classification, too
    check_record(entries)


class Notes(AsksForTools):
    """A provider that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked = []

    async def complete(self, prompt, **how):
        self.asked.append((prompt.contract_id, prompt.reasoning_effort, how["model_id"]))
        return await super().complete(prompt, **how)


def test_how_hard_a_run_shall_think_reaches_the_provider_of_its_answer():
    """From the turn's overrides to the request; the classification is nobody's thinking."""
    notes = Notes()
    with SimulatedCluster(shipped_snapshot(), providers={"offline": notes}) as cluster:
        assert asked(cluster, "in-1", SessionConfig(reasoning_effort="High")).outcome == "success"
    efforts = {contract: effort for contract, effort, _model in notes.asked}
    assert efforts["PRC-SYNTHESIZE-001"] == "High" and efforts["PRC-CLASSIFY-001"] is None


def test_the_profile_of_a_run_reaches_the_provider_of_its_answer():
    """And nobody else's prompts; a profile that there is not ends the turn, and is named."""
    notes, shipped = Notes(), shipped_snapshot()
    config = shipped.config.model_dump()
    config["gateway"]["profiles"] = {
        "hard": {"provider_id": "offline", "temperature": None, "reasoning_effort": "High", "max_tokens": None}
    }
    snapshot = dataclasses.replace(shipped, config=AdminConfig.model_validate(config))
    with SimulatedCluster(snapshot, providers={"offline": notes}) as cluster:
        assert asked(cluster, "in-1", SessionConfig(provider_profile_id="hard")).outcome == "success"
        efforts = {contract: effort for contract, effort, _model in notes.asked}
        refused = asked(cluster, "in-2", SessionConfig(provider_profile_id="harder"))
    assert efforts["PRC-SYNTHESIZE-001"] == "High" and efforts["PRC-CLASSIFY-001"] is None
    assert (refused.outcome, refused.code, "'harder'" in refused.response) == ("error", "PROVIDER_NOT_FOUND", True)


class Refuses(AsksForTools):
    """A provider that refuses whatever is no classification."""

    def __init__(self, code: str) -> None:
        self.code = code

    async def complete(self, prompt, **how):
        if prompt.contract_id.startswith("PRC-CLASSIFY"):
            return await super().complete(prompt, **how)
        raise GatewayError(self.code, "provider offline answered 401: give it a valid key", facts={"unbilled": True})


@pytest.mark.parametrize("code", ["PROVIDER_REFUSED", "PROVIDER_RATE_LIMITED", "PROVIDER_ERROR"])
def test_the_user_reads_which_provider_refused_and_what_fixes_it(code):
    """Refused for good it is told at once; what may pass is tried by the last resort, whose end says it too."""
    with SimulatedCluster(shipped_snapshot(), providers={"offline": Refuses(code)}) as cluster:
        result = cluster.ask("hello", input_id="in-1")
        entries = cluster.entries()
    assert (result.outcome, result.code) == ("error", code)
    assert "provider offline answered 401: give it a valid key" in result.response
    assert "did not accept the caller" not in result.response
    if code == "PROVIDER_REFUSED":  # a sentence for people: without the ids of orders
        assert result.response == (
            "The provider of the model refused: provider offline answered 401: give it a valid key."
        )
    assert count_of(entries, "DEGRADATION") == (0 if code == "PROVIDER_REFUSED" else 1)
    assert count_of(entries, "PROMPT_REJECTED") == 0


class FailsOnce(AsksForTools):
    """A provider whose first answer is none: it fails, or says a piece every second for ever."""

    def __init__(self, *, drips: bool) -> None:
        self.drips = drips
        self.synthesized = 0

    async def complete(self, prompt, **how):
        if not prompt.contract_id.startswith("PRC-SYNTHESIZE"):
            return await super().complete(prompt, **how)
        self.synthesized += 1
        while self.drips:
            await asyncio.sleep(1)
            if how["on_delta"] is not None:
                how["on_delta"]("a ")
        raise GatewayError("PROVIDER_ERROR", "provider offline answered 500: it failed", facts={"unbilled": True})


@pytest.mark.parametrize("drips", [False, True])
@pytest.mark.parametrize("is_watched", [False, True])
def test_a_degraded_turn_says_whose_answer_it_lacks(drips, is_watched):
    """Failed at once or never done by the time the turn is due; asked again, of whom lives or of the record, the same."""
    provider = FailsOnce(drips=drips)
    with SimulatedCluster(shipped_snapshot(), providers={"offline": provider}) as cluster:
        heard = [].append if is_watched else None
        first = cluster.ask("hello", input_id="in-1", on_stream=heard, timeout_s=12)
        again = cluster.ask("hello", input_id="in-1", session_id=first.session_id)
        for role in ("ho2", "host"):
            cluster.world.kill(cluster.oldest(role) or "")
            cluster.start(role)
        anew = cluster.ask("hello", input_id="in-1", session_id=first.session_id)
        entries = cluster.entries()
    assert {one.outcome for one in (first, again, anew)} == {"degraded"}
    said = "provider offline did not finish an answer of " if drips else "provider offline answered 500: it failed"
    assert first.reason.startswith(said) and {again.reason, anew.reason} == {first.reason}
    assert provider.synthesized == 1
    if drips:
        assert "longer --timeout or x-hobus-timeout; the client's deadline of 12 s, less host.degrade" in first.reason
        assert "request_timeout_ms" not in first.reason
    failed = [entry.reason for entry in entries if entry.event_type == "PROMPT_FAILED"]
    assert failed == ["DEADLINE_EXCEEDED" if drips else "PROVIDER_ERROR"]
    check_record(entries)


class Slow(AsksForTools):
    """A sound model whose answers take 14 s."""

    async def complete(self, prompt, **how):
        if prompt.contract_id.startswith("PRC-SYNTHESIZE"):
            await asyncio.sleep(14)
        return await super().complete(prompt, **how)


def test_hasty_clients_of_a_slow_model_close_it_to_nobody():
    """Five give their turns 10 s, one after the other; whoever waits is answered, and no breaker has moved."""
    with SimulatedCluster(shipped_snapshot(), providers={"offline": Slow()}) as cluster:
        hasty = [cluster.ask("hello", input_id=f"in-{number}", timeout_s=10) for number in range(5)]
        patient = cluster.ask("hello", input_id="in-9")
        entries = cluster.entries()
    assert {one.outcome for one in hasty} == {"degraded"} and patient.outcome == "success"
    assert all("x-hobus-timeout; the client's deadline of 10 s" in one.reason for one in hasty)
    assert count_of(entries, "BREAKER_CHANGED") == 0


@pytest.mark.parametrize("has_memory", [True, False])
def test_a_turn_that_ends_with_its_classification_has_its_context_recorded(has_memory):
    """That of the classification, the only one that was assembled, by its template; `why` calls it that."""
    config = snapshot(("ho3.enabled", has_memory))
    settings = config.config.model_dump()
    settings["gateway"]["domain_tag_routes"] = {"classification": {"provider_id": "offline", "model_id": "other"}}
    config = dataclasses.replace(config, config=AdminConfig.model_validate(settings))
    admin = config.agents["ADMIN"]
    answers = admin.permissions.model_copy(update={"models": ("offline-rules-1",)})
    nothing = admin.model_copy(update={"permissions": answers})
    with SimulatedCluster(dataclasses.replace(config, agents={"ADMIN": nothing})) as cluster:
        results = [cluster.ask("hello", input_id=f"in-{number}") for number in (1, 2)]
        entries = cluster.entries()
    assert {(one.outcome, one.code) for one in results} == {("error", "FORBIDDEN")}
    for result in results:
        of_turn = [one for one in entries if one.provenance.session_id == result.session_id]
        [context] = [one for one in of_turn if one.event_type == "CONTEXT_ASSEMBLED"]
        [end] = [one for one in of_turn if one.event_type == "RunFailed"]
        said = read_body(context)
        assert (said.template_id, said.contract_id) == ("ATT-CLASSIFY-001", "PRC-CLASSIFY-001")
        assert said.template_hash and said.stages and said.max_context_tokens and not said.beside
        assert context.sequence < end.sequence
        [seen] = contexts_in(seen_in(of_turn))
        assert (seen.what, seen.said.template_id) == ("classification", "ATT-CLASSIFY-001")
    check_record(entries)
