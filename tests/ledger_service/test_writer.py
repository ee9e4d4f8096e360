"""Group commit, its bounds, and what happens when the disk fails."""

import asyncio
import errno

import pytest

from hobus.bus import limits as bus_limits
from hobus.bus.errors import BusError, LedgerError
from hobus.bus.messages.ledger import Ack, GetBody, Lookup, Read, ReadLedgerStats, Tail
from hobus.bus.sim.disk import SimDisk
from hobus.ledger_service import limits, service
from tests.ledger_service.rig import (
    FailingDisk,
    SmallBus,
    SteppedClock,
    call,
    ledger_config,
    medium,
    running,
    start,
    write,
)


async def _stats(ledger):
    return await ledger.service.on_read_stats(ReadLedgerStats(), call())


async def test_writes_of_one_wake_up_share_one_frame_one_write_and_one_sync(monkeypatch: pytest.MonkeyPatch):
    """Group commit needs no timer: what is queued when the commit runs goes with it."""
    disk = FailingDisk(SimDisk(medium()))
    monkeypatch.setattr(limits, "ZERO_FILL_CHUNK_BYTES", 32768)
    async with running(disk, ledger_config()) as ledger:
        await ledger.write(write("first"))
        disk.calls.clear()
        answers = await asyncio.gather(*(ledger.write(write(f"w{n}"), write(f"v{n}")) for n in range(20)))
        assert disk.calls == ["write", "sync"]
        assert [ack.sequence for acks in answers for ack in acks] == list(range(1, 41))
        stats = await _stats(ledger)
        assert (stats.head, stats.entries, stats.commits) == (40, 41, 2)


def _lazily(ledger, *entries):
    """A write that nobody waits for, on its way."""
    return asyncio.ensure_future(ledger.service.append(list(entries), "ho2/1@7", urgent=False))


async def test_writes_that_nobody_waits_for_share_the_sync_of_the_next_urgent_one():
    """They come before it in the record, and are acknowledged with it."""
    disk = FailingDisk(SimDisk(medium()))
    async with running(disk, ledger_config(lazy_commit_ms=3_600_000)) as ledger:
        await ledger.write(write("first"))
        disk.calls.clear()
        lazy = [_lazily(ledger, write("a")), _lazily(ledger, write("b"))]
        await asyncio.sleep(0.01)
        assert disk.calls == [] and not any(one.done() for one in lazy)
        assert [ack.sequence for ack in await ledger.write(write("c"))] == [3]
        assert [(await one)[0].sequence for one in lazy] == [1, 2]
        assert disk.calls == ["write", "sync"]


async def test_a_write_that_nobody_waits_for_is_committed_after_its_time():
    async with running(SimDisk(medium()), ledger_config(lazy_commit_ms=1)) as ledger:
        async with asyncio.timeout(5):
            assert (await _lazily(ledger, write("a")))[0].outcome == "committed"


async def test_a_full_batch_of_writes_that_nobody_waits_for_is_committed_at_once(monkeypatch: pytest.MonkeyPatch):
    """Laziness never makes a queue longer than a batch."""
    monkeypatch.setattr(bus_limits, "FRAME_ENTRIES_MAX", 4)
    async with running(SimDisk(medium()), ledger_config(lazy_commit_ms=3_600_000)) as ledger:
        answers = [_lazily(ledger, write(f"e{n}")) for n in range(4)]
        async with asyncio.timeout(5):
            assert [(await one)[0].sequence for one in answers] == [0, 1, 2, 3]


async def test_whoever_asks_sees_what_has_arrived():
    async with running(SimDisk(medium()), ledger_config(lazy_commit_ms=3_600_000)) as ledger:
        for number, question in enumerate(("lookup", "read", "body")):
            waiting = _lazily(ledger, write(f"e{number}", body=b"text"))
            await asyncio.sleep(0)
            if question == "lookup":
                found = await ledger.service.on_lookup(Lookup(submission_ids=[f"e{number}"]), call())
                assert found.entries[0] is not None
            elif question == "read":
                page = await ledger.service.on_read(Read(stream="ho1m", limit=10), call())
                assert [entry.submission_id for entry in page.entries] == ["e0", "e1"]
            else:
                assert (await ledger.service.on_get_body(GetBody(ref=f"e{number}/0"), call())).data == b"text"
            assert (await waiting)[0].sequence == number


