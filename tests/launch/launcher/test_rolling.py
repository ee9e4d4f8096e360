"""A launcher that is to go over to another configuration: what it refuses, and its steps, with nobody to carry them out."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bench.builders import shipped_snapshot, shipped_with
from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError, LedgerError
from hobus.bus.messages.control import Done, PeerRow, Peers, UseSnapshot
from hobus.bus.messages.ledger import Ack, Write, Written
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster.home import make_home, prepare
from hobus.launch.launcher.control import ReloadCommand
from hobus.launch.launcher.listening import DoorSocket
from hobus.launch.launcher.members import Crew
from hobus.launch.launcher.recording import ClusterRun
from hobus.launch.launcher.rolling import Rolling
from hobus.launch.launcher.supervision import Reported, make_members


def real(snapshot: Snapshot) -> Snapshot:
    return Snapshot.from_bytes(snapshot.to_bytes())


class Rig:
    """A crew of processes that are asked for and never born, a broker that knows them, and a record."""

    def __init__(self, tmp_path, snapshot: Snapshot, *, given: dict[str, dict[str, str]] | None = None) -> None:
        self.home = home = make_home(tmp_path)
        prepare(home)
        self.first = snapshot
        self.steps: list[str] = []
        self.record: BusError | LedgerError | None = None
        self.under = snapshot.digest
        self.clock = SystemClock()
        self.board = SimpleNamespace(
            sockets=home.run, logs_begin_at={}, say=lambda *_: None, report_change=lambda *_: None,
            write=lambda *_: None, has_reported=True, reload=None,
        )  # fmt: skip
        config = snapshot.config.launcher
        self.crew = Crew(
            make_members({"ho1": 2}), home=home, config=config, clock=SystemClock(), board=self.board,
            nursery=SimpleNamespace(start=self._start), door=DoorSocket(home, "127.0.0.1:0"), tell=lambda _: None,
            given=lambda _: {},
        )  # fmt: skip
        self.rolling = Rolling(
            home=home, run=ClusterRun(snapshot, "shipped", given or {}), crew=self.crew, board=self.board, bus=self,
            clock=SystemClock(), use=lambda: self.steps.append("use"),
        )  # fmt: skip

    def _start(self, options, **_):
        self.steps.append(f"start {options.instance.partition('@')[0]}")
        return SimpleNamespace(signal=lambda _: None, kill_group=lambda: None)

    def now(self) -> float:
        return 1.0

    async def request(self, service: str, message: Any, **_: Any) -> Any:
        if isinstance(message, Write):
            self.steps.append("record")
            if self.record is not None:
                raise self.record
            return Written(acks=[Ack(outcome="committed", submission_id="x", sequence=1)])
        if isinstance(message, UseSnapshot):
            self.steps.append("tell")
            self.under = message.config_digest
            return Done()
        rows = [
            PeerRow(
                instance=one.instance, role=one.role, offers=[], state="ready", slots=0, in_flight=0, keys=0,
                last_beat_ms=0, connected_ms=0, config_digest=self.under,
            )
            for one in self.crew
            if one.instance
        ]  # fmt: skip
        return Peers(epoch="e", peers=rows)

    def all_ready(self) -> None:
        self.crew.begin(one.actor for one in self.crew)
        for one in self.crew:
            row = PeerRow(
                instance=one.instance, role=one.role, offers=[], state="ready", slots=0, in_flight=0, keys=0,
                last_beat_ms=0, connected_ms=0,
            )  # fmt: skip
            self.crew.happened(one.actor, Reported(row, SystemClock().now()))
        self.steps.clear()

    def offer(self, snapshot: Snapshot) -> None:
        self.home.offered(snapshot.digest).write_bytes(snapshot.with_contents())
        self.rolling.take(ReloadCommand(digest=snapshot.digest, origin="mine"))

    async def done(self) -> Any:
        while self.board.reload.state == "going":
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        return self.board.reload


async def test_it_is_durable_in_the_record_before_anybody_can_use_it(tmp_path):
    """Record, then the run directory and what the launcher goes by, then the broker; nobody is started anew."""
    rig = Rig(tmp_path, real(shipped_snapshot()))
    rig.all_ready()
    other = real(shipped_with(("budget.turn_limit", 7)))
    rig.offer(other)
    with pytest.raises(BusError, match="another reload is under way"):
        rig.offer(real(shipped_with(("budget.turn_limit", 8))))
    assert (await rig.done()).state == "done"
    assert rig.steps == ["record", "use", "tell"]
    assert rig.home.snapshot.read_bytes() == other.to_bytes()
    assert rig.rolling.run.snapshot.digest == other.digest and rig.rolling.run.origin == "mine"
    assert not rig.home.offered(other.digest).exists()


async def test_a_record_that_does_not_take_it_leaves_everything_as_it_is(tmp_path):
    """Said with the reason; nobody was told, and the next one may come."""
    rig = Rig(tmp_path, real(shipped_snapshot()))
    rig.all_ready()
    rig.record = LedgerError("disk_full", "no room")
    rig.offer(real(shipped_with(("budget.turn_limit", 7))))
    row = await rig.done()
    assert row.state == "failed" and "disk_full" in row.detail and "nothing was changed" in row.detail
    assert rig.steps == ["record"] and not rig.home.snapshot.exists()
    rig.record = None
    rig.offer(real(shipped_with(("budget.turn_limit", 7))))
    assert (await rig.done()).state == "done"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("bus.attempts_max", 9), "bus.attempts_max"),
        (("ledger.segment_bytes", 1 << 24), "ledger.segment_bytes"),
        (("tools.environment", ("A_KEY_THAT_NOBODY_HAS",)), "env:A_KEY_THAT_NOBODY_HAS"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_done(tmp_path, change, why):
    """By the launcher too: another command may have come between."""
    rig = Rig(tmp_path, real(shipped_snapshot()))
    rig.all_ready()
    with pytest.raises(BusError, match=why):
        rig.offer(real(shipped_with(change)))
    assert rig.steps == [] and rig.board.reload is None


async def test_what_is_offered_under_a_digest_has_to_have_it(tmp_path):
    """Nothing there, other bytes, and no configuration at all are refused."""
    rig = Rig(tmp_path, real(shipped_snapshot()))
    rig.all_ready()
    other = real(shipped_with(("budget.turn_limit", 7)))
    word = ReloadCommand(digest=other.digest, origin="mine")
    with pytest.raises(BusError, match="cannot be read"):
        rig.rolling.take(word)
    for data in (b"nothing", rig.first.with_contents()):
        rig.home.offered(other.digest).write_bytes(data)
        with pytest.raises(BusError, match=r"snapshot|another configuration"):
            rig.rolling.take(word)
    assert rig.steps == []


async def test_while_the_configuration_changes_places_come_and_go_by_that_alone(tmp_path):
    """An executor more is started first; `hobus scale` is told to wait; a broken one is taken back."""
    rig = Rig(tmp_path, real(shipped_snapshot()))
    rig.all_ready()
    rig.offer(real(shipped_with(("tools.children_max", 3))))
    while not any(step.startswith("start") for step in rig.steps):
        await asyncio.sleep(0.001)
    assert rig.steps == ["record", "use", "tell", "start ho1/3"]
    await rig.rolling.close()
