"""The write rules on a running ledger, against a model, through batches, index flushes and restarts."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.messages.ledger import STREAMS, WriteEntry
from hobus.bus.sim.disk import SimDisk
from tests.ledger_service.rig import SESSION, append, medium, running, start, take_over, write


@dataclass
class Model:
    """The rules as one reads them on the page."""

    entries: list[tuple[WriteEntry, str]] = field(default_factory=list)
    conflicts: set[str] = field(default_factory=set)

    def submit(self, entry: WriteEntry, origin: str) -> tuple[str, int, str]:
        """Outcome, sequence and code."""
        on_session = entry.stream.startswith("session/")
        for number, (first, _) in enumerate(self.entries):
            if first.submission_id == entry.submission_id:
                same = ("stream", "event_type", "bodies", "prev", "tenure")
                if all(getattr(first, name) == getattr(entry, name) for name in same):
                    return "known", number, ""
                if entry.submission_id not in self.conflicts:
                    self.conflicts.add(entry.submission_id)
                    record = write(f"WRITE_CONFLICT:{entry.submission_id}", "governance", event_type="WRITE_CONFLICT")
                    self.entries.append((record, "ledger/1@1"))
                return "refused", -1, "conflict"
        for number, (first, _) in enumerate(self.entries):
            if entry.once is not None and first.once == entry.once:
                return "lost", number, ""
        if on_session and entry.event_type != "TurnDegraded":
            own = [first for first, _ in self.entries if first.stream == entry.stream]
            tenure = max([first.tenure or 0 for first in own if first.event_type == "TookOver"], default=0)
            wanted = tenure + 1 if entry.event_type == "TookOver" else tenure
            owners = [
                by for first, by in self.entries if first.stream == entry.stream and first.event_type == "TookOver"
            ]
            is_owners = entry.event_type == "TookOver" or owners[-1:] == [origin]
            if entry.tenure != wanted or wanted == 0 or not is_owners:
                return "refused", -1, "tenure_mismatch"
            if entry.prev != (own[-1].submission_id if own else ""):
                return "refused", -1, "head_mismatch"
        self.entries.append((entry, origin))
        return "committed", len(self.entries) - 1, ""


@dataclass(frozen=True)
class Draft:
    """A write as a choice relative to what stands, so that most drafts meet a border of some rule."""

    name: int  # of the last names; beyond them a new one
    stream: str
    kind: str
    prev: str
    tenure: int  # beyond the current one
    body: bytes
    once: str | None
    origin: str

    def resolve(self, model: Model, names: list[str]) -> WriteEntry:
        own = [first for first, _ in model.entries if first.stream == self.stream]
        tenure = max([first.tenure or 0 for first in own if first.event_type == "TookOver"], default=0)
        if self.name >= len(names) or self.name > 3:
            names.append(f"n{len(names)}")
        name = names[-1 - min(self.name, len(names) - 1)] if self.name <= 3 else names[-1]
        fields: dict[str, object] = {"bodies": [self.body] if self.body else [], "once": self.once}
        if self.stream in STREAMS:
            return write(name, self.stream, **fields)
        if self.kind == "TurnDegraded":
            return write(name, self.stream, event_type=self.kind, **{**fields, "once": self.once or f"turn:{name}"})
        heads = [first.submission_id for first in own]
        prev = {"head": heads[-1] if heads else "", "older": heads[0] if heads else "x", "none": ""}[self.prev]
        wanted = max(0, tenure + self.tenure + (self.kind == "TookOver"))
        return write(name, self.stream, event_type=self.kind, prev=prev, tenure=wanted, **fields)


_drafts = st.builds(
    Draft,
    name=st.sampled_from([0, 1, 2, 3, 9, 9, 9, 9, 9, 9]),
    stream=st.sampled_from(["ho1m", "ho2m", SESSION, SESSION, SESSION, SESSION[:-1] + "0"]),
    kind=st.sampled_from(["TookOver", "Step", "Step", "Step", "TurnDegraded"]),
    prev=st.sampled_from(["head", "head", "head", "older", "none"]),
    tenure=st.sampled_from([0, 0, 0, 0, -1, 1]),
    body=st.sampled_from([b"", b"x", b"y", b"longer"]),
    once=st.sampled_from([None, None, "k1", "k2", "k3"]),
    origin=st.sampled_from(["ho2/1@7", "ho2/1@7", "ho2/1@7", "ho2/2@8"]),
)
_steps = st.lists(
    st.sampled_from(["flush", "restart"]) | st.lists(st.lists(_drafts, min_size=1, max_size=5), min_size=1, max_size=3),
    min_size=2,
    max_size=10,
)


@given(steps=_steps)
def test_the_ledger_answers_as_the_model_does(steps):
    """Any writes, in one batch or many, before and after an index flush or a restart: same acks, same record."""
    asyncio.run(_compare(steps))


async def _compare(steps) -> None:
    device, model, names = medium(), Model(), ["n0"]
    ledger = await start(SimDisk(device))
    for step in steps:
        if step == "flush":
            await ledger.bus.release()
        elif step == "restart":
            await ledger.service.drain()
            ledger = await start(SimDisk(device))
        else:
            expected, writes = [], []
            for drafts in step:
                entries, answers, origin = [], [], drafts[0].origin
                for draft in drafts:
                    entries.append(draft.resolve(model, names))
                    answers.append(model.submit(entries[-1], origin))
                expected.append(answers)
                writes.append(ledger.write(*entries, origin=origin))
            written = await asyncio.gather(*writes)
            assert [[(ack.outcome, ack.sequence, ack.code) for ack in one] for one in written] == expected
    entries = await ledger.all()
    assert [(e.submission_id, e.origin) for e in entries] == [(e.submission_id, origin) for e, origin in model.entries]
    assert [entry.sequence for entry in entries] == list(range(len(entries)))
    await ledger.service.drain()


@pytest.mark.parametrize("flushed", [False, True], ids=["same batch", "on disk"])
async def test_another_content_of_the_same_length_is_a_conflict(flushed):
    """Compared by bytes in the batch and by salted hash afterwards; each part of the content counts."""
    async with running(SimDisk(medium())) as ledger:
        first = append("a", "", 1, event_type="TookOver", bodies=[b"one", b"two"])
        others = [
            first._replace(**changed)
            for changed in (
                {"bodies": [b"one", b"twO"]}, {"bodies": [b"two", b"one"]}, {"bodies": [b"onet", b"wo"]}, {"bodies": []},
                {"event_type": "TookOver2"}, {"tenure": 2}, {"prev": "x"}, {"stream": SESSION[:-1] + "0"},
            )
        ]  # fmt: skip
        if flushed:
            await ledger.write(first)
            await ledger.bus.release()
        acks = await ledger.write(first, *others, first)
        assert [ack.code or ack.outcome for ack in acks[1:]] == ["conflict"] * len(others) + ["known"]


async def test_a_refused_append_refuses_everything_pipelined_behind_it():
    async with running(SimDisk(medium())) as ledger:
        first = take_over(1, "")
        acks = await ledger.write(first, append("s1", first.submission_id, 1))
        assert [ack.outcome for ack in acks] == ["committed", "committed"]
        pipelined = [append("s2", "gone", 1), append("s3", "s2", 1), append("s4", "s3", 1)]
        acks = [(await ledger.write(entry))[0] for entry in pipelined]
        assert [(ack.code, ack.head) for ack in acks] == [("head_mismatch", "s1")] * 3


async def test_an_old_owner_is_fenced_although_both_derive_the_same_ids():
    """After a take-over every append of the old tenure is refused and says who is current."""
    async with running(SimDisk(medium())) as ledger:
        old = take_over(1, "")
        await ledger.write(old, origin="ho2/1@7")
        new = take_over(2, old.submission_id)
        assert (await ledger.write(new, origin="ho2/2@8"))[0].outcome == "committed"
        ack = (await ledger.write(append("s1", old.submission_id, 1), origin="ho2/1@7"))[0]
        assert (ack.code, ack.head, ack.tenure) == ("tenure_mismatch", new.submission_id, 2)
        assert (await ledger.write(append("s1", new.submission_id, 2), origin="ho2/2@8"))[0].outcome == "committed"
        ack = (await ledger.write(append("s1", old.submission_id, 1), origin="ho2/1@7"))[0]
        assert ack.code == "conflict"


@pytest.mark.parametrize("between", ["", "flush", "restart"])
async def test_of_two_who_take_over_at_once_only_the_one_whose_take_over_stands_appends(between):
    """Both derive one id and claim one tenure, and the other one's entries would follow that id; also after a restart."""
    device = medium()
    ledger = await start(SimDisk(device))
    mine, other = take_over(1, ""), take_over(1, "")._replace(bodies=[b"another"])
    await ledger.write(mine, append("s1", mine.submission_id, 1), origin="ho2/1@7")
    if between == "flush":
        await ledger.bus.release()
    elif between:
        await ledger.service.drain()
        ledger = await start(SimDisk(device))
    acks = await ledger.write(other, append("x1", "s1", 1), origin="ho2/2@8")
    assert [ack.code for ack in acks] == ["conflict", "tenure_mismatch"]
    assert (await ledger.write(append("s2", "s1", 1), origin="ho2/1@7"))[0].outcome == "committed"
    await ledger.service.drain()


