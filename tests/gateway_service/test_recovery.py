"""A gateway that starts reads on from the newest snapshot, and comes to the same as one that reads everything."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from bench.builders import prompt
from hobus.bus.errors import GatewayError
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.ledger import Entry, Query, Write, Written
from hobus.config.sections.gateway import Route
from hobus.gateway_service import limits, records
from hobus.gateway_service.budget import Reservation, list_figures
from hobus.gateway_service.records import Attempt
from hobus.gateway_service.recovery import OwnLedger, Recovery
from tests.gateway_service.rig import Cluster, answered, hang, payload
from tests.rig import of_type

pytestmark = pytest.mark.slow

EVERY = 6


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """With a snapshot every six entries, and pages of four."""
    monkeypatch.setattr(limits, "SNAPSHOT_ENTRIES", EVERY)
    monkeypatch.setattr(limits, "REBUILD_PAGE", 4)
    made = Cluster()
    yield made
    made.close()


def folded(cluster: Cluster, entries: list[Entry]) -> Recovery:
    """What all these entries come to, without any snapshot."""
    whole = Recovery(cluster.ho1, OwnLedger(cluster.ho1, cluster.snapshot.config.ledger), None, heard_s=0)
    for entry in entries:
        whole._fold(entry)
    return whole


async def restarted(cluster: Cluster) -> list[str]:
    """The gateway is killed and starts anew; the entries that the new one folded, by submission id."""
    cluster.kill_gateway()
    cluster.start_gateway()
    seen: list[str] = []
    fold = Recovery._fold

    def note(self: Recovery, entry: Entry) -> None:
        seen.append(entry.submission_id)
        fold(self, entry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recovery, "_fold", note)
        await cluster.ready()
    return seen


def test_a_start_reads_on_from_the_newest_snapshot(cluster: Cluster) -> None:
    """Ten calls, a snapshot about every three, a restart: little is read, and the budgets are those of the whole."""
    for number in range(10):
        cluster.run(
            cluster.ask(prompt(f"WO-{number}#1", session_id=f"0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f2{number % 3}"))
        )
        cluster.run(asyncio.sleep(0.5))
    seen, entries = cluster.run(restarted(cluster)), cluster.run(cluster.entries(rests_s=2))
    snapshots = of_type(entries, "BUDGET_SNAPSHOT")
    assert len(snapshots) >= 3
    assert len(seen) <= 2 * EVERY < len(entries)
    state = cluster.service._current.account.state
    assert state.scopes == folded(cluster, entries).state.scopes and state.open == {}
    assert sum(scope.calls for name, scope in state.scopes.items() if name.startswith("session:")) == 10


def test_a_call_that_is_open_in_a_snapshot_is_closed_by_the_next_start(cluster: Cluster) -> None:
    """Its beginning is not read again: it is looked up, held, and closed as unknown, once."""

    async def act(wanted: Prompt) -> PromptResponse:
        return await hang(wanted) if wanted.work_order_id == "WO-open" else answered()

    cluster.provider.act = act

    async def scenario() -> tuple[list[str], list[Entry]]:
        asking = asyncio.ensure_future(cluster.ask(prompt("WO-open#1"), timeout_s=1000))
        await asyncio.sleep(0.5)
        for number in range(8):
            await cluster.ask(prompt(f"WO-{number}#1"))
            await asyncio.sleep(0.5)
        seen = await restarted(cluster)
        asking.cancel()
        return seen, await cluster.entries(rests_s=2)

    seen, entries = cluster.run(scenario())
    assert any(payload(entry).open == ("WO-open#1/1",) for entry in of_type(entries, "BUDGET_SNAPSHOT"))
    assert "PROMPT_SENT:WO-open#1/1" not in seen
    ends = [entry for entry in of_type(entries, "PROMPT_FAILED") if entry.submission_id.endswith(":WO-open#1/1")]
    assert [entry.reason for entry in ends] == ["UNKNOWN_OUTCOME"]
    state, whole = cluster.service._current.account.state, folded(cluster, entries)
    assert state.scopes == whole.state.scopes and state.open == whole._unended == {}


def test_without_a_snapshot_that_can_be_read_everything_is(cluster: Cluster) -> None:
    """A snapshot that nobody understands costs time, not figures."""

    async def scenario() -> tuple[list[str], list[Entry]]:
        for number in range(6):
            await cluster.ask(prompt(f"WO-{number}#1"))
            await asyncio.sleep(0.5)
        with pytest.MonkeyPatch.context() as patch:
            page = LedgerClient.page

            async def odd(self, question):
                found = await page(self, question)
                if not isinstance(question, Query):
                    return found
                bodies = {"bodies": [bytes([0x80])]}
                return found.model_copy(update={"entries": [one._replace(**bodies) for one in found.entries]})

            patch.setattr(LedgerClient, "page", odd)
            seen = await restarted(cluster)
        return seen, await cluster.entries(rests_s=2)

    seen, entries = cluster.run(scenario())
    assert of_type(entries, "BUDGET_SNAPSHOT")
    assert {entry.submission_id for entry in of_type(entries, "PROMPT_SENT")} <= set(seen)
    assert cluster.service._current.account.state.scopes == folded(cluster, entries).state.scopes


def check_snapshots(cluster: Cluster, entries: list[Entry]) -> int:
    """Each says what all entries up to its place come to, whoever wrote them; return how many there are."""
    snapshots = of_type(entries, "BUDGET_SNAPSHOT")
    for said in map(payload, snapshots):
        state = folded(cluster, [entry for entry in entries if entry.sequence <= said.after]).state
        assert said.scopes == list_figures(state)
        assert said.open == tuple(sorted(state.open))
    return len(snapshots)


@pytest.mark.parametrize("seed", range(8))
def test_own_acknowledged_writes_come_to_what_the_record_says(cluster: Cluster, seed: int) -> None:
    """Calls of every end, killed gateways, and entries that an earlier incarnation still had on its way."""
    draw = random.Random(seed)

    async def act(_wanted: Prompt) -> PromptResponse:
        await asyncio.sleep(draw.choice((0.0, 0.1, 2.0)))
        if draw.random() < 0.2:
            raise GatewayError("PROVIDER_REFUSED", "broken", facts={"input_tokens": 3})
        return answered(input_tokens=draw.randrange(1, 50))

    async def write_late(number: int) -> None:
        await asyncio.sleep(draw.random() / 2)
        ask = prompt(f"WO-late-{number}#1", token_budget=5000)
        held = Reservation(f"WO-late-{number}#1/1", 70 + number, ("provider:offline",))
        asked = records.ask_of(ask, Route(provider_id="offline", model_id="m"), trace="", is_degraded=False)
        sent = records.make_sent(Attempt(asked, held.reservation_id, 1, held, 7, "warn"), {}, at=number)
        await earlier.request("ledger", Write(entries=[sent]), expect=Written, timeout_s=5)

    async def scenario() -> None:
        for number in range(4):
            calls = [cluster.ask(prompt(f"WO-{number}-{n}#1", token_budget=9000)) for n in range(draw.randrange(4, 9))]
            waiting = [asyncio.ensure_future(one) for one in (write_late(number), *calls)]
            await asyncio.sleep(draw.choice((0.02, 0.5, 1.0)))
            for more in range(draw.randrange(20)):
                await cluster.ask(prompt(f"WO-{number}-more-{more}#1"))
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            cluster.kill_gateway()
            cluster.start_gateway()
            await cluster.ready()

    cluster.provider.act = act
    earlier = cluster.world.client("gateway")
    cluster.run(scenario())
    entries = cluster.run(cluster.entries(rests_s=3))
    assert check_snapshots(cluster, entries) > 4


def test_once_nobody_else_can_be_heard_the_record_is_not_read_again(cluster: Cluster) -> None:
    """Snapshots go on, as right as those that were read."""
    asked: list[str] = []

    async def scenario() -> list[Entry]:
        for number in range(30):
            await cluster.ask(prompt(f"WO-{number}#1"))
            await asyncio.sleep(0.1)
            if number == 15:
                patch.setattr(LedgerClient, "page", note)
        return await cluster.entries(rests_s=2)

    page = LedgerClient.page

    def note(self, question):
        asked.append(question.stream)
        return page(self, question)

    with pytest.MonkeyPatch.context() as patch:
        entries = cluster.run(scenario())
    assert check_snapshots(cluster, entries) > 6
    assert "prompts" not in asked