async def test_a_write_that_adds_nothing_costs_no_sync():
    """Known, lost and refused are answered from what stands."""
    disk = FailingDisk(SimDisk(medium()))
    async with running(disk) as ledger:
        await ledger.write(write("a", once="k"))
        disk.calls.clear()
        acks = await ledger.write(write("a", once="k"), write("b", once="k"), write("c", "nowhere"))
        assert [ack.outcome for ack in acks] == ["known", "lost", "refused"] and disk.calls == []


async def test_an_answer_about_an_entry_of_the_same_batch_waits_for_its_sync():
    """A duplicate in the batch that fails is not told that it is known."""
    disk = FailingDisk(SimDisk(medium()))
    ledger = await start(disk)
    await ledger.write(write("first"))
    disk.fail_at = len(disk.calls) + 1
    answers = await asyncio.gather(*(ledger.write(write("a")) for _ in range(3)), return_exceptions=True)
    assert [getattr(answer, "code", answer) for answer in answers] == ["fenced"] * 3
    ledger.service.stop()


async def test_a_batch_ends_at_its_limits_and_the_rest_follows(monkeypatch: pytest.MonkeyPatch):
    disk = FailingDisk(SimDisk(medium()))
    monkeypatch.setattr(bus_limits, "FRAME_ENTRIES_MAX", 4)
    async with running(disk, ledger_config()) as ledger:
        acks = await ledger.write(*(write(f"e{n}") for n in range(10)))
        assert [ack.sequence for ack in acks] == list(range(10))
        assert (await _stats(ledger)).commits == 3
    monkeypatch.setattr(bus_limits, "FRAME_BYTES_MAX", 2000)
    async with running(SimDisk(medium()), ledger_config()) as ledger:
        await ledger.write(*(write(f"e{n}", body=bytes(900)) for n in range(6)))
        assert (await _stats(ledger)).commits == 3


async def test_what_rests_on_others_in_its_write_stands_with_them_or_never():
    """Lost, refused or denied: whatever one of them is, what rests on them is unfounded, and comes too late for good."""
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(write("winner", once="k"))
        for base, denied in ((write("loser", once="k"), ()), (write("b", "nowhere"), ()), (write("c"), (1,))):
            name = f"on {base.submission_id}"
            (acks,) = await ledger.write_together([write(f"with {name}"), base, write(name)], resting=1, denied=denied)
            assert [ack.is_first for ack in acks] == [True, False, False]
            assert (acks[2].outcome, acks[2].code, acks[2].sequence) == ("refused", "unfounded", -1)
            assert await ledger.lookup(name) == [None]
        for _ in range(2):  # sent again, it is known
            (acks,) = await ledger.write_together([write("d"), write("e", "nowhere"), write("f")], resting=2)
            assert [(ack.is_first, ack.code) for ack in acks] == [(True, ""), (False, "invalid"), (True, "")]


async def test_what_rests_on_others_is_never_in_a_later_batch(monkeypatch: pytest.MonkeyPatch):
    """So a crash leaves both or none, however full the batch is."""
    disk = FailingDisk(SimDisk(medium()))
    monkeypatch.setattr(bus_limits, "FRAME_ENTRIES_MAX", 2)
    async with running(disk, ledger_config()) as ledger:
        (acks,) = await ledger.write_together([write(f"e{n}") for n in range(6)], resting=2)
        assert [ack.sequence for ack in acks] == list(range(6))
        assert (await _stats(ledger)).commits == 2  # of two entries, and of two with the two that rest on all of them


async def test_what_follows_an_entry_of_another_writer_waits_for_it_and_stands_behind_it():
    """In the same batch, if it can; who writes meanwhile is answered; one that follows what stands waits for nothing."""
    async with running(SimDisk(medium())) as ledger:
        early = asyncio.ensure_future(ledger.write_together([write("effect"), write("with it")], follows="cause"))
        await ledger.write(write("meanwhile"))
        assert not early.done()
        [cause] = await ledger.write(write("cause"))
        (acks,) = await early
        assert [ack.sequence - cause.sequence for ack in acks] == [1, 2]
        commits = (await _stats(ledger)).commits
        assert commits == 2
        (again,) = await ledger.write_together([write("another")], follows="cause")
        assert again[0].outcome == "committed"


