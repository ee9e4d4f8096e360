"""Which sessions a gone supervisor may have left something open in, and how little of the record says so."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.ownership.unowned import Tenure, is_owned, may_be_open
from hobus.bus.messages.session import FollowUp, SessionView
from hobus.bus.record.catalog import read_body
from tests.actors.ho2_supervisor.rig import Rig
from tests.rig import names

OWNED = 3
OWNER = "ho2/1@7"


def entry(
    event_type: str, about: str = "s/3.1", *, tenure: int | None = OWNED, prev: str | None = "x", by: str = OWNER
) -> Any:
    """The head of a journal's entry."""
    return SimpleNamespace(
        event_type=event_type, origin=by, submission_id=f"{event_type}:{about}", tenure=tenure, prev=prev
    )


REQUESTED = entry("RunRequested", "s/in-1")
COMPLETED = entry("RunCompleted")
LABELS = "WO-s-1.1.1.000"
FIRST = [entry("SESSION_START"), entry("TookOver", prev="")]


@pytest.mark.parametrize(
    ("newest_first", "is_open"),
    [
        ([entry("StepStarted"), REQUESTED], True),
        ([entry("TookOver"), entry("StepStarted", tenure=2), REQUESTED], True),
        ([entry("RunCompleted"), REQUESTED], False),
        ([entry("RunFailed"), entry("StepStarted"), REQUESTED], False),
        ([entry("SESSION_END"), entry("RunCancelled"), REQUESTED], False),
        ([entry("TurnDegraded", "s/in-1", tenure=None, prev=None), entry("StepStarted"), REQUESTED], False),
        ([entry("TurnDegraded", "s/in-2", tenure=None, prev=None), entry("StepStarted"), REQUESTED], True),
        ([entry("RunCompleted"), entry("HostCommandReceived"), REQUESTED], True),
        ([entry("RunCompleted"), entry("RunRequested", "s/followup:f1")], True),
        ([entry("StepStarted")] * 40, True),
        ([entry("RunCompleted"), *[entry("StepStarted")] * 39], False),
        ([COMPLETED, entry("WO_DISPATCHED", LABELS), REQUESTED], True),
        ([entry("OrderEnded", LABELS), COMPLETED, entry("WO_DISPATCHED", LABELS), REQUESTED], False),
        ([COMPLETED, entry("OrderEnded", LABELS), entry("WO_DISPATCHED", LABELS), REQUESTED], False),
        ([entry("RunFailed"), entry("WO_DISPATCHED", LABELS), REQUESTED], False),
        ([COMPLETED, entry("WO_DISPATCHED", "WO-s-1.1.1"), REQUESTED], False),
        (FIRST, False),
        ([], False),
    ],
)
def test_an_owner_may_have_left_what_no_end_stands_behind(newest_first: list[Any], is_open: bool):
    """A run without an end, a message behind a run, or more entries than were looked at."""
    assert may_be_open(newest_first) == is_open


@pytest.mark.parametrize(
    ("newest_first", "is_ours"),
    [
        ([entry("StepStarted"), REQUESTED], True),
        ([entry("TurnDegraded", tenure=None), entry("StepStarted")], True),
        ([entry("TookOver", tenure=OWNED + 1), entry("StepStarted")], True),  # it stands, though nobody heard of it
        ([entry("TookOver", tenure=OWNED + 2), entry("StepStarted"), REQUESTED], False),
        ([entry("TookOver", tenure=OWNED + 1, by="ho2/2@8"), entry("StepStarted"), REQUESTED], False),
        ([], False),
    ],
)
def test_another_owners_session_is_not_looked_after(newest_first: list[Any], is_ours: bool):
    """By the newest tenure that stands; a take-over that got lost on its way may be one."""
    assert is_owned(newest_first, {Tenure(OWNER, OWNED), Tenure(OWNER, OWNED + 1)}) == is_ours


def left_at(rig: Rig, seconds: float) -> list[str]:
    """The owner is killed in the middle of a turn that nobody asks for again; what stands in the journal then."""
    rig.pool.delay_s = lambda _: 30.0

    async def run() -> None:
        await rig.start_session()
        turn = rig.world.loop.create_task(rig.asked("i1", "hello"))
        await rig.host.sleep(0.5)
        turn.cancel()
        rig.supervise()
        await rig.host.sleep(2)
        rig.world.kill(rig.instances[0])
        await rig.host.sleep(seconds)

    rig.run(run())
    return names(rig.run(rig.entries()))


@pytest.mark.parametrize(("interval_ms", "owners"), [(500, 2), (60_000, 1)])
def test_a_missing_supervisor_is_looked_for_at_the_configured_interval(
    monkeypatch: pytest.MonkeyPatch, interval_ms: int, owners: int
):
    """`limits.OWNERS_INTERVAL_MS` after the last look at the latest."""
    monkeypatch.setattr(limits, "OWNERS_INTERVAL_MS", interval_ms)
    with Rig() as rig:
        assert left_at(rig, 4).count("TookOver") == owners