async def test_a_degraded_turn_beats_the_owners_answer_by_its_once_key():
    """Exactly one answer per input: the loser learns which entry stands."""
    async with running(SimDisk(medium())) as ledger:
        first = take_over(1, "")
        await ledger.write(first)
        degraded = write("TurnDegraded:i1", SESSION, event_type="TurnDegraded", once="turn:s/i1")
        assert (await ledger.write(degraded, origin="host/1@2"))[0].outcome == "committed"
        late = append("RunCompleted:1", first.submission_id, 1, event_type="RunCompleted", once="turn:s/i1")
        ack = (await ledger.write(late))[0]
        assert (ack.outcome, ack.origin, ack.event_type) == ("lost", "host/1@2", "TurnDegraded")
        ack = (await ledger.write(append("s1", first.submission_id, 1)))[0]
        assert (ack.code, ack.head, ack.tenure) == ("head_mismatch", "TurnDegraded:i1", 1)


async def test_many_racing_for_a_once_key_have_one_winner():
    async with running(SimDisk(medium())) as ledger:
        writes = [ledger.write(write(f"start{n}", once="start:WO-1"), origin=f"ho1/{n}@1") for n in range(20)]
        acks = [acks[0] for acks in await asyncio.gather(*writes)]
        assert [ack.outcome for ack in acks] == ["committed"] + ["lost"] * 19
        assert {(ack.sequence, ack.origin, ack.submission_id) for ack in acks} == {(0, "ho1/0@1", "start0")}


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_conflict_is_recorded_once_per_id_and_without_content(times):
    """The record holds ids only, however often the other content comes."""
    async with running(SimDisk(medium())) as ledger:
        await ledger.write(write("a", body=b"first"))
        for _ in range(times):
            ack = (await ledger.write(write("a", body=b"secret"), origin="ho1/9@9"))[0]
            assert (ack.outcome, ack.code) == ("refused", "conflict")
        records = await ledger.read("governance", with_bodies=True)
        assert [(record.event_type, record.origin, record.parents) for record in records] == [
            ("WRITE_CONFLICT", "ledger/1@1", ["a"])
        ]
        body = records[0].bodies[0] or b""
        assert b"ho1/9@9" in body and b"secret" not in body and b"first" not in body