async def test_what_follows_an_entry_that_never_comes_is_unfounded(monkeypatch: pytest.MonkeyPatch):
    """After its time, and it alone: what shares its frame stands; nothing of it is there when the entry comes late."""
    monkeypatch.setattr(service, "FOLLOWED_MS", 0)
    async with running(SimDisk(medium())) as ledger:
        beside, refused = await ledger.write_together([write("beside")], [write("effect")], follows="cause")
        assert [ack.outcome for ack in beside] == ["committed"]
        assert [(ack.outcome, ack.code) for ack in refused] == [("refused", "unfounded")]
        await ledger.write(write("cause"))
        assert await ledger.lookup("effect") == [None]


async def test_a_ledger_that_stops_leaves_nobody_waiting_for_an_entry(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service, "FOLLOWED_MS", 60_000)
    async with running(SimDisk(medium())) as ledger:
        early = asyncio.ensure_future(ledger.write_together([write("effect")], follows="cause"))
        await ledger.write(write("meanwhile"))
    with pytest.raises(LedgerError, match="stopped"):
        await early


async def test_whether_others_stand_is_asked_once_however_many_entries_rest_on_them(monkeypatch):
    """A frame with thousands of either kind is decided in a time that grows with it, so it keeps nobody else waiting."""
    asked = 0

    def is_first(ack: Ack) -> bool:
        nonlocal asked
        asked += 1
        return ack.outcome in ("committed", "known")

    monkeypatch.setattr(Ack, "is_first", property(is_first))
    async with running(SimDisk(medium())) as ledger:
        (acks,) = await ledger.write_together([write(f"e{n}") for n in range(200)], resting=100)
        assert [ack.outcome for ack in acks] == ["committed"] * 200
    assert asked == 100


async def test_writes_of_one_frame_have_nothing_to_do_with_each_other(monkeypatch: pytest.MonkeyPatch):
    """One refused, one lost, one larger than a batch, one that rests on another: each has its own answer, in order."""
    monkeypatch.setattr(bus_limits, "FRAME_ENTRIES_MAX", 3)
    async with running(SimDisk(medium()), ledger_config()) as ledger:
        outcomes = await ledger.write_together(
            [write("a", once="k")],
            [write("b", "nowhere"), write("c")],
            [write("d", once="k")],
            [write(f"e{n}") for n in range(5)],
            [write("f"), write("g")],
            resting=1,
        )
        found = [[ack.outcome for ack in outcome] for outcome in outcomes if isinstance(outcome, list)]
        assert found == [
            ["committed"], ["refused", "committed"], ["lost"], ["committed"] * 5, ["committed", "committed"],
        ]  # fmt: skip
        assert [entry.submission_id for entry in await ledger.all()] == [
            "a",
            "c",
            *(f"e{n}" for n in range(5)),
            "f",
            "g",
        ]


async def test_a_full_disk_answers_each_write_of_a_frame_for_itself():
    disk, clock = FailingDisk(SimDisk(medium())), SteppedClock()
    async with running(disk, bus=SmallBus(clock)) as ledger:
        await ledger.write(write("a"))
        disk.free = 10
        clock.at += 0.2
        known, full = await ledger.write_together([write("a")], [write("b")])
        assert isinstance(known, list) and known[0].outcome == "known"
        assert isinstance(full, LedgerError) and full.code == "disk_full"
        for outcome in await ledger.write_together([write("c")], [write("d")]):
            assert isinstance(outcome, LedgerError) and outcome.code == "disk_full"