def test_what_stands_before_the_newest_mark_is_asked_of_those_alone_whom_it_names(monkeypatch: pytest.MonkeyPatch):
    """OWNERS_SETTLED comes with a full page of take-overs; whom it names may still leave something behind."""
    monkeypatch.setattr(limits, "JOURNAL_PAGE", 1)
    with Rig() as rig:
        assert left_at(rig, 10).count("TookOver") == 2
        [*_, mark] = [one for one in rig.run(rig.entries("ho2m")) if one.event_type == "OWNERS_SETTLED"]
        said, taken = read_body(mark), rig.run(rig.entries())[0]
        assert taken.event_type == "TookOver" and taken.sequence <= said.through
        assert rig.instances[0] in said.living


def at_work(view: SessionView) -> bool:
    """The model is at work on the answer."""
    return view.run is not None and view.run.rounds >= 2 and view.run.in_flight > 0


async def taken_back(rig: Rig, *, timeout_s: float = 25.0) -> None:
    """A turn on its way that nobody asks for again."""
    await rig.start_session()
    turn = asyncio.ensure_future(rig.asked("i1", "hello", timeout_s=timeout_s))
    await rig.until(at_work)
    turn.cancel()


def ended(rig: Rig) -> int:
    """How many runs are over."""
    journal = names(rig.run(rig.entries()))
    return journal.count("RunCompleted") + journal.count("RunFailed")


def test_a_message_that_waited_is_found_behind_a_long_turn(monkeypatch: pytest.MonkeyPatch):
    """What came before the entries that are looked at may wait all the same: its turn came as its owner died."""
    monkeypatch.setattr(limits, "OWNERS_ENTRIES", 3)
    with Rig(snapshot_entries=5) as rig:
        rig.pool.delay_s = lambda order: 1.0 if order.wo_type == "synthesize" else 0.0

        def requested() -> list[str]:
            entries = rig.run(rig.entries())
            return [one.submission_id.rpartition("/")[2] for one in entries if one.event_type == "RunRequested"]

        async def run() -> None:
            await rig.start_session()
            first = asyncio.ensure_future(rig.asked("i1", "hello"))
            await rig.until(at_work)
            await rig.command(FollowUp(text="and more"), "f1")
            await first
            rig.world.kill(rig.instances[0])

        rig.run(run())
        assert requested() == ["i1"]
        assert [one.event_type for one in rig.run(rig.entries())[-3:]].count("HostCommandReceived") == 0
        rig.supervise()
        rig.run(rig.host.sleep(12))
        assert requested() == ["i1", "followup:f1"]
        assert ended(rig) == 2


def test_a_session_whose_newest_message_began_rests(monkeypatch: pytest.MonkeyPatch):
    """However many entries came since: a supervisor that starts later asks for nothing."""
    monkeypatch.setattr(limits, "OWNERS_ENTRIES", 3)
    with Rig() as rig:
        rig.run(rig.start_session())
        rig.run(rig.command(FollowUp(text="hello"), "f1"))
        rig.run(rig.until(lambda view: view.turn_count == 1))
        rig.run(rig.turn("i1", "hello again"))
        rig.world.kill(rig.instances[0])
        later = rig.supervise()
        rig.run(rig.host.sleep(10))
        assert (later.counters()["unowned_found"], ended(rig)) == (0, 2)


def test_a_take_over_that_nobody_heard_of_is_followed_by_another():
    """The ledger dies with TookOver on its way and is away for long: its owner lives, has not the session, and asks for it."""

    def killed(*, ledger_at_s: float | None) -> tuple[float, int]:
        """When the second TookOver was written, as seconds after the kill, and how many runs are over."""
        with Rig() as rig:
            rig.pool.delay_s = lambda order: 1.0 if order.wo_type == "synthesize" else 0.0
            rig.run(taken_back(rig))
            rig.world.kill(rig.instances[0])
            rig.supervise()
            killed_at = rig.host.now()
            if ledger_at_s is not None:
                rig.run(rig.host.sleep(ledger_at_s))
                rig.kill_ledger()
                rig.run(rig.host.sleep(20))
                rig.start_ledger()
            rig.run(rig.host.sleep(12))
            taken = [entry.at_us for entry in rig.run(rig.entries()) if entry.event_type == "TookOver"]
            return taken[1] / 1_000_000 - killed_at, ended(rig)

    taken_at_s, _ = killed(ledger_at_s=None)
    assert killed(ledger_at_s=taken_at_s)[1] == 1


def test_a_run_whose_end_a_full_disk_did_not_take_is_over_once_there_is_space():
    """Its deadline passes meanwhile; RunFailed is refused, and nobody waits for it."""
    with Rig() as rig:
        rig.pool.delay_s = lambda order: 30.0 if order.wo_type == "synthesize" else 0.0
        rig.run(taken_back(rig, timeout_s=8.0))
        medium = rig.world.disk("ledger").medium
        capacity = medium.capacity_bytes
        medium.capacity_bytes = medium.used_bytes() + 1_000
        rig.run(rig.host.sleep(12))
        medium.capacity_bytes = capacity
        rig.run(rig.host.sleep(10))
        assert ended(rig) == 1
