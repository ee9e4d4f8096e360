"""Leases: which executors a supervisor may send orders to by their lanes, how many at once, and until when."""

from __future__ import annotations

import pytest

from hobus.bus import limits
from hobus.bus.codec import decode, encode, pack_header
from hobus.bus.envelope import Kind, make_header
from hobus.bus.messages.control import AnnounceTools, Drain, InstanceLost, LaneFrame, LaneFrames, Leases, ToolWord
from tests.bus.broker.rig import BIG, Rig

HO2, ONE, TWO = "ho2/1@a", "ho1/1@a", "ho1/2@a"


def leases(rig: Rig, connection: bytes) -> dict[str, int] | None:
    """The last word to this connection since the last look; None: none came."""
    said = [decode(Leases, got.body, BIG) for got in rig.got(connection) if got.header.type == Leases.TYPE]
    return {one.instance: one.slots for one in said[-1].leases} if said else None


@pytest.fixture
def ho2(rig) -> bytes:
    """A supervisor beside two executors with eight slots each."""
    for name in (ONE, TWO):
        rig.worker(name, slots=8, leases=True)
    return rig.hello(HO2, offers=["ho2"], leases=True)


def test_a_supervisor_is_told_of_those_that_take_work_and_has_a_share_of_their_slots(rig, ho2):
    """The broker keeps a share for what it places itself; a second supervisor gets the same."""
    assert leases(rig, ho2) == {ONE: 4, TWO: 4}
    second = rig.hello("ho2/2@a", offers=["ho2"], leases=True)
    assert leases(rig, ho2) == leases(rig, second) == {ONE: 2, TWO: 2}
    rig.say_bye(second)
    assert leases(rig, ho2) == {ONE: 4, TWO: 4}


def test_nothing_is_told_twice_but_to_who_comes_back(rig, ho2):
    """A beat that changes nothing is no word; a supervisor that says hello again forgot all."""
    leases(rig, ho2)
    rig.advance(1)
    assert leases(rig, ho2) is None
    rig.hello(HO2, b"again", offers=["ho2"], leases=True)
    assert leases(rig, b"again") == {ONE: 4, TWO: 4}


def test_the_broker_places_no_more_than_the_slots_that_are_not_leased(rig, ho2):
    """Four of eight each; the next one waits."""
    leases(rig, ho2)
    for number in range(9):
        rig.order(ho2, f"WO-{number}")
    assert sorted(len(rig.requests(worker.encode())) for worker in (ONE, TWO)) == [4, 4]


@pytest.mark.parametrize("how", ["lags", "draining", "drained", "starting"])
def test_who_takes_nothing_new_is_still_there_with_no_slots(rig, ho2, how):
    """What it has it ends, and answers by the lane; its lease is back when it is."""
    leases(rig, ho2)
    worker = ONE.encode()
    if how == "lags":
        rig.beat(worker, lag_ms=300)
    elif how == "drained":
        rig.post(rig.client("launcher/1@a"), Drain(instance=ONE))
        rig.call(rig.client("operator/1@a"), "q", Drain(instance=ONE))
    else:
        rig.ready(worker, how)
    assert leases(rig, ho2) == {ONE: 0, TWO: 4}
    if how == "lags":
        rig.beat(worker, lag_ms=0)
        assert leases(rig, ho2) == {ONE: 4, TWO: 4}


def test_a_lease_names_the_tools_whose_calls_may_be_repeated(rig, ho2):
    """None that writes or must not run twice, none whose server keeps something; the last announcement counts."""

    def word(tool_id: str, *, idempotent: bool = True, writes: bool = False) -> ToolWord:
        return ToolWord(
            tool_id=tool_id, source="s", description="d", parameters="{}", idempotent=idempotent, writes=writes
        )

    def tools() -> list[str]:
        said = [decode(Leases, got.body, BIG) for got in rig.got(ho2) if got.header.type == Leases.TYPE]
        return said[-1].leases[0].tools

    assert tools() == []
    words = [word("reads"), word("once", idempotent=False), word("sends", writes=True), word("server__reads")]
    rig.control(ONE.encode(), Kind.TOOLS, AnnounceTools(tools=words, sources=[]))
    assert tools() == ["reads"]
    many = [word(f"t{number}") for number in range(limits.LEASED_TOOLS_MAX + 1)]
    rig.control(ONE.encode(), Kind.TOOLS, AnnounceTools(tools=many, sources=[]))
    assert tools() == [one.tool_id for one in many[:-1]]
    rig.worker(ONE, b"again", slots=8, leases=True)
    assert tools() == []


def test_who_is_lost_is_named_no_more_at_once(rig, ho2):
    """By the launcher's word, or a connection that nobody is at."""
    leases(rig, ho2)
    rig.post(rig.client("launcher/1@a"), InstanceLost(instance=ONE, exit="signal 9"))
    assert leases(rig, ho2) == {TWO: 4}
    rig.lost(TWO.encode())
    assert leases(rig, ho2) == {}


def test_while_a_worker_without_a_lane_takes_work_nobody_has_a_lease(rig, ho2):
    """One elsewhere would have nothing to do beside lanes."""
    leases(rig, ho2)
    other = rig.worker("ho1/remote-1@a", slots=8)
    assert leases(rig, ho2) == {ONE: 0, TWO: 0}
    rig.ready(other, "draining")
    assert leases(rig, ho2) == {ONE: 4, TWO: 4}


def test_who_takes_no_leases_is_told_of_none_and_costs_no_slots(rig):
    """An older supervisor; a client; an executor that claims one."""
    rig.worker(ONE, slots=2, leases=True)
    ho2 = rig.hello(HO2, offers=["ho2"])
    door = rig.hello("door/1@a", leases=True)
    assert leases(rig, ho2) is leases(rig, door) is leases(rig, ONE.encode()) is None
    rig.order(ho2, "WO-1")
    rig.order(ho2, "WO-2")
    assert rig.requests(ONE.encode()) == ["WO-1", "WO-2"]


def test_a_restarted_broker_grants_nothing_before_it_has_heard_who_is_there():
    """Else all who have not come back yet would be gone."""
    rig = Rig(reannounce_grace_ms=300)
    ho2 = rig.hello(HO2, offers=["ho2"], leases=True)
    rig.worker(ONE, slots=8, leases=True)
    assert leases(rig, ho2) is None
    rig.advance(0.4)
    assert leases(rig, ho2) == {ONE: 4}


def test_a_worker_elsewhere_has_no_lane_to_tell_of(rig):
    """Whatever it says of frames there is denied, and on the tap as that."""
    name = b"far"
    rig.hello("ho1/1@a", name)
    rig.core._state.connections[name].address = "192.0.2.1:5"
    frame = LaneFrame(
        ago_us=0, verdict="delivered", header=pack_header(make_header(Kind.REQUEST, "m")), size=1, sha256=bytes(32)
    )
    body = encode(LaneFrames(frames=[frame]), BIG)
    rig.frame(name, make_header(Kind.POST, "p1", type=LaneFrames.TYPE, destination="broker"), body)
    assert [tap.verdict for tap in rig.taps if tap.header.type == LaneFrames.TYPE] == ["denied"]
