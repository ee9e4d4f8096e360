"""What the ledger answers to its messages."""

import asyncio
import shutil

import pytest

from hobus.bus import limits as bus_limits
from hobus.bus.catalog import ROWS
from hobus.bus.disk import RealDisk
from hobus.bus.dispatch import map_handlers
from hobus.bus.errors import BusError, LedgerError
from hobus.bus.messages.ledger import (
    EVERY_SESSION,
    Entry,
    Found,
    GetBody,
    Provenance,
    Query,
    Read,
    ReadLedgerStats,
    Tail,
    Write,
    Written,
)
from hobus.bus.sim.disk import SimDisk
from hobus.ledger_service import limits, recovery, tables
from hobus.ledger_service.index import FILES
from hobus.ledger_service.service import LedgerService
from tests.ledger_service.rig import (
    SESSION,
    SmallBus,
    append,
    call,
    ledger_config,
    medium,
    running,
    start,
    take_over,
    write,
)


def test_every_message_of_the_catalog_has_its_handler():
    service = LedgerService(SimDisk(medium()), ledger_config())
    assert set(map_handlers(service)) == {row.cls.TYPE for row in ROWS if row.service == "ledger"}


async def test_before_the_start_and_after_the_end_requests_are_unavailable():
    service = LedgerService(SimDisk(medium()), ledger_config())
    assert await service.ready() == "recovering" and service.counters() == {}
    with pytest.raises(LedgerError) as refused:
        await service.on_read(Read(stream="ho1m", limit=1), call())
    assert refused.value.code == "unavailable" and refused.value.retryable
    async with running(SimDisk(medium())) as ledger:
        assert await ledger.service.ready() == ""
        await ledger.write(write("a"))
        assert ledger.service.counters() == {"head": 0, "entries": 1, "commits": 1, "denied": 0}
    with pytest.raises(LedgerError, match="unavailable"):
        await ledger.write(write("b"))


async def test_an_entry_is_stored_with_what_its_writer_said_and_the_ledger_stamped():
    """Origin is the connection's, never the payload's; hashes, lengths, time and chain are the ledger's."""
    async with running(SimDisk(medium())) as ledger:
        provenance = Provenance(agent_id="A", session_id="s", run_seq=3, work_order_id="WO-1", tier="ho1")
        sent = write(
            "a", decision="ACCEPTED", reason="fine", provenance=provenance, parents=["p1", "p2"], trace="t",
            bodies=[b"one", b"", b"three"], once="k", at_us=5,
        )  # fmt: skip
        ack = (await ledger.write(sent, origin="ho1/4@9"))[0]
        assert (ack.outcome, ack.sequence, ack.origin, ack.event_type) == ("committed", 0, "ho1/4@9", "WO_COMPLETED")
        (entry,) = await ledger.lookup("a", bodies=True)
        for name in (
            "submission_id",
            "stream",
            "event_type",
            "decision",
            "reason",
            "parents",
            "trace",
            "at_us",
            "once",
        ):
            assert getattr(entry, name) == getattr(sent, name)
        assert entry.provenance == provenance and entry.bodies == sent.bodies and entry.origin == "ho1/4@9"
        assert entry.body_lengths == [3, 0, 5] and len({*entry.body_hashes}) == 3 and len(entry.chain) == 32
        assert entry.ledger_at_us == 1_700_000_000_000_000


async def test_answers_pass_their_own_strict_validation():
    """They are built without validation for speed, and are what the wire's models demand."""
    async with running(SimDisk(medium())) as ledger:
        acks = await ledger.write(take_over(1, ""), write("b", once="k"), write("c", once="k"), append("d", "x", 1))
        entries = await ledger.lookup("b", "nothing", once=("k",), bodies=True)
        page = await ledger.service.on_tail(Tail(after=-1, limit=10, with_bodies=True), call())
        for answer in (Written(acks=acks), Found(entries=entries), page):
            assert type(answer).from_bytes(answer.to_bytes()) == answer


