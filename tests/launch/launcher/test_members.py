"""How many members a cluster may have, and how many of them are starting at once."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Drain, PeerRow
from hobus.launch.cluster.home import make_home, prepare
from hobus.launch.launcher.control import LeaveCommand, ScaleCommand
from hobus.launch.launcher.members import Crew
from hobus.launch.launcher.supervision import Reported, make_members

CONFIG = shipped_snapshot().config.launcher.model_copy(update={"processes_max": 20})


class Rig:
    """A crew whose processes are asked for and never born."""

    def __init__(self, tmp_path, *, ho1=6, refuses=False):
        home = make_home(tmp_path)
        prepare(home)
        self.asked: list[str] = []
        self.words: list[Message] = []
        self.told: list[tuple[Callable[..., None], Callable[[str], None]]] = []
        self.written: list[list[tuple[str, str]]] = []
        board = SimpleNamespace(
            sockets=home.run, logs_begin_at={}, say=lambda *_: None, report_change=lambda *_: None,
            write=lambda members: self.written.append([(one.actor, one.row().state) for one in members]),
        )  # fmt: skip
        self.crew = Crew(
            make_members({"ho1": ho1}), home=home, config=CONFIG, clock=SystemClock(), board=board,
            nursery=SimpleNamespace(start=self._start), door=SimpleNamespace(descriptor=lambda: 3, close=lambda: None), tell=self.words.append,
            given=lambda _: {}, starting_max=3,
        )  # fmt: skip
        self._refuses = refuses

    def _start(self, options, *, on_born, on_exit, **_):
        if self._refuses:
            raise OSError(11, "no more processes")
        self.asked.append(options.instance.partition("@")[0])
        self.told.append((on_born, on_exit))
        return SimpleNamespace(signal=lambda _: None, kill_group=lambda: None)

    def begin(self):
        self.crew.begin(member.actor for member in self.crew)

    async def ready(self, actor):
        member = self.crew.members[actor]
        row = PeerRow(
            instance=member.instance, role=member.role, offers=[], state="ready", slots=0, in_flight=0, keys=0,
            last_beat_ms=0, connected_ms=0,
        )  # fmt: skip
        self.crew.happened(actor, Reported(row, SystemClock().now()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_no_more_are_starting_at_once_than_the_bound(tmp_path):
    """One of each role first; whoever gets ready makes room; those that wait are starting, for whoever looks."""
    rig = Rig(tmp_path)
    rig.begin()
    assert rig.asked == ["broker/1", "ledger/1", "gateway/1"]
    await asyncio.sleep(0)
    assert {state for _, state in rig.written[-1]} == {"starting"} and len(rig.written) == 1
    for number, actor in enumerate(["ledger/1", "broker/1", "gateway/1", "ho3/1", "ho1/1"], start=4):
        await rig.ready(actor)
        assert len(rig.asked) == number
    assert rig.asked[3:] == ["ho3/1", "ho1/1", "ho2/1", "host/1", "ho1/2"]


async def test_a_restart_is_written_once_it_has_a_process(tmp_path):
    """Between the end of the one and the birth of the next there is nothing that whoever looks could do with."""
    rig = Rig(tmp_path)
    rig.begin()
    child = SimpleNamespace(pid=os.getpid(), mark="mark", say=lambda *_: None, kill_group=lambda: None)
    rig.told[0][0](child)
    await rig.ready("broker/1")
    before = len(rig.written)
    rig.told[0][1]("signal 9")
    for _ in range(5):
        await asyncio.sleep(0)
    assert rig.asked[-1] == "broker/1" and len(rig.written) == before
    rig.told[-1][0](child)
    await asyncio.sleep(0)
    assert len(rig.written) == before + 1 and rig.written[-1][0] == ("broker/1", "starting")


async def test_who_is_killed_at_the_end_is_not_started_again(tmp_path):
    """Neither those who wait for their turn, nor those who had died before."""
    rig = Rig(tmp_path)
    rig.begin()
    rig.told[0][1]("signal 9")
    rig.crew.kill_all()
    for _, on_exit in rig.told[1:]:
        on_exit("signal 9")
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(rig.asked) == 3 and {member.state for member in rig.crew} == {"stopped"}


async def test_who_is_started_by_a_command_is_written_as_starting_at_once(tmp_path):
    """Whoever gave it waits for that, and would else be told how it was before."""
    rig = Rig(tmp_path)
    rig.begin()
    rig.told[0][1]("exit 3")  # given up: another start would end the same way
    await asyncio.sleep(0)
    assert rig.written[-1][0] == ("broker/1", "failed")
    rig.crew.take(LeaveCommand(actor="broker/1", then="start"))
    assert rig.written[-1][0] == ("broker/1", "starting")


def test_a_worker_elsewhere_is_drained_by_the_broker_s_word_and_no_more(tmp_path):
    """The launcher has no process of it: that incarnation is drained, and neither started nor killed."""
    crew = (rig := Rig(tmp_path)).crew
    crew.take(LeaveCommand(actor="ho1/remote-1@e", then="stay"))
    assert rig.words == [Drain(instance="ho1/remote-1@e")]
    for refused in (
        LeaveCommand(actor="ho1/remote-1", then="stay"),
        LeaveCommand(actor="ho1/remote-1@e", then="start"),
        LeaveCommand(actor="ho1/remote-1@e", then="stay", kill=True),
    ):
        with pytest.raises(BusError, match="there is no"):
            crew.take(refused)


async def test_a_scale_waits_its_turn_and_may_be_taken_back(tmp_path):
    """Who was never started is gone at once, or stays away, and nothing starts once the cluster stops."""
    rig = Rig(tmp_path, ho1=1)
    rig.begin()
    rig.crew.take(ScaleCommand(role="ho1", count=8))
    rig.crew.take(ScaleCommand(role="ho1", count=3))
    rig.crew.take(LeaveCommand(actor="ho1/2", then="stay"))
    assert Counter(member.role for member in rig.crew)["ho1"] == 3 and len(rig.asked) == 3
    for actor in ("broker/1", "ledger/1", "gateway/1", "ho3/1"):
        await rig.ready(actor)
    assert "ho1/2" not in rig.asked and rig.crew.members["ho1/2"].row().state == "stopped"
    rig.crew.close()
    asked = list(rig.asked)
    await rig.ready("ho1/1")
    assert rig.asked == asked


async def test_a_scale_beyond_the_limit_is_refused_and_changes_nothing(tmp_path):
    """It names the setting; exactly as many as are allowed may be."""
    rig = Rig(tmp_path, ho1=1)
    others = len(rig.crew.members) - 1
    with pytest.raises(BusError, match=r"that would be 21 processes; 20 are allowed \(launcher.processes_max\)") as no:
        rig.crew.take(ScaleCommand(role="ho1", count=21 - others))
    assert no.value.code == "rejected" and len(rig.crew.members) == others + 1
    rig.crew.take(ScaleCommand(role="ho1", count=20 - others))
    assert len(rig.crew.members) == 20


async def test_a_system_that_makes_no_process_is_asked_for_all_of_them(tmp_path):
    """Each waits for its next try, and makes room for the one behind it."""
    rig = Rig(tmp_path, refuses=True)
    rig.begin()
    for _ in range(20):
        await asyncio.sleep(0)
    assert {member.state for member in rig.crew} == {"backoff"}
