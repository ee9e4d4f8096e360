"""Writes in order, across busy, slow, dead and restarted ledgers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bus.dispatch import Call
from bus.errors import LedgerError, RuntimeFault
from bus.ledger_client import LedgerClient, every_page
from bus.messages.ledger import Ack, Entries, Read, Write, Written
from bus.record.entry import to_entry, to_stored
from bus.sim.world import World
from tests.bus.journal import Journal, Store, entry
from tests.conformance.clusters import bus_settings, ledger_settings


@pytest.fixture
def world() -> Iterator[World]:
    """A cluster with a small size limit and a short grace."""
    with World(bus_settings(body_max_bytes=10_000, service_grace_ms=300)) as made:
        yield made


def client_of(world: World, *, lanes: list[str] | None = None, outstanding_max: int = 1000) -> LedgerClient:
    """A writer of role ho2."""
    bus = world.client("ho2", lanes=lanes)
    return LedgerClient(bus, ledger_settings(request_timeout_ms=2000, client_outstanding_max=outstanding_max))


def chain(count: int) -> list[tuple[str, str]]:
    """(submission id, its predecessor) of a stream's first entries."""
    ids = [f"e{number}" for number in range(count)]
    return list(zip(ids, ["", *ids], strict=False))


def test_a_write_returns_its_acks(world: World) -> None:
    """One ack per entry, in order."""
    store = Store()
    world.start(Journal(store), role="ledger")
    acks = world.run(client_of(world).write([entry("a"), entry("b")]))
    assert [(ack.outcome, ack.sequence) for ack in acks] == [("committed", 0), ("committed", 1)]


def test_pipelined_writes_leave_in_the_order_of_the_calls(world: World) -> None:
    """A hundred submissions without an await between them, the barrier last."""
    store = Store()
    world.start(Journal(store, delay_s=0.01), role="ledger")
    client = client_of(world)

    async def scenario() -> None:
        for name, prev in chain(100):
            client.submit([entry(name, prev=prev)])
        await client.write([entry("barrier", prev="e99")])

    world.run(scenario())
    assert store.arrived == [*(f"e{number}" for number in range(100)), "barrier"]
    assert store.ids == store.arrived


def test_a_busy_ledger_does_not_tear_the_order(world: World) -> None:
    """The busy write and all that was refused behind it are submitted again; everything commits once, in order."""
    store = Store()
    store.busy_for = ["e3", "e3", "e7"]
    world.start(Journal(store), role="ledger")
    client = client_of(world)

    async def scenario() -> list[str]:
        futures = [client.submit([entry(name, prev=prev)]) for name, prev in chain(10)]
        await client.flush()
        return [future.result()[0].outcome for future in futures]

    outcomes = world.run(scenario())
    assert store.ids == [f"e{number}" for number in range(10)]
    assert set(outcomes) <= {"committed", "known"}
    assert client.outstanding == 0


def test_a_busy_ledger_is_asked_again_when_it_said(world: World) -> None:
    """Not at the usual pause of a hundredth of the request time-out."""
    store = Store()
    store.busy_for = ["e0"]
    world.start(Journal(store), role="ledger")
    client = client_of(world)

    async def scenario() -> float:
        began = asyncio.get_running_loop().time()
        await client.write([entry("e0")])
        return asyncio.get_running_loop().time() - began

    assert bus_settings().busy_retry_ms / 1000 <= world.run(scenario()) <= 1.0


def test_what_is_submitted_while_going_back_waits_its_turn(world: World) -> None:
    """A new write never overtakes one that has to be delivered again."""
    store = Store()
    store.busy_for = ["e0"]
    world.start(Journal(store), role="ledger")
    client = client_of(world)

    async def scenario() -> None:
        client.submit([entry("e0", prev="")])
        await asyncio.sleep(0.31)  # e0 was answered `busy` by now
        await client.write([entry("e1", prev="e0")])

    world.run(scenario())
    assert store.ids == ["e0", "e1"]


@pytest.mark.parametrize("by_lane", [True, False])
def test_a_killed_ledger_loses_and_repeats_nothing(world: World, *, by_lane: bool) -> None:
    """Killed with writes applied and not acknowledged; the next incarnation has each entry once, in order."""
    store = Store()
    first = world.start(Journal(store, delay_s=0.05), role="ledger")
    client = client_of(world, lanes=None if by_lane else [])

    async def scenario() -> list[str]:
        futures = []
        for number, (name, prev) in enumerate(chain(20)):
            futures.append(client.submit([entry(name, prev=prev)]))
            await asyncio.sleep(0.05)
            if number == 12:
                world.kill(first.instance)
            if number == 15:
                world.start(Journal(store), role="ledger")
        await client.flush()
        return [future.result()[0].outcome for future in futures]

    outcomes = world.run(scenario())
    assert store.ids == [f"e{number}" for number in range(20)]
    assert "known" in outcomes  # some acks were lost with the first incarnation
    assert set(outcomes) <= {"committed", "known"}


def test_a_barrier_gives_up_after_the_outage_wait_but_the_write_does_not(world: World) -> None:
    """`unavailable` after exactly that time; when a ledger comes, the entry still commits."""
    store = Store()
    client = client_of(world)

    async def scenario() -> float:
        began = world.loop.time()
        with pytest.raises(LedgerError) as caught:
            await client.write([entry("a")])
        assert (caught.value.code, caught.value.retryable) == ("unavailable", True)
        assert client.outstanding == 1
        waited = world.loop.time() - began
        world.start(Journal(store), role="ledger")
        await client.flush()
        return waited

    assert world.run(scenario()) == pytest.approx(5.0, abs=0.01)
    assert store.ids == ["a"]