async def test_conditions_that_contradict_each_other_are_refused_and_end_nothing():
    """They have a form on the wire, so that whoever sends them is told; the writes beside them stand."""
    odd = [
        write("a", once=""), write("b", SESSION, prev="x"), write("c", SESSION, tenure=1), write("d", prev="", tenure=1),
        write("e", SESSION, event_type="TurnDegraded"), write("f\0", trace="\1"), write("g"),
    ]  # fmt: skip
    async with running(SimDisk(medium())) as ledger:
        arrived = Write.from_bytes(Write(entries=odd).to_bytes()).entries
        acks = await ledger.write(*arrived)
        assert [ack.code for ack in acks] == ["invalid"] * 5 + ["", ""]
        (found,) = await ledger.lookup("f\0")
        assert (found.submission_id, found.trace, found.sequence) == ("f\0", "\1", 0)


async def test_lookup_answers_in_the_order_of_the_question():
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(write("a", once="k1"), write("b", once="k2"))
        for _ in range(2):
            found = await ledger.lookup("b", "x", "a", once=("k1", "k9"))
            assert [None if entry is None else entry.submission_id for entry in found] == ["b", None, "a", "a", None]
            assert all(entry is None or entry.bodies == [] for entry in found)
            await ledger.bus.release()


async def test_lookup_with_bodies_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "READ_BYTES_MAX", 1000)
    async with running(SimDisk(medium()), ledger_config()) as ledger:
        await ledger.write(write("a", body=bytes(900)), write("b", body=bytes(900)))
        with pytest.raises(BusError) as refused:
            await ledger.lookup("a", "b", bodies=True)
        assert refused.value.code == "too_large" and "ask for fewer" in refused.value.detail
        assert (await ledger.lookup("b", bodies=True))[0].bodies == [bytes(900)]


@pytest.mark.parametrize("flushed", [0, 3, 10])
async def test_a_stream_is_read_in_order_in_pages_across_index_and_memory(flushed):
    async with running(SimDisk(medium())) as ledger:
        for number in range(10):
            await ledger.write(write(f"e{number}", "ho1m" if number % 2 else "ho2m"))
            if number + 1 == flushed:
                await ledger.bus.release()
        assert [e.sequence for e in await ledger.read("ho2m")] == [0, 2, 4, 6, 8]
        assert [e.sequence for e in await ledger.read("ho2m", newest_first=True)] == [8, 6, 4, 2, 0]
        assert [e.sequence for e in await ledger.read("ho2m", after=3)] == [4, 6, 8]
        assert [e.sequence for e in await ledger.read("ho2m", after=3, newest_first=True, limit=2)] == [8, 6]
        assert await ledger.read("overlays") == []
        page = await ledger.service.on_read(Read(stream="ho2m", limit=3), call())
        assert [e.sequence for e in page.entries] == [0, 2, 4] and page.more and page.head == 9
        page = await ledger.service.on_read(Read(stream="ho2m", limit=2, after=4), call())
        assert [e.sequence for e in page.entries] == [6, 8] and not page.more


async def test_a_page_has_at_most_so_many_entries_whatever_was_asked_for(monkeypatch: pytest.MonkeyPatch):
    """Read, query and tail alike: nobody else is answered while one is made."""
    monkeypatch.setattr(bus_limits, "PAGE_ENTRIES_MAX", 3)
    async with running(SimDisk(medium()), ledger_config()) as ledger:
        for number in range(7):
            await ledger.write(write(f"e{number}"))
        await ledger.bus.release()
        asked = (Read(stream="ho1m", limit=100), Query(where={"stream": "ho1m"}, limit=100), Tail(after=-1, limit=100))
        handlers = (ledger.service.on_read, ledger.service.on_query, ledger.service.on_tail)
        for handler, message in zip(handlers, asked, strict=True):
            seen, page = [], await handler(message, call())
            while page.more:
                assert len(page.entries) == 3
                seen += page.entries
                page = await handler(message.model_copy(update={"after": seen[-1].sequence}), call())
            assert [entry.submission_id for entry in (*seen, *page.entries)] == [f"e{n}" for n in range(7)]