@pytest.mark.parametrize("what", ["write", "sync"])
async def test_an_error_of_write_or_sync_fences_and_nothing_is_tried_again(what):
    disk = FailingDisk(SimDisk(medium()))
    ledger = await start(disk)
    await ledger.write(write("a"))
    disk.fail_at = len(disk.calls) + (what == "sync")
    answers = await asyncio.gather(*(ledger.write(write(f"w{n}")) for n in range(5)), return_exceptions=True)
    assert all(isinstance(answer, LedgerError) and answer.code == "fenced" and answer.retryable for answer in answers)
    fault = await ledger.service.failed
    assert fault.code == "fenced" and "injected" in fault.detail
    calls = len(disk.calls)
    for question in (
        ledger.write(write("later")),
        ledger.service.on_read(Read(stream="ho1m", limit=5), call()),
        ledger.service.on_tail(Tail(after=-1, limit=5, wait_ms=1_000), call()),
    ):
        with pytest.raises(LedgerError, match="fenced"):
            await question
    await ledger.service.drain()
    assert len(disk.calls) == calls, "nothing was written or synced after the error"


async def test_followers_hear_of_a_fence():
    disk = FailingDisk(SimDisk(medium()))
    ledger = await start(disk)
    follower = asyncio.ensure_future(ledger.service.on_tail(Tail(after=-1, limit=5, wait_ms=60_000), call()))
    await asyncio.sleep(0)
    disk.fail_at = len(disk.calls)
    with pytest.raises(LedgerError):
        await ledger.write(write("a"))
    with pytest.raises(LedgerError, match="fenced"):
        await follower
    ledger.service.stop()


async def test_a_full_device_fences_and_the_next_start_says_why():
    disk = FailingDisk(SimDisk(medium()))
    ledger = await start(disk)
    await ledger.write(write("a"))
    disk.fail_at, disk.error, disk.torn_bytes = len(disk.calls), errno.ENOSPC, 50
    with pytest.raises(LedgerError, match="fenced"):
        await ledger.write(write("b"))
    ledger.service.stop()
    disk.fail_at, disk.free = None, 10
    with pytest.raises(LedgerError, match="disk_full"):
        await start(disk)
    disk.free = None
    async with running(disk, bus=SmallBus(instance="ledger/1@2")) as ledger:
        assert [entry.event_type for entry in await ledger.all()] == ["WO_COMPLETED", "RECOVERED"]


async def test_writes_are_refused_before_the_disk_is_full_and_taken_again_afterwards():
    """Below a segment and the reserve nothing is written; what stands there is known all the same, and reads go on."""
    disk, clock = FailingDisk(SimDisk(medium())), SteppedClock()
    async with running(disk, bus=SmallBus(clock)) as ledger:
        await ledger.write(write("a"))
        disk.free, calls = 69_631, len(disk.calls)
        clock.at += 0.2
        for _ in range(2):
            with pytest.raises(LedgerError) as refused:
                await ledger.write(write("b"))
            assert refused.value.code == "disk_full" and not refused.value.retryable
            assert refused.value.facts == {"free_bytes": 69_631, "needed_bytes": 69_632}
        (known,) = await ledger.write(write("a"))
        assert (known.outcome, known.sequence) == ("known", 0)
        with pytest.raises(LedgerError, match="disk_full"):
            await ledger.write(write("a", body=b"another"))
        with pytest.raises(LedgerError, match="disk_full"):
            await ledger.write(write("a"), write("b"))
        assert len(disk.calls) == calls
        assert (await ledger.service.ready()).startswith("the disk is full: 0 MB free, the record wants 0 MB (ledger.")
        assert [entry.submission_id for entry in await ledger.all()] == ["a"]
        disk.free = 69_632
        assert await ledger.service.ready() == ""
        assert (await ledger.write(write("b")))[0].sequence == 1


async def test_more_bytes_than_may_wait_are_busy_until_those_before_them_are_durable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "OUTSTANDING_MAX_BYTES", 1000)
    async with running(SimDisk(medium()), ledger_config()) as ledger:
        assert (await ledger.write(write("large", body=bytes(2_000))))[0].outcome == "committed"
        waiting = [ledger.write(write(f"a{number}", body=bytes(400))) for number in range(3)]
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [answers[0][0].outcome, answers[1][0].outcome] == ["committed", "committed"]
        assert isinstance(answers[2], BusError) and answers[2].code == "busy" and answers[2].retryable
        assert "800 bytes wait; the limit is 1000" in answers[2].detail
        assert (await ledger.write(write("a2", body=bytes(400))))[0].outcome == "committed"