def test_cancelling_a_barrier_does_not_cancel_the_write(world: World) -> None:
    """No ack means unknown: whoever waited is gone, the entry stands."""
    store = Store()
    world.start(Journal(store, delay_s=0.5), role="ledger")
    client = client_of(world)

    async def scenario() -> None:
        waiting = asyncio.ensure_future(client.write([entry("a")]))
        await asyncio.sleep(0.4)
        waiting.cancel()
        await client.flush()

    world.run(scenario())
    assert store.ids == ["a"]
    assert client.outstanding == 0


def test_outstanding_entries_are_bounded(world: World) -> None:
    """The bound counts entries, names its setting, and frees as acks come."""
    store = Store()
    world.start(Journal(store), role="ledger")
    client = client_of(world, outstanding_max=3)

    async def scenario() -> None:
        client.submit([entry("a"), entry("b")])
        client.submit([entry("c")])
        with pytest.raises(LedgerError, match="client_outstanding_max") as caught:
            client.submit([entry("d")])
        assert caught.value.code == "busy"
        await client.flush()
        await client.write([entry("d")])

    world.run(scenario())
    assert store.ids == ["a", "b", "c", "d"]


def test_a_refused_ack_is_returned_not_raised(world: World) -> None:
    """The writer decides what a fence means."""
    world.start(Journal(Store()), role="ledger")
    (ack,) = world.run(client_of(world).write([entry("b", prev="a")]))
    assert (ack.outcome, ack.code) == ("refused", "head_mismatch")


def test_a_write_that_can_never_succeed_fails_alone(world: World) -> None:
    """Too large to send, or a full disk: its own writer is told, the others go on."""
    store = Store()
    world.start(Journal(store), role="ledger")
    client = client_of(world)

    async def scenario() -> None:
        large = client.submit([entry("large", size=20_000)])
        fine = client.submit([entry("fine")])
        await client.flush()
        with pytest.raises(RuntimeFault, match="body_max_bytes"):
            large.result()
        assert fine.result()[0].outcome == "committed"
        store.disk_is_full = True
        with pytest.raises(LedgerError) as caught:
            await client.write([entry("late")])
        assert caught.value.code == "disk_full"

    world.run(scenario())
    assert store.ids == ["fine"]


def test_questions_reach_the_ledger(world: World) -> None:
    """Lookup and read, typed."""
    world.start(Journal(Store()), role="ledger")
    client = client_of(world)

    async def scenario() -> None:
        assert await client.lookup(["a"], ["once"]) == [None, None]
        assert (await client.read("governance", limit=10)).head == -1

    world.run(scenario())


def test_an_answer_about_other_entries_is_none(world: World) -> None:
    """However it came about: the write is sent again until it is acknowledged itself."""
    store, lies = Store(), ["e9"]

    class Liar(Journal):
        async def on_write(self, message: Write, call: Call) -> Written:
            written = await super().on_write(message, call)
            about = lies.pop() if lies else written.acks[0].submission_id
            return Written(acks=[ack._replace(submission_id=about) for ack in written.acks])

    world.start(Liar(store), role="ledger")
    (ack,) = world.run(client_of(world).write([entry("e0")]))
    assert (ack.submission_id, ack.outcome, lies) == ("e0", "known", [])


def test_an_entry_that_lost_its_once_key_is_answered_with_the_winner(world: World) -> None:
    """That is an answer about it, given once."""
    store = Store()

    class Lost(Journal):
        async def on_write(self, message: Write, call: Call) -> Written:
            store.arrived.append(message.entries[0].submission_id)
            return Written(acks=[Ack(outcome="lost", sequence=4, submission_id="first")])

    world.start(Lost(store), role="ledger")
    (ack,) = world.run(client_of(world).write([entry("e0")._replace(once="k")]))
    assert (ack.outcome, ack.submission_id, store.arrived) == ("lost", "first", ["e0"])


@pytest.mark.parametrize(
    ("limit", "pages", "further"),
    [(2, [2], True), (3, [3], True), (5, [3, 2], True), (7, [3, 3, 1], False), (99, [3, 3, 1], False)],
)
@pytest.mark.parametrize("newest_first", [False, True])
async def test_every_page_of_a_question_is_fetched_up_to_its_limit(limit, pages, further, newest_first):
    """However small the ledger cuts them; backwards as well."""
    held, sizes = list(range(7)), []

    class Ledger:
        async def request(self, _service, question, **_):
            inside = [n for n in held if n > question.after and (question.before is None or n < question.before)]
            inside = (inside[::-1] if newest_first else inside)[: question.limit + 1]
            given = inside[: min(question.limit, 3)]
            sizes.append(len(given))
            return Entries.model_construct(
                entries=[to_entry(to_stored(entry("e"), "", 0, (), ()), n, b"", []) for n in given],
                more=len(inside) > len(given),
                head=6,
            )

    question = Read(stream="s", limit=limit, newest_first=newest_first)
    entries, more = await every_page(Ledger(), question, timeout_s=1)
    assert [entry.sequence for entry in entries] == (held[::-1] if newest_first else held)[:limit]
    assert (sizes, more) == (pages, further)