@pytest.mark.parametrize("is_indexed", [False, True])
async def test_all_journals_are_read_in_one_page_and_nothing_else(is_indexed):
    """From memory and from the index: a follower of every session needs to know no session's id."""
    other = "session/1e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f21"
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(take_over(1, ""), write("a"), take_over(1, "", other), write("b", "signals"))
        if is_indexed:
            await ledger.bus.release()
        stats = await ledger.service.on_read_stats(ReadLedgerStats(), call())
        assert (stats.index_behind == 0) == is_indexed
        found = await ledger.all(stream=EVERY_SESSION)
        assert [(entry.sequence, entry.stream) for entry in found] == [(0, SESSION), (2, other)]
        assert [entry.sequence for entry in await ledger.all(stream=EVERY_SESSION, after=0)] == [2]
        (behind,) = await ledger.read(EVERY_SESSION, newest_first=True, limit=1)
        assert behind.sequence == 2
        refused = await ledger.write(write("c", EVERY_SESSION))
        assert refused[0].outcome == "refused"


async def test_a_page_ends_at_its_bytes_and_gives_one_entry_at_least(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "READ_BYTES_MAX", 2500)
    async with running(SimDisk(medium()), ledger_config()) as ledger:
        await ledger.write(*(write(f"e{n}", body=bytes(700)) for n in range(7)), write("big", body=bytes(5_000)))
        after, sizes, names = -1, [], []
        while True:
            page = await ledger.service.on_read(Read(stream="ho1m", limit=100, after=after, with_bodies=True), call())
            sizes.append(len(page.entries))
            names += [entry.submission_id for entry in page.entries]
            if not page.more:
                break
            after = page.entries[-1].sequence
        assert names == [*(f"e{n}" for n in range(7)), "big"] and sizes == [3, 3, 1, 1]


async def test_query_finds_by_provenance_once_the_index_has_it():
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(
            write("a", provenance=Provenance(session_id="s1", run_seq=1, work_order_id="w1", agent_id="A")),
            write("b", "ho2m", provenance=Provenance(session_id="s1", run_seq=2), decision="DENIED", reason="r"),
            write("c", provenance=Provenance(session_id="s2", run_seq=1), event_type="WO_FAILED"),
        )

        async def ask(**where):
            page = await ledger.service.on_query(Query(where=where, limit=10), call())
            return [entry.submission_id for entry in page.entries]

        assert await ask(session_id="s1") == []
        await ledger.bus.release()
        assert await ask() == ["a", "b", "c"]
        assert await ask(session_id="s1") == ["a", "b"] and await ask(session_id="s1", run_seq=2) == ["b"]
        assert await ask(work_order_id="w1") == ["a"] and await ask(agent_id="A") == ["a"]
        assert await ask(stream="ho2m") == ["b"] and await ask(event_type="WO_FAILED") == ["c"]
        newest = Query(limit=2, newest_first=True)
        page = await ledger.service.on_query(newest, call())
        assert ([entry.submission_id for entry in page.entries], page.more) == (["c", "b"], True)
        page = await ledger.service.on_query(newest.model_copy(update={"before": page.entries[-1].sequence}), call())
        assert ([entry.submission_id for entry in page.entries], page.more) == (["a"], False)
        assert await ask(decision="DENIED", reason="r") == ["b"] and await ask(decision="") == ["a", "c"]
        assert await ask(origin="ho2/1@7") == ["a", "b", "c"] and await ask(origin="nobody") == []
        for where in ({"body": "x"}, {"run_seq": "1"}, {"session_id": 4}, {"1=1; --": "x"}):
            with pytest.raises(BusError, match="malformed"):
                await ask(**where)