async def test_more_than_the_outstanding_limit_is_busy_and_what_waits_is_answered(monkeypatch: pytest.MonkeyPatch):
    """Bounded: the refused writer may come again, and a single large write is never refused for ever."""
    monkeypatch.setattr(limits, "OUTSTANDING_MAX", 3)
    async with running(SimDisk(medium()), ledger_config()) as ledger:
        answers = await asyncio.gather(*(ledger.write(write(f"w{n}")) for n in range(5)), return_exceptions=True)
        assert [getattr(answer, "code", "ok") for answer in answers] == ["ok", "ok", "ok", "busy", "busy"]
        assert (
            isinstance(answers[4], BusError)
            and answers[4].retryable
            and "entries wait; the limit is" in answers[4].detail
        )
        assert len(await ledger.write(*(write(f"v{n}") for n in range(9)))) == 9
        assert (await ledger.write(write("after")))[0].outcome == "committed"


async def test_a_cancelled_writer_leaves_the_others_and_its_entry_stands():
    """No ack means unknown: the entry may have committed."""
    async with running(SimDisk(medium())) as ledger:
        cancelled = asyncio.ensure_future(ledger.write(write("a")))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert (await ledger.write(write("b")))[0].outcome == "committed"
        assert [entry.submission_id for entry in await ledger.all()] == ["a", "b"]


async def test_ledger_time_never_decreases_whatever_the_clock_does():
    """Back, frozen, ahead, and back across a restart: order is the sequence's, time only follows."""
    device, clock = medium(), SteppedClock()
    moves = [0.0, -3600.0, 0.0, 10 * 365 * 86400.0, -86400.0, 1.5]
    async with running(SimDisk(device), bus=SmallBus(clock)) as ledger:
        for number, move in enumerate(moves):
            clock.at += move
            await ledger.write(write(f"e{number}"))
    early = SteppedClock(at=1_000.0)
    async with running(SimDisk(device), bus=SmallBus(early)) as ledger:
        await ledger.write(write("last"))
        entries = await ledger.all()
    times = [entry.ledger_at_us for entry in entries]
    assert times == sorted(times) and len(set(times)) == 2 and times[-1] == times[3]
    assert [entry.sequence for entry in entries] == list(range(7))


async def test_segments_rotate_at_their_size_and_are_named_by_their_first_entry(monkeypatch: pytest.MonkeyPatch):
    device = medium()
    monkeypatch.setattr(limits, "ZERO_FILL_CHUNK_BYTES", 1024)
    config = ledger_config(segment_bytes=4_096, bodies_max_bytes=20_000)
    async with running(SimDisk(device), config) as ledger:
        for number in range(12):
            await ledger.write(write(f"e{number}", body=bytes([number]) * (9_000 if number == 7 else 700)))
        entries = await ledger.all(with_bodies=True)
    assert [entry.bodies[0][0] for entry in entries if entry.bodies[0]] == list(range(12))
    names = sorted(name.removeprefix("segments/") for name in device.files if name.endswith(".seg"))
    firsts = [int(name.removesuffix(".seg")) for name in names]
    assert firsts[0] == 0 and 7 in firsts and 8 in firsts and len(firsts) == 4
    for name in names:
        size = len(device.files[f"segments/{name}"].content)
        assert size <= 4_096 or name.startswith("00000000000000000007")
    async with running(SimDisk(device), config) as ledger:
        assert [entry.chain for entry in await ledger.all()] == [entry.chain for entry in entries]


async def test_the_index_interval_fills_zeros_ahead_so_that_a_commit_need_not():
    """After the tick the next batches write into zeros that are durable already."""
    disk = FailingDisk(SimDisk(medium()))
    async with running(disk) as ledger:
        for number in range(3):
            await ledger.write(write(f"e{number}", body=bytes(700)))
        disk.calls.clear()
        await ledger.bus.release()
        assert disk.calls == ["write", "sync"]
        for number in range(3, 5):
            await ledger.write(write(f"e{number}", body=bytes(700)))
        assert disk.calls == ["write", "sync"] * 3
