"""Loading a session: from the newest snapshot that is right and what follows it, the same as from the whole journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from hobus.actors.ho2_supervisor.ownership.loading import Loaded, load
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.session import snapshot as snapshots
from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.turn.history import Blocks
from hobus.actors.ho2_supervisor.turn.turn import compute_history_limits
from hobus.bus.errors import BusError, LedgerError, SessionFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.base import pack, unpack
from hobus.bus.messages.ledger import Entries, Entry, Read, WriteEntry
from hobus.bus.messages.session import TurnResult
from hobus.bus.messages.work_order import OutputResult, Segment, WorkOrder
from hobus.bus.record.journal import pack_event, read_event, read_recorded
from tests.actors.ho2_supervisor.remembering import bias
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, classified, degraded_entry, one_tool, snapshot
from tests.actors.ho2_supervisor.turn.test_recall import ON, remembering
from tests.rig import names

SMALL = (("ho2.history_turns_max", 2),)
LIMITS = compute_history_limits(snapshot(*SMALL).config)


@dataclass
class Shelf:
    """A ledger's answers from a list of entries; counts what it is asked."""

    entries: Sequence[Entry]
    others: Sequence[Entry] = ()
    reads: list[int] = field(default_factory=list)
    lookups: list[int] = field(default_factory=list)
    lookup_max: int = 1000

    async def page(self, question: Read) -> Entries:
        before, limit = question.before, question.limit
        found = [entry for entry in reversed(self.entries) if before is None or entry.sequence < before]
        self.reads.append(len(found[:limit]))
        return Entries(entries=found[:limit], more=len(found) > limit, head=0)

    async def lookup(self, ids: Sequence[str], **_: Any) -> list[Entry | None]:
        self.lookups.append(len(ids))
        if len(ids) > self.lookup_max:
            raise BusError("too_large", "ask for fewer")
        known = {entry.submission_id: entry for entry in [*self.entries, *self.others]}
        return [known.get(one) for one in ids]


def loaded(shelf: Shelf, page: int = 500) -> Loaded:
    """What a supervisor would load."""
    return asyncio.run(load(cast("LedgerClient", shelf), SESSION, LIMITS, page=page))


def replayed(entries: Sequence[Entry]) -> SessionRecord:
    """The fold of the whole."""
    record = SessionRecord(SESSION, LIMITS)
    for entry in entries:
        if (taken := read_recorded(entry)) is not None:
            record.take(taken)
    return record


def everything(record: SessionRecord) -> tuple[Any, ...]:
    """All that a record holds; of a run in progress its memo."""
    packed = b"" if record.run is not None else snapshots.pack_record(record)
    return packed, record.state, record.head, record.appended, record.since_snapshot, record.history, record.run, \
        record.last_run, record.inputs, record.commands  # fmt: skip


def journal_of(turns: int, *changes: tuple[str, Any]) -> list[Entry]:
    """A session's journal with tool turns and lines of memory, one that the host answered, and snapshots between them."""
    with Rig(*SMALL, *ON, *changes, script=one_tool, snapshot_entries=12) as rig:
        memory = remembering(rig, "ART-1")
        memory.biases.append(
            bias("ART-2", context_line="A line that is longer than what names it, and so a body. " * 2)
        )
        rig.run(rig.start_session())
        for number in range(turns):
            rig.run(rig.turn(f"i{number}", f"what is installed? {number}"))
            rig.run(rig.host.sleep(1))
        rig.run(rig.write(degraded_entry("host", "are you there?", "bare reply")))
        rig.run(rig.turn("last", "and now?"))
        rig.run(rig.host.sleep(1))
        return rig.run(rig.entries())


JOURNAL: list[Entry] = []