async def test_tail_waits_for_the_next_entry_and_gives_up_in_time():
    async with running(SimDisk(medium())) as ledger:
        assert await ledger.all() == []
        await ledger.write(write("a"))
        assert [entry.submission_id for entry in await ledger.all()] == ["a"]
        following = asyncio.ensure_future(ledger.all(after=0, wait_ms=60_000, stream="ho2m"))
        for _ in range(3):
            await asyncio.sleep(0)
        await ledger.write(write("b"))
        await asyncio.sleep(0)
        assert not following.done()
        await ledger.write(write("c", "ho2m"))
        assert [entry.submission_id for entry in await following] == ["c"]
        assert await ledger.all(after=2, wait_ms=5) == []
        assert ledger.service._followers == []


async def test_a_body_is_found_by_its_ref():
    """`<submission id>/<n>`, known before the ack; anything else is not there."""
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(write("PROMPT_SENT:WO-1#1/1", bodies=[b"zero", b"one"]))
        body = await ledger.service.on_get_body(GetBody(ref="PROMPT_SENT:WO-1#1/1/1"), call())
        assert body.data == b"one"
        for ref in ("PROMPT_SENT:WO-1#1/1/2", "nothing/0", "nothing", "", "PROMPT_SENT:WO-1#1/1/x"):
            with pytest.raises(LedgerError) as refused:
                await ledger.service.on_get_body(GetBody(ref=ref), call())
            assert refused.value.code == "not_found"


async def test_equal_bodies_have_different_hashes():
    """The salt is per body, so a hash in an entry does not tell that two texts are the same."""
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(write("a", bodies=[b"same", b"same"]), write("b", bodies=[b"same"]))
        hashes = [value for entry in await ledger.all() if isinstance(entry, Entry) for value in entry.body_hashes]
        assert len(set(hashes)) == 3


async def test_the_same_writes_under_the_same_clock_give_the_same_bytes():
    """Nothing is drawn but from the port: a simulation is repeatable to the last byte."""
    contents = []
    for _ in range(2):
        device = medium()
        async with running(SimDisk(device)) as ledger:
            await ledger.write(take_over(1, ""), write("a", once="k"), write("a", body=b"other"))
            await ledger.write(append("s", take_over(1, "").submission_id, 1))
        contents.append({name: bytes(file.content) for name, file in device.files.items()})
    assert contents[0] == contents[1]


async def test_damage_met_while_reading_is_an_answer_not_a_wrong_entry():
    device = medium()
    async with running(SimDisk(device)) as ledger:
        await ledger.write(write("a", body=b"body of a"))
        await ledger.write(write("b", body=b"body of b"))
        await ledger.bus.release()
        content = device.files["segments/00000000000000000000.seg"].content
        content[bytes(content).index(b"body of a")] ^= 1
        with pytest.raises(LedgerError, match="damaged"):
            await ledger.lookup("a", bodies=True)
        with pytest.raises(LedgerError, match="damaged"):
            await ledger.write(write("a", body=b"body of a"))
        assert (await ledger.lookup("b", bodies=True))[0].bodies == [b"body of b"]
        assert (await ledger.write(write("c")))[0].outcome == "committed"


async def test_a_broken_index_ends_the_process_and_the_next_start_rebuilds_it(tmp_path):
    """The record does not depend on its cache."""
    async with running(RealDisk(tmp_path)) as ledger:
        await ledger.write(write("a"))
        await ledger.bus.release()
        ledger.service._ledger.db._db.execute("COMMIT")
        ledger.service._ledger.db._db.execute("DROP TABLE entries")
        with pytest.raises(LedgerError, match="fenced"):
            await ledger.write(write("a"))
        assert "index" in (await ledger.service.failed).detail
    async with running(RealDisk(tmp_path)) as ledger:
        acks = await ledger.write(write("a"), write("b"))
        assert [ack.outcome for ack in acks] == ["known", "committed"]


