"""Writes in order, across busy, slow, dead and restarted ledgers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from hobus.bus import limits
from hobus.bus.dispatch import Call
from hobus.bus.errors import LedgerError, RuntimeFault
from hobus.bus.ledger_client import LedgerClient, read_pages
from hobus.bus.limits import BODY_MAX_BYTES
from hobus.bus.messages.ledger import Ack, Entries, Part, Read, Write, Written
from hobus.bus.record.entry import to_entry, to_stored
from hobus.bus.sim.world import World
from tests.bus.journal import Journal, Store, entry
from tests.conformance.clusters import bus_settings, ledger_settings


@pytest.fixture
def world() -> Iterator[World]:
    """A cluster with a small size limit and a short grace."""
    with World(bus_settings(service_grace_ms=300)) as made:
        yield made


def client_of(world: World, *, lanes: list[str] | None = None, **changed: int) -> LedgerClient:
    """A writer of role ho2."""
    bus = world.client("ho2", lanes=lanes)
    return LedgerClient(bus, ledger_settings(**changed))


def chain(count: int) -> list[tuple[str, str]]:
    """(submission id, its predecessor) of a stream's first entries."""
    ids = [f"e{number}" for number in range(count)]
    return list(zip(ids, ["", *ids], strict=False))


def test_a_write_returns_its_acks(world: World) -> None:
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
    store = Store()
    store.busy_for = ["e0"]
    world.start(Journal(store), role="ledger")
    client = client_of(world)

    async def scenario() -> float:
        began = asyncio.get_running_loop().time()
        await client.write([entry("e0")])
        return asyncio.get_running_loop().time() - began

    assert limits.BUSY_RETRY_MS / 1000 <= world.run(scenario()) <= 1.0


def test_what_is_submitted_while_going_back_waits_its_turn(world: World) -> None:
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


