"""Which sessions a gone supervisor may have left something open in, and how little of the record says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actors.ho2_supervisor.unowned import Taken, may_be_open
from bus.messages.base import unpack
from tests.actors.ho2_supervisor.rig import Rig, names

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
        ([entry("TookOver", tenure=4), entry("StepStarted"), REQUESTED], False),
        ([entry("TookOver", by="ho2/2@8"), entry("StepStarted", tenure=2), REQUESTED], False),
        ([entry("StepStarted")] * 40, True),
        ([entry("RunCompleted"), *[entry("StepStarted")] * 39], False),
        (FIRST, False),
        ([], False),
    ],
)
def test_an_owner_may_have_left_what_no_end_stands_behind(newest_first: list[Any], is_open: bool):
    """A run without an end, a message behind a run, or more entries than were looked at; never another owner's."""
    assert may_be_open(newest_first, Taken(OWNER, OWNED)) == is_open


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
    return names(rig.run(rig.journal()))


@pytest.mark.parametrize(("interval_ms", "owners"), [(500, 2), (60_000, 1)])
def test_a_missing_supervisor_is_looked_for_at_the_configured_interval(interval_ms: int, owners: int):
    """`ho2.owners_interval_ms` after the last look at the latest."""
    with Rig(("ho2.owners_interval_ms", interval_ms)) as rig:
        assert left_at(rig, 10).count("TookOver") == owners


def test_what_stands_before_the_newest_mark_is_asked_of_those_alone_whom_it_names():
    """OWNERS_SETTLED comes with a full page of take-overs; whom it names may still leave something behind."""
    with Rig(("sessions.journal_page", 1)) as rig:
        assert left_at(rig, 10).count("TookOver") == 2
        [*_, mark] = [one for one in rig.run(rig.journal("ho2m")) if one.event_type == "OWNERS_SETTLED"]
        said, taken = unpack(mark.bodies[0] or b""), rig.run(rig.journal())[0]
        assert taken.event_type == "TookOver" and taken.sequence <= said["through"]
        assert rig.instances[0] in said["living"]