async def test_a_start_says_how_far_the_index_is_that_it_makes_anew(tmp_path, monkeypatch):
    """By entries of those that there are; of an index that is only behind what is missing alone; nothing else is said."""
    monkeypatch.setattr(recovery, "_ROWS_PER_STEP", 2)
    async with running(RealDisk(tmp_path)) as ledger:
        assert ledger.service.starting() == ""
        for number in range(5):
            await ledger.write(write(f"e{number}"))
    for name in FILES:
        (tmp_path / name).unlink(missing_ok=True)
    said: list[str] = []

    class Listening(SmallBus):
        async def sleep(self, seconds: float) -> None:
            said.append(service.starting())
            await super().sleep(seconds)

    service = LedgerService(RealDisk(tmp_path), ledger_config())
    await service.start(Listening())
    service.stop()
    what = "makes its index anew"
    assert said[:3] == [f"{what}: 2 of 5 entries", f"{what}: 4 of 5 entries", f"{what}: 5 of 5 entries"]


async def test_an_index_without_room_ends_nothing_and_catches_up_once_there_is_some(tmp_path):
    """A full disk: what stands in the record is read from memory meanwhile, and the next start finds the same index."""
    async with running(RealDisk(tmp_path)) as ledger:
        await ledger.write(write("a"))
        await ledger.bus.release()
        db = ledger.service._ledger.db._db
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        many = [f"b{number}" for number in range(500)]
        await ledger.write(*map(write, many))
        for _ in range(3):
            await ledger.bus.release()
        stats = await ledger.service.on_read_stats(ReadLedgerStats(), call())
        assert (stats.index_behind, ledger.service.failed.done()) == (500, False)
        assert [entry.submission_id for entry in await ledger.lookup("a", *many)] == ["a", *many]
        db.execute(f"PRAGMA max_page_count = {100 * pages}")
        for _ in range(4):
            await ledger.bus.release()
        assert (await ledger.service.on_read_stats(ReadLedgerStats(), call())).index_behind == 0
        assert ledger.service._ledger.db.fault() == ""


async def test_writes_are_taken_between_the_steps_in_which_the_index_comes_up(tmp_path, monkeypatch):
    """A long way into the index holds nobody up; at every step of it all is there once, also for a start after a kill."""
    monkeypatch.setattr(tables, "_STEP_ENTRIES", 2)
    head = [
        take_over(1, ""),
        *(append(f"s{n}", f"s{n - 1}" if n else take_over(1, "").submission_id, 1) for n in range(7)),
    ]
    ledger = await start(RealDisk(tmp_path))
    for entry in head:
        await ledger.write(entry)
    behind: list[int] = []
    while not behind or behind[-1]:
        await ledger.bus.release()
        behind.append((await ledger.service.on_read_stats(ReadLedgerStats(), call())).index_behind)
        known = await ledger.lookup(*(entry.submission_id for entry in head))
        assert [entry and entry.sequence for entry in known] == list(range(len(head)))
        assert [entry.sequence for entry in await ledger.read(SESSION)] == list(range(len(head)))
        if behind[-1] == 4:
            head.append(append("s7", "s6", 1))
            (ack,) = await ledger.write(head[-1])
            assert (ack.outcome, ack.sequence) == ("committed", 8)
            shutil.copytree(tmp_path, tmp_path / "killed")
    assert behind == [6, 4, 3, 1, 0]
    ledger.service.stop()
    for home in (tmp_path / "killed", tmp_path):
        async with running(RealDisk(home)) as ledger:
            assert [entry.sequence for entry in await ledger.all()] == list(range(9))
            assert [ack.outcome for ack in await ledger.write(*head, append("s8", "s7", 1))] == ["known"] * 9 + [
                "committed"
            ]


async def test_streams_of_sessions_are_read_by_their_name():
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(take_over(1, ""), append("s1", take_over(1, "").submission_id, 1), write("x"))
        assert [entry.event_type for entry in await ledger.read(SESSION)] == ["TookOver", "StepStarted"]