@pytest.fixture(name="journal")
def _journal() -> list[Entry]:
    """Made once for all tests of this file."""
    if not JOURNAL:
        JOURNAL.extend(journal_of(4))
    return JOURNAL


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_every_prefix_loads_to_what_its_whole_fold_gives(journal: list[Entry], stride: int) -> None:
    """A crash at any moment, right before and right after a snapshot included: same bytes, same texts, same next id."""
    snapshots = [number for number, name in enumerate(names(journal)) if name == "STATE_SNAPSHOT"]
    assert len(snapshots) >= 4
    around = {number + beside for number in snapshots for beside in (0, 1)}
    lengths = {*range(0, len(journal), stride), *around, len(journal)}
    whole = replayed([])
    for length, entry in enumerate([*journal, None]):
        if length in lengths:
            assert everything(loaded(Shelf(journal[:length]), page=7).record) == everything(whole), length
        if entry is not None and (taken := read_recorded(entry)) is not None:
            whole.take(taken)


def test_what_stood_beside_a_message_is_known_to_whoever_loads_its_session(journal: list[Entry]) -> None:
    """Both lines of memory with their words, from a snapshot as from the entries themselves."""
    for record in (loaded(Shelf(journal)).record, replayed(journal)):
        beside = [one for turn in record.history.turns if not turn.is_degraded for one in turn.beside]
        assert [one.artifact_id for one in beside] == ["ART-1", "ART-2"]
        assert [one.ref is None for one in beside] == [True, False]
        [turn] = [turn for turn in record.history.turns if turn.beside]
        shown = turn.shown(Blocks({"ho3_biases": ("<", ">")}, {"ART-1": "line of ART-1", "ART-2": "other words"}))
        assert "\x1euser\n<line of ART-1>\n\x1euser\nand now?\n" in "".join(part.text for part in shown.parts)


def test_only_what_follows_the_newest_snapshot_is_read(journal: list[Entry]) -> None:
    """However long the session: the entries after the snapshot, and one question for the texts of the newest turns."""
    shelf = Shelf(journal)
    newest = max(number for number, name in enumerate(names(journal)) if name == "STATE_SNAPSHOT")
    assert loaded(shelf, page=5).entries == len(journal) - newest
    assert len(shelf.lookups) == 1
    assert sum(shelf.reads) < len(journal) - newest + 5


def test_texts_that_are_too_large_for_one_answer_come_in_several(journal: list[Entry]) -> None:
    """The ledger bounds its answers; the history is whole all the same."""
    assert everything(loaded(Shelf(journal, lookup_max=1)).record) == everything(loaded(Shelf(journal)).record)


def changed(entry: Entry, **changes: Any) -> Entry:
    """The entry with another event."""
    event = read_event(entry)
    other = event._replace(event=event.event.model_copy(update=changes))
    return with_body(entry, 0, pack_event(other, entry.submission_id, entry.at_us))


def with_body(entry: Entry, number: int, body: bytes | None) -> Entry:
    """The entry with another body."""
    bodies = [body if at == number else old for at, old in enumerate(entry.bodies)]
    return entry._replace(bodies=bodies)


def flipped(body: bytes | None, at: int) -> bytes:
    """The bytes with one bit the other way round."""
    data = bytearray(body or b"")
    data[at % len(data)] ^= 1
    return bytes(data)


