"""The ledger is away for a while at moment after moment of a turn: how long the user waits, and for what."""

from __future__ import annotations

import asyncio

import pytest

from bench.builders import shipped_snapshot
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.bus.messages.control import Peers, ReadPeers
from hobus.bus.messages.session import EndSession, SessionClosed
from hobus.bus.record.ends import OF_EXECUTORS
from tests.journals import check_record
from tests.simulated import SimulatedCluster
from tests.simulation.turns import AsksForTools, with_thinking, with_tools

QUESTION = "what packages are installed?"
DEADLINE_S = 60.0


def test_an_answered_input_is_not_answered_again_while_the_record_is_away() -> None:
    """The supervisor knows that there is an answer: nobody makes another one, and later it is the one that was told."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        first = cluster.ask(QUESTION, input_id="in-1", timeout_s=DEADLINE_S)
        cluster.strike("ledger", after_s=0.0, back_after_s=8.0)
        again = cluster.ask(QUESTION, input_id="in-1", session_id=first.session_id, timeout_s=8.0)
        cluster.world.run(asyncio.sleep(5))
        later = cluster.ask(QUESTION, input_id="in-1", session_id=first.session_id, timeout_s=DEADLINE_S)
    assert (again.outcome, again.code) == ("error", "unreadable")
    assert first.outcome == "success" and (later.outcome, later.response) == (first.outcome, first.response)


def test_a_disk_that_fills_is_named_by_the_answer_and_by_the_ledger_until_there_is_space():
    """Every ask ends with `disk_full` and the figures; the ledger is degraded meanwhile; then both are as before."""

    def ledger(cluster: SimulatedCluster) -> tuple[str, str]:
        cluster.world.run(asyncio.sleep(3))
        client = cluster.world.client("operator")
        peers = cluster.world.run(client.request("broker", ReadPeers(), expect=Peers, timeout_s=1)).peers
        [row] = [peer for peer in peers if peer.role == "ledger"]
        return row.state, row.reason

    with SimulatedCluster(shipped_snapshot()) as cluster:
        medium = cluster.world.disk("ledger").medium
        assert cluster.ask(QUESTION, input_id="in-1").outcome == "success"
        assert ledger(cluster) == ("ready", "")
        capacity, medium.capacity_bytes = medium.capacity_bytes, medium.used_bytes() + (5 << 20)
        state, reason = ledger(cluster)
        assert state == "degraded" and reason.startswith("the disk is full: 5 MB free, the record wants ")
        result = cluster.ask(QUESTION, input_id="in-2")
        assert (result.outcome, result.code) == ("error", "disk_full")
        assert "bytes are free where the ledger lies" in result.response
        medium.capacity_bytes = capacity
        assert ledger(cluster) == ("ready", "")
        assert cluster.ask(QUESTION, input_id="in-2").outcome == "success"


@pytest.mark.parametrize("struck", [[], ["ho2"], ["host"], ["ho2", "host"]], ids=lambda struck: "+".join(struck) or "-")
def test_an_answered_input_is_read_from_the_record_while_its_disk_is_full(struck: list[str]) -> None:
    """Nobody owns its session any more, since another input could not be recorded, and nobody can take it over."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        medium = cluster.world.disk("ledger").medium
        first = cluster.ask(QUESTION, input_id="in-1", timeout_s=DEADLINE_S)
        capacity, medium.capacity_bytes = medium.capacity_bytes, medium.used_bytes() + (5 << 20)
        cluster.world.run(asyncio.sleep(3))
        other = cluster.ask(QUESTION, input_id="in-2", session_id=first.session_id, timeout_s=DEADLINE_S)
        for role in struck:
            cluster.strike(role, after_s=0.0, back_after_s=0.2 if role == "host" else 300.0)
        again, another = (
            cluster.ask(text, input_id="in-1", session_id=first.session_id, timeout_s=DEADLINE_S)
            for text in (QUESTION, "hello")
        )
        medium.capacity_bytes = capacity
        cluster.world.run(asyncio.sleep(2))
        entries = cluster.entries()
        assert cluster.verify().ok
    assert (first.outcome, other.code, another.code) == ("success", "disk_full", "input_conflict")
    assert (again.outcome, again.response, again.run_id) == (first.outcome, first.response, first.run_id)
    assert not [entry for entry in entries if "DEGRADED-in-1" in entry.submission_id]
    check_record(entries)


def test_an_answer_that_died_with_its_gateway_is_asked_for_anew():
    """Nothing of it stands anywhere: who delivers the order again has another one, and the only end."""
    with SimulatedCluster(with_thinking(shipped_snapshot(), 1000)) as cluster:
        cluster.strike(
            "ledger", after_s=1.9, back_after_s=0.5
        )  # PROMPT_SENT stands; the answer comes after two seconds
        cluster.strike("gateway", after_s=2.2, back_after_s=0.2)
        cluster.strike("ho2", after_s=2.2, back_after_s=1.5)
        cluster.strike("ho1", after_s=3.5, back_after_s=0.2)
        result = cluster.ask("hello", input_id="in-1", timeout_s=DEADLINE_S)
        cluster.world.run(asyncio.sleep(1.0))
        entries = cluster.entries()
        assert cluster.verify().ok
    assert (result.outcome, result.code) == ("success", None)
    check_record(entries)
    unknown = [entry.submission_id for entry in entries if entry.reason == "UNKNOWN_OUTCOME"]
    assert [name.rpartition("-")[2] for name in unknown] == ["1.2.1#1/1"]
    of_order = [one.event_type for one in entries if one.provenance.work_order_id.endswith("-1.2.1")]
    assert [one for one in of_order if one == "OrderEnded" or one in OF_EXECUTORS] == ["OrderEnded"]
    assert result.exchange_entry_ids[-1].endswith("-1.2.1#1/2")