async def test_duplicates_are_known_at_once_later_after_a_flush_and_after_a_restart():
    """A resubmission adds nothing, for ever, whatever client time and trace it carries."""
    device = medium()
    again = write("a", at_us=1, trace="other")
    async with running(SimDisk(device)) as ledger:
        acks = await ledger.write(write("a"), again)
        assert [(ack.outcome, ack.sequence) for ack in acks] == [("committed", 0), ("known", 0)]
        assert (await ledger.write(again))[0].outcome == "known"
        await ledger.bus.release()
        assert (await ledger.write(again))[0].outcome == "known"
    async with running(SimDisk(device)) as ledger:
        assert (await ledger.write(again, origin="ho1/1@1"))[0] == acks[1]._replace(origin="ho2/1@7")
        assert [entry.submission_id for entry in await ledger.all()] == ["a"]


async def test_limits_of_one_entry():
    """The largest entry and bodies commit; one byte more is refused as too large, whoever is in the same batch."""
    async with running(SimDisk(medium())) as ledger:
        limits = ledger.service._config
        fits = [write("bodies", bodies=[b"x" * (limits.bodies_max_bytes - 5), b"y" * 5]), write("b")]
        over = write("more", bodies=[b"x" * (limits.bodies_max_bytes - 5), b"y" * 6])
        parents = write("parents", parents=["p" * 1000] * 9)
        surrogate = write("bad")._replace(trace="\ud800")
        acks = await ledger.write(*fits, over, parents, surrogate, write("c"))
        assert [ack.code or ack.outcome for ack in acks] == [
            "committed", "committed", "too_large", "too_large", "invalid", "committed",
        ]  # fmt: skip
        assert [entry.submission_id for entry in await ledger.all()] == ["bodies", "b", "c"]


async def test_what_comes_late_comes_behind_an_end_of_its_order():
    """An order without an end has nothing late, whoever says so; behind one each writer says it once."""
    order, worker, other = "WO-01890a5d-ac96-774b-bcce-b302099a8057-1.2.3", "ho1/1@7", "ho1/2@8"
    async with running(SimDisk(medium())) as ledger:

        def late(writer: str) -> WriteEntry:
            return write(f"WO_LATE:{order}/{writer}", event_type="WO_LATE")

        (ack,) = await ledger.write(late(other), sender=other)
        assert (ack.outcome, ack.code) == ("refused", "denied")
        end = write(f"WO_FAILED:{order}/{worker}", event_type="WO_FAILED", once=f"end:{order}")
        assert [ack.outcome for ack in await ledger.write(end, sender=worker)] == ["committed"]
        outcomes = [(await ledger.write(late(other), sender=other))[0].outcome for _ in range(3)]
        assert outcomes == ["committed", "known", "known"]