def test_outstanding_entries_are_bounded(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    store = Store()
    world.start(Journal(store), role="ledger")
    monkeypatch.setattr(limits, "UNACKNOWLEDGED_MAX", 3)
    client = client_of(world)

    async def scenario() -> None:
        client.submit([entry("a"), entry("b")])
        client.submit([entry("c")])
        with pytest.raises(LedgerError, match="unacknowledged") as caught:
            client.submit([entry("d")])
        assert caught.value.code == "busy"
        await client.flush()
        await client.write([entry("d")])

    world.run(scenario())
    assert store.ids == ["a", "b", "c", "d"]


def test_a_refused_ack_is_returned_not_raised(world: World) -> None:
    world.start(Journal(Store()), role="ledger")
    (ack,) = world.run(client_of(world).write([entry("b", prev="a")]))
    assert (ack.outcome, ack.code) == ("refused", "head_mismatch")


def test_a_write_that_can_never_succeed_fails_alone(world: World) -> None:
    """Too large to send, or a full disk: its own writer is told, the others go on."""
    store = Store()
    world.start(Journal(store), role="ledger")
    client = client_of(world)

    async def scenario() -> None:
        large = client.submit([entry("large", size=BODY_MAX_BYTES)])
        fine = client.submit([entry("fine")])
        await client.flush()
        with pytest.raises(RuntimeFault, match="the limit is"):
            large.result()
        assert fine.result()[0].outcome == "committed"
        store.disk_is_full = True
        with pytest.raises(LedgerError) as caught:
            await client.write([entry("late")])
        assert caught.value.code == "disk_full"

    world.run(scenario())
    assert store.ids == ["fine"]


def test_questions_reach_the_ledger(world: World) -> None:
    world.start(Journal(Store()), role="ledger")
    client = client_of(world)

    async def scenario() -> None:
        assert await client.lookup(["a"], ["once"]) == [None, None]
        assert (await client.page(Read(stream="governance", limit=10))).head == -1

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


# --- frames -----------------------------------------------------------------------------------------------------------


def test_what_nobody_waits_for_leaves_with_the_next_one_that_somebody_waits_for(world: World) -> None:
    """In one frame, in the order of the calls; each write has its own acks."""
    store = Store()
    world.start(Journal(store), role="ledger")
    client = client_of(world, lazy_commit_ms=3_600_000)

    async def scenario() -> None:
        first = client.submit([entry("a")])
        second = client.submit([entry("b"), entry("c")])
        await world.settled()
        assert store.frames == []
        assert [ack.submission_id for ack in await client.write([entry("d")])] == ["d"]
        assert [[ack.submission_id for ack in one.result()] for one in (first, second)] == [["a"], ["b", "c"]]

    world.run(scenario())
    assert store.frames == [["a", "b", "c", "d"]]


def test_what_nobody_waits_for_leaves_after_its_time(world: World) -> None:
    """`ledger.lazy_commit_ms` bounds the wait of the first one, and so of all behind it."""
    store = Store()
    world.start(Journal(store), role="ledger")
    client = client_of(world, lazy_commit_ms=40)

    async def scenario() -> list[int]:
        seen: list[int] = []
        await client.write([entry("z")])
        client.submit([entry("a")])
        await asyncio.sleep(0.03)
        client.submit([entry("b")])
        seen.append(len(store.frames))
        await asyncio.sleep(0.015)
        return [*seen, len(store.frames)]

    assert world.run(scenario()) == [1, 2]
    assert store.frames == [["z"], ["a", "b"]]


@pytest.mark.parametrize("how", ["flush", "question", "many", "large", "at_once"])
def test_what_nobody_waits_for_leaves_at_once_when_it_has_to(
    monkeypatch: pytest.MonkeyPatch, world: World, how: str
) -> None:
    """Somebody waits for all of it, or asks the ledger and has to find it, or it is as much as a frame takes."""
    store = Store()
    world.start(Journal(store), role="ledger")
    most = 3 if how == "many" else 9
    monkeypatch.setattr(limits, "FRAME_ENTRIES_MAX", most)
    monkeypatch.setattr(limits, "FRAME_BYTES_MAX", 5000)
    client = client_of(world, lazy_commit_ms=3_600_000)

    async def scenario() -> None:
        client.submit([entry("a")])
        client.submit([entry("b", size=5_000 if how == "large" else 0)])
        if how == "flush":
            await client.flush()
        if how == "question":
            assert (await client.page(Read(stream="governance", limit=5))).head == 1
        if how in ("many", "at_once"):
            client.submit([entry("c")], at_once=how == "at_once")
        await asyncio.sleep(0.5)

    world.run(scenario())
    pair, all_three = [["a", "b"]], [["a", "b", "c"]]
    expected = {"flush": pair, "question": pair, "many": all_three, "at_once": all_three, "large": [["a"], ["b"]]}
    assert store.frames == expected[how]
    assert client.outstanding == 0


def test_urgent_writes_leave_together_and_those_after_them_with_the_answer(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    """Those of one step of the loop in one frame; what comes while it is on its way in the next one."""
    store = Store()
    world.start(Journal(store, delay_s=0.1), role="ledger")
    monkeypatch.setattr(limits, "URGENT_FRAMES_MAX", 1)
    client = client_of(world)

    async def scenario() -> None:
        early = [client.submit([entry(f"a{n}")], urgent=True) for n in range(3)]
        await asyncio.sleep(0.01)
        late = [client.submit([entry(f"b{n}")], urgent=n != 1) for n in range(3)]
        await asyncio.sleep(0.05)
        assert store.frames == [["a0", "a1", "a2"]]
        await asyncio.gather(*early, *late)

    world.run(scenario())
    assert store.frames == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]


def test_as_many_frames_of_urgent_writes_are_on_their_way_as_the_setting_says(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    """A lazy one on its way counts for none of them: it may wait for its sync, and nobody waits behind it."""
    store = Store()
    world.start(Journal(store, delay_s=0.5), role="ledger")
    monkeypatch.setattr(limits, "URGENT_FRAMES_MAX", 2)
    client = client_of(world, lazy_commit_ms=1)

    async def scenario() -> None:
        client.submit([entry("lazy")])
        for number in range(4):
            await asyncio.sleep(0.01)
            client.submit([entry(f"e{number}")], urgent=True)
        await asyncio.sleep(0.1)
        assert store.frames == [["lazy"], ["e0"], ["e1"]]
        await client.flush()

    world.run(scenario())
    assert store.frames == [["lazy"], ["e0"], ["e1"], ["e2", "e3"]]


def test_frames_hold_no_more_than_a_batch_of_the_ledger(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    """In number and in bytes; a write that is larger goes alone, and none is parted."""
    store = Store()
    world.start(Journal(store), role="ledger")
    monkeypatch.setattr(limits, "FRAME_ENTRIES_MAX", 4)
    monkeypatch.setattr(limits, "FRAME_BYTES_MAX", 4000)
    client = client_of(world)

    async def scenario() -> None:
        client.submit([entry("a"), entry("b"), entry("c")])
        client.submit([entry("d"), entry("e")])
        client.submit([entry("large", size=6_000)])
        client.submit([entry("f", size=2_000)])
        client.submit([entry("g", size=2_000)])
        await client.write([entry(f"h{n}") for n in range(6)])

    world.run(scenario())
    assert store.frames == [["a", "b", "c"], ["d", "e"], ["large"], ["f"], ["g"], [f"h{n}" for n in range(6)]]
    assert client.outstanding == 0


def test_a_fault_of_one_write_is_not_that_of_those_it_shares_a_frame_with(world: World) -> None:
    """The ledger says of each what became of it."""
    store = Store()

    class Full(Journal):
        async def on_write(self, message: Write, call: Call) -> Written:
            assert message.parts == [Part(1), Part(2, 1), Part(1)]
            store.arrived += [one.submission_id for one in message.entries]
            fault = LedgerError("disk_full", "none is free", facts={"free_bytes": 1})
            acks = [Ack("known", 0, "a"), Ack("committed", 1, "d")]
            return Written(acks=acks, failures={1: fault.as_failure()})

    world.start(Full(store), role="ledger")
    client = client_of(world)

    async def scenario() -> None:
        first = client.submit([entry("a")])
        second = client.submit([entry("b"), entry("c")], resting=1)
        assert (await client.write([entry("d")]))[0].outcome == "committed"
        assert first.result()[0].outcome == "known"
        fault = second.exception()
        assert isinstance(fault, LedgerError) and (fault.code, fault.facts) == ("disk_full", {"free_bytes": 1})

    world.run(scenario())
    assert store.arrived == ["a", "b", "c", "d"]


@pytest.mark.parametrize("how", ["refused", "number"])
def test_a_frame_that_is_refused_as_a_whole_is_sent_again_one_by_one(world: World, how: str) -> None:
    """Whatever is wrong with one of its writes, the others stand; only it fails, and in its turn."""
    store = Store()
    world.start(Journal(store), role="ledger")
    client = client_of(world)

    async def scenario() -> None:
        first = client.submit([entry("a")])
        wrong = entry("x" * 5_000) if how == "refused" else entry("b")._replace(at_us=1 << 70)
        second = client.submit([wrong])
        third = client.submit([entry("c")], urgent=True)
        await client.flush()
        assert (first.result()[0].is_first, third.result()[0].is_first) == (True, True)
        with pytest.raises(RuntimeFault) as caught:
            second.result()
        assert caught.value.code == "malformed"

    world.run(scenario())
    assert store.ids == ["a", "c"]
    assert client.outstanding == 0


def test_an_answer_of_another_length_is_none(world: World) -> None:
    """Fewer or more acks than entries: all of its writes are sent again."""
    store, lies = Store(), [-1, 1]

    class Liar(Journal):
        async def on_write(self, message: Write, call: Call) -> Written:
            acks = (await super().on_write(message, call)).acks
            lie = lies.pop() if lies else 0
            return Written(acks=acks[:lie] if lie < 0 else acks + acks[:lie])

    world.start(Liar(store), role="ledger")
    client = client_of(world)

    async def scenario() -> list[str]:
        first = client.submit([entry("a"), entry("b")])
        (ack,) = await client.write([entry("c")])
        return [*(one.outcome for one in first.result()), ack.outcome]

    assert world.run(scenario()) == ["known"] * 3
    assert store.ids == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("limit", "pages", "further"),
    [(2, [2], True), (3, [3], True), (5, [3, 2], True), (7, [3, 3, 1], False), (99, [3, 3, 1], False)],
)
@pytest.mark.parametrize("newest_first", [False, True])
async def test_every_page_of_a_question_is_fetched_up_to_its_limit(limit, pages, further, newest_first):
    held, sizes = list(range(7)), []

    class Ledger:
        async def request(self, _service, question, **_):
            inside = [n for n in held if n > question.after and (question.before is None or n < question.before)]
            inside = (inside[::-1] if newest_first else inside)[: question.limit + 1]
            given = inside[: min(question.limit, 3)]
            sizes.append(len(given))
            return Entries(
                entries=[to_entry(to_stored(entry("e"), "", 0, (), ()), n, b"", []) for n in given],
                more=len(inside) > len(given),
                head=6,
            )

    question = Read(stream="s", limit=limit, newest_first=newest_first)
    entries, more = await read_pages(Ledger(), question, timeout_s=1)
    assert [entry.sequence for entry in entries] == (held[::-1] if newest_first else held)[:limit]
    assert (sizes, more) == (pages, further)


def test_what_nobody_waits_for_leaves_after_its_time_also_behind_an_urgent_frame_that_was_full(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    """Urgent and lazy ones of one step that are more than a frame takes: the rest has its bound, too."""
    store = Store()
    world.start(Journal(store), role="ledger")
    monkeypatch.setattr(limits, "FRAME_ENTRIES_MAX", 3)
    client = client_of(world, lazy_commit_ms=40)

    async def scenario() -> None:
        await client.write([entry("z")])
        client.submit([entry("a")], urgent=True)
        client.submit([entry("b"), entry("c")])
        client.submit([entry("d")])
        await asyncio.sleep(5)

    world.run(scenario())
    assert store.frames == [["z"], ["a", "b", "c"], ["d"]]
    assert client.outstanding == 0


def test_what_nobody_waits_for_leaves_after_its_time_also_when_that_passed_while_urgent_ones_were_held(
    monkeypatch: pytest.MonkeyPatch,
    world: World,
) -> None:
    """The time passes while an urgent frame is on its way; what the next urgent frame has no room for leaves too."""
    store = Store()
    world.start(Journal(store, delay_s=0.1), role="ledger")
    monkeypatch.setattr(limits, "FRAME_BYTES_MAX", 5000)
    monkeypatch.setattr(limits, "URGENT_FRAMES_MAX", 1)
    client = client_of(world, lazy_commit_ms=40)

    async def scenario() -> None:
        client.submit([entry("a")], urgent=True)
        await asyncio.sleep(0.01)
        client.submit([entry("lazy1", size=3_000)])
        client.submit([entry("urgent")], urgent=True)
        client.submit([entry("lazy2", size=3_000)])
        await asyncio.sleep(5)

    world.run(scenario())
    assert [one for frame in store.frames for one in frame] == ["a", "lazy1", "urgent", "lazy2"]
    assert client.outstanding == 0