def test_labels_outlive_the_record_of_the_call_that_gave_them():
    """A run goes on with what its journal holds of an answer whose text died with its gateway, whoever drives it."""
    with SimulatedCluster(with_thinking(shipped_snapshot(), 1000)) as cluster:
        cluster.strike("ledger", after_s=0.9, back_after_s=0.5)
        cluster.strike("gateway", after_s=1.2, back_after_s=0.2)
        cluster.strike("ho2", after_s=2.2, back_after_s=0.2)
        result = cluster.ask("hello", input_id="in-1", timeout_s=DEADLINE_S)
        cluster.world.run(asyncio.sleep(1.0))
        entries = cluster.entries()
        assert cluster.verify().ok
    unknown = [entry.submission_id for entry in entries if entry.reason == "UNKNOWN_OUTCOME"]
    assert "1.1.1#1/1" in [name.rpartition("-")[2] for name in unknown]
    assert (result.outcome, result.code) == ("success", None)
    check_record(entries)


class Talks(AsksForTools):
    """A model that thinks for a second, and says what it is about to do."""

    async def complete(self, prompt, **how):
        """With words beside the calls that it asks for."""
        await asyncio.sleep(1.0)
        answer = await super().complete(prompt, **how)
        return answer.model_copy(update={"content": "Let me look."}) if answer.tool_calls else answer


@pytest.mark.parametrize("struck", [[], ["gateway"]], ids=["alone", "with its gateway"])
def test_what_a_model_said_beside_its_calls_outlives_the_record_of_its_answer(struck):
    """The next order shows it to the model, whoever sends that order again."""
    snapshot = with_tools(shipped_snapshot(), BUILTIN["list_packages"])
    with SimulatedCluster(snapshot, providers={"offline": Talks()}) as cluster:
        cluster.strike("ledger", after_s=1.9, back_after_s=0.5)
        cluster.strike("gateway", after_s=2.2, back_after_s=0.2)
        for role in ["ho2", "ho1", *struck]:
            cluster.strike(role, after_s=3.2, back_after_s=0.2)
        result = cluster.ask(QUESTION, input_id="in-1", timeout_s=DEADLINE_S)
        cluster.world.run(asyncio.sleep(1.0))
        entries = cluster.entries()
        assert cluster.verify().ok
    unknown = [entry.submission_id for entry in entries if entry.reason == "UNKNOWN_OUTCOME"]
    assert "1.2.1#1/1" in [name.rpartition("-")[2] for name in unknown]
    assert (result.outcome, result.code, [call.status for call in result.tool_calls]) == (
        "success",
        None,
        ["Succeeded"],
    )
    check_record(entries)


@pytest.mark.parametrize("roles", [("gateway",), ("gateway", "ho2"), ("gateway", "ledger")])
@pytest.mark.parametrize(("deadline_s", "seconds"), [(DEADLINE_S, 14.0), (1.0, 1.0)])
def test_a_turn_without_a_gateway_is_answered_within_seconds(
    roles: tuple[str, ...], deadline_s: float, seconds: float
) -> None:
    """Nobody waits out his deadline for a model that nobody can ask; one of a second is kept, too."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        for role in roles:
            cluster.strike(role, after_s=0.0, back_after_s=300.0)
        began = cluster.world.loop.time()
        result = cluster.ask(QUESTION, input_id="in-1", timeout_s=deadline_s)
        assert cluster.world.loop.time() - began < seconds
    assert result.outcome == "error"


def test_a_gateway_that_freezes_under_a_hasty_client_is_answered_for_in_his_time() -> None:
    """With HO2 away and a gateway that says nothing, the last resort itself keeps a deadline of a second."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        cluster.strike("ho2", after_s=0.0, back_after_s=300.0)
        cluster.freeze("gateway", after_s=0.0, for_s=300.0)
        began = cluster.world.loop.time()
        result = cluster.ask(QUESTION, input_id="in-1", timeout_s=1.0)
        assert cluster.world.loop.time() - began < 1.0
    assert result.outcome == "error"


@pytest.mark.parametrize("away", ["ledger", "ho2"])
def test_a_session_is_left_in_time_while_its_end_cannot_be_recorded(away: str) -> None:
    """Whoever ends a session hears of it before he gives up, and never of an end that nobody recorded."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        first = cluster.ask(QUESTION, input_id="in-1", timeout_s=DEADLINE_S)
        cluster.strike(away, after_s=0.0, back_after_s=300.0)
        began = cluster.world.loop.time()
        message = EndSession(session_id=first.session_id)
        closed = cluster.world.run(cluster.door.request("host", message, expect=SessionClosed, timeout_s=5.0))
        assert cluster.world.loop.time() - began < 4.5
    assert closed.turn_count is None