FAULTS: dict[str, Callable[[Entry], Entry]] = {
    "of a version to come": lambda e: changed(e, record_version=99),
    "of an event to come": lambda e: with_body(e, 0, pack([*unpack(e.bodies[0] or b""), "red"])),
    "with another state": lambda e: changed(e, state_hash="0" * 64),
    "after another entry": lambda e: changed(e, after="X"),
    "with a flipped bit": lambda e: with_body(e, 1, flipped(e.bodies[1], 40)),
    "without its record": lambda e: e._replace(bodies=e.bodies[:1]),
    "erased": lambda e: with_body(e, 1, None),
    "erased with its event": lambda e: e._replace(bodies=[None, None, None]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_snapshot_that_is_not_right_is_passed_over(journal: list[Entry], fault: str) -> None:
    """It is counted, and the one before it serves; the record is what the whole fold gives."""
    places = [number for number, name in enumerate(names(journal)) if name == "STATE_SNAPSHOT"]
    bad = list(journal)
    bad[places[-1]] = FAULTS[fault](bad[places[-1]])
    got = loaded(Shelf(bad))
    assert got.ignored == 1
    assert got.entries == len(bad) - places[-2]
    assert snapshots.pack_record(got.record) == snapshots.pack_record(replayed(journal))
    assert got.record.history == replayed(journal).history


def test_many_turns_after_a_snapshot_its_own_are_told_of_as_before(journal: list[Entry]) -> None:
    """They are older ones by then, whose texts nobody reads again: their lines, and where a prompt is cut, are the same."""
    places = [number for number, name in enumerate(names(journal)) if name == "STATE_SNAPSHOT"]
    bad = [FAULTS["erased"](one) if number in places[1:] else one for number, one in enumerate(journal)]
    got = loaded(Shelf(bad))
    assert got.ignored == len(places) - 1 > LIMITS.turns_max
    assert got.record.history == replayed(journal).history


def test_without_any_right_snapshot_the_whole_journal_serves(journal: list[Entry]) -> None:
    """Every one of them damaged: everything is read, nothing is guessed."""
    bad = [FAULTS["erased"](entry) if entry.event_type == "STATE_SNAPSHOT" else entry for entry in journal]
    got = loaded(Shelf(bad), page=10)
    assert (got.entries, got.ignored) == (len(bad), names(journal).count("STATE_SNAPSHOT"))
    assert everything(got.record) == everything(replayed(journal))


@pytest.mark.parametrize("stride", [79, pytest.param(31, marks=pytest.mark.slow)])
def test_no_flipped_bit_of_a_record_is_trusted(journal: list[Entry], stride: int) -> None:
    """Whichever byte of the packed record is damaged: the snapshot is passed over."""
    place = max(number for number, name in enumerate(names(journal)) if name == "STATE_SNAPSHOT")
    body = journal[place].bodies[1] or b""
    for at in range(0, len(body), stride):
        bad = [*journal[:place], with_body(journal[place], 1, flipped(body, at)), *journal[place + 1 :]]
        assert loaded(Shelf(bad)).ignored == 1, at


def test_erased_texts_stay_away(journal: list[Entry]) -> None:
    """Of a turn whose text was erased, and of older ones whose lines were, the history says so; nothing else changes."""
    place = max(number for number, name in enumerate(names(journal)) if name == "STATE_SNAPSHOT")
    asked = max(n for n, name in enumerate(names(journal)) if name == "RunRequested")
    bad = list(journal)
    bad[place] = with_body(bad[place], 2, None)
    bad[asked] = with_body(bad[asked], 1, None)
    got = loaded(Shelf(bad)).record
    lines = [line.text for line in got.history.lines]
    asked_then = lines.index(
        next(line for line in lines if line.startswith("- user: [erased] | assistant: from tools"))
    )
    assert lines[:asked_then] and set(lines[: -len(got.history.turns)]) <= {"- user: [erased]"}
    assert got.history.turns[-1].input_text is None
    assert snapshots.pack_record(got) == snapshots.pack_record(replayed(journal))


def test_reply_is_taken_from_the_result_only_where_its_own_record_never_was() -> None:
    """Of a snapshot's newest turn: a record that is missing is made good for, one that was erased stays away."""
    ref = "PROMPT_RECEIVED:WO-x/1/1"

    def script(order: WorkOrder) -> Answer:
        return classified() if order.wo_type == "classify" else OutputResult(text=Segment(ref=ref, text="said"))

    with Rig(script=script, snapshot_entries=4) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", "hello"))
        rig.run(rig.host.sleep(1))
        journal = rig.run(rig.entries())
    assert names(journal)[-1] == "STATE_SNAPSHOT"
    erased = journal[0]._replace(submission_id="PROMPT_RECEIVED:WO-x/1", bodies=[b"", None])
    assert [turn.reply_text for turn in loaded(Shelf(journal)).record.history.turns] == ["said"]
    assert [turn.reply_text for turn in loaded(Shelf(journal, [erased])).record.history.turns] == [None]


@pytest.mark.parametrize("missing", [1, 4, 9, -2])
def test_hole_is_named_and_nothing_is_guessed(journal: list[Entry], missing: int) -> None:
    """An entry that is not there: the loading fails and names the session, the entry after the hole and the fix."""
    plain = [entry for entry in journal if entry.event_type != "STATE_SNAPSHOT"]
    whole = relinked(plain)
    assert loaded(Shelf(whole)).ignored == 0
    number = missing % len(whole)
    holed = [*whole[:number], *whole[number + 1 :]]
    with pytest.raises(LedgerError) as raised:
        loaded(Shelf(holed))
    assert raised.value.code == "damaged"
    for said in (SESSION, holed[number].submission_id, "hobus ledger verify"):
        assert said in raised.value.detail


def test_hole_before_a_snapshot_does_no_harm(journal: list[Entry]) -> None:
    """What the snapshot stands for is not read again."""
    assert loaded(Shelf([*journal[:3], *journal[4:]])).record.head == journal[-1].submission_id


def relinked(entries: Sequence[Entry]) -> list[Entry]:
    """The entries as one stream, each naming the one before it."""
    linked: list[Entry] = []
    for entry in entries:
        before = linked[-1].submission_id if linked else ""
        linked.append(entry if entry.prev is None else entry._replace(prev=before))
    return linked


@pytest.mark.parametrize("body", [b"\xc1garbage", pack({"session_id": SESSION}), pack([1])])
def test_malformed_entry_is_named(journal: list[Entry], body: bytes) -> None:
    """It is no event: damaged, with the entry's name."""
    bad = [*journal[:-2], with_body(journal[-2], 0, body)]
    with pytest.raises(LedgerError) as raised:
        loaded(Shelf(bad))
    assert raised.value.code == "damaged"
    assert journal[-2].submission_id in raised.value.detail


def test_erased_event_is_named(journal: list[Entry]) -> None:
    """The replay stops there, and says so."""
    with pytest.raises(LedgerError, match="erased") as raised:
        loaded(Shelf([*journal[:-2], with_body(journal[-2], 0, None)]))
    assert raised.value.code == "erased"


# --- on the bus -----------------------------------------------------------------------------------------------------


def held(rig: Rig, number: int) -> OwnedSession:
    """As the n-th supervisor has it in memory."""
    session = rig.supervisors[number]._registry.held(SESSION)
    assert session is not None
    return session


def test_successor_starts_from_the_snapshot_in_the_middle_of_a_tenure() -> None:
    """Its own entries get ids of its own tenure, the session goes on, and the two records agree."""
    with Rig(*SMALL, script=one_tool, snapshot_entries=12) as rig:
        rig.run(rig.start_session())
        for number in range(3):
            rig.run(rig.turn(f"i{number}", f"question {number}"))
        before = len(rig.run(rig.entries()))
        rig.world.kill(rig.instances[0])
        rig.supervise()
        rig.run(rig.world.settled())
        assert rig.run(rig.turn("i3", "question 3")).outcome == "success"
        session = held(rig, 1)
        assert session.loaded is not None
        assert 0 < session.loaded.entries < before / 2
        rig.run(rig.host.sleep(1))
        journal = rig.run(rig.entries())
        assert everything(session.record) == everything(replayed(journal))
        assert len({entry.submission_id for entry in journal}) == len(journal)


def test_snapshot_is_not_in_the_way_of_a_reply() -> None:
    """It follows the answer that made it due, in a write that nobody waits for; the next turn goes on from it."""
    with Rig(*SMALL, script=one_tool, snapshot_entries=12) as rig:
        rig.run(rig.start_session())
        barriers = []
        for number in range(3):
            rig.run(rig.turn(f"i{number}", "question"))
            barriers.append(held(rig, 0).barriers)
        rig.run(rig.host.sleep(1))
        journal = names(rig.run(rig.entries()))
        assert journal.count("STATE_SNAPSHOT") == rig.supervisors[0].counters()["snapshots_written"] == 3
        assert [journal[n - 1] for n, name in enumerate(journal) if name == "STATE_SNAPSHOT"] == ["RunCompleted"] * 3
        assert barriers[1] - barriers[0] == barriers[2] - barriers[1]


async def insisted(rig: Rig, input_id: str, *, to: str) -> TurnResult:
    """As a host does it: an owner that finds out it is none any more is asked again."""
    with suppress(SessionFault):
        return await rig.turn(input_id, "question", to=to)
    return await rig.turn(input_id, "question", to=to)


def test_two_supervisors_in_turn_load_each_others_snapshots() -> None:
    """The session moves with every turn; none of them reads the whole, none of them doubles an entry."""
    with Rig(*SMALL, script=one_tool, snapshot_entries=12) as rig:
        rig.supervise()
        rig.run(rig.world.settled())
        rig.run(rig.start_session())
        taken: list[int] = []
        for number in range(5):
            to = number % 2
            assert rig.run(insisted(rig, f"i{number}", to=rig.instances[to])).outcome == "success"
            loading = held(rig, to).loaded
            taken.append(0 if loading is None else loading.entries)
            rig.run(rig.host.sleep(1))
        journal = rig.run(rig.entries())
        assert names(journal).count("RunCompleted") == 5
        assert max(taken[2:]) <= taken[1] + 20 < len(journal) / 2
        assert everything(held(rig, 0).record) == everything(replayed(journal))


def test_snapshot_that_loses_against_the_host_costs_nothing() -> None:
    """TurnDegraded got in before it: it is refused, the session is read again, the next input is answered."""
    with Rig(*SMALL, script=one_tool, snapshot_entries=12) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", "question"))
        session = held(rig, 0)
        session.record.since_snapshot = 100
        rig.run(rig.write(degraded_entry("i2", "hello?", "bare reply")))
        assert session.record_state(every=1)
        rig.run(rig.host.sleep(1))
        assert rig.run(rig.turn("i3", "question")).outcome == "success"
        rig.run(rig.host.sleep(1))
        journal = rig.run(rig.entries())
        assert names(journal).count("RunCompleted") == 2
        assert everything(held(rig, 0).record) == everything(replayed(journal))


def test_damaged_snapshot_in_the_record_is_counted_by_the_loader() -> None:
    """Written by another version of this software: the successor passes it over, says so in its counters, and answers."""
    with Rig(*SMALL, script=one_tool, snapshot_entries=12) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", "question"))
        rig.run(rig.host.sleep(1))
        good = next(entry for entry in rig.run(rig.entries()) if entry.event_type == "STATE_SNAPSHOT")
        head = rig.run(rig.entries())[-1]
        rig.world.kill(rig.instances[0])
        bad = changed(good, record_version=2)
        taken = changed(rig.run(rig.entries())[0], tenure=2)
        acks = rig.run(
            rig.write(
                WriteEntry(
                    submission_id=f"TookOver:{SESSION}/2", stream=good.stream, event_type="TookOver",
                    at_us=1, bodies=[body or b"" for body in taken.bodies], prev=head.submission_id, tenure=2,
                ),
                WriteEntry(
                    submission_id=f"STATE_SNAPSHOT:{SESSION}/2.999", stream=good.stream, event_type="STATE_SNAPSHOT",
                    at_us=1, bodies=[body or b"" for body in bad.bodies], prev=f"TookOver:{SESSION}/2", tenure=2,
                ),
            )
        )  # fmt: skip
        assert [ack.outcome for ack in acks] == ["committed", "committed"]
        rig.supervise()
        rig.run(rig.world.settled())
        assert rig.run(rig.turn("i2", "question")).outcome == "success"
        assert rig.supervisors[1].counters()["snapshots_ignored"] == 1
