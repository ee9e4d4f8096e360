"""A person moves between two whole clusters: the same journal, the same ids, nothing lost, nothing doubled, whoever dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import format_iso
from hobus.bus.messages.memory import Overlays, ReadOverlays, ReadSignals, Signals
from hobus.bus.messages.session import (
    CommandVerdict,
    EndSession,
    HostCommand,
    Pause,
    ProcessTurn,
    SessionClosed,
    SessionCommand,
    StartSession,
    TurnResult,
)
from hobus.launch.cells.carrying import CellSide
from hobus.launch.cells.map import Cell, CellMap, Move
from hobus.launch.cells.moving import move
from hobus.launch.lab.simulated import BROKER
from tests.journals import check_record
from tests.simulated import SimulatedCluster

ALICE, BOB = "key/alice", "key/bob"
IDS = {ALICE: "a11ce000-0000-4000-8000-000000000001", BOB: "b0b00000-0000-4000-8000-000000000002"}
SECOND = "a11ce000-0000-4000-8000-000000000003"
QUESTION = "what packages are installed?"


class Killed(BaseException):
    """The command that moves is no more."""


class InItsWorld:
    """A cell's side whose calls run that cell's own world; `left`: how many calls are made before the mover is killed."""

    left = 10_000

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._world = cluster.world
        self._side = CellSide(cluster.world.client("operator"), timeout_s=30)

    def __getattr__(self, name: str) -> Any:
        async def call(*given: Any, **named: Any) -> Any:
            self._count()
            return self._world.run(getattr(self._side, name)(*given, **named))

        return call

    async def _pages(self, pages: Any) -> Any:
        async def all_of() -> list[Any]:
            return [page async for page in pages]

        for page in self._world.run(all_of()):
            self._count()
            yield page

    def entries(self, session_id: str) -> Any:
        return self._pages(self._side.entries(session_id))

    def memory(self, person: str) -> Any:
        return self._pages(self._side.memory(person))

    def _count(self) -> None:
        if InItsWorld.left <= 0:
            raise Killed
        InItsWorld.left -= 1


class Cells:
    """Two clusters, a and b, and the map of the door in front of them."""

    def __init__(self, directory: Path) -> None:
        snapshot = shipped_snapshot()
        self.path = directory / "cells.sqlite"
        self.path.touch()
        self.map = CellMap(self.path)
        self.clusters = {
            "a": SimulatedCluster(snapshot, seed=1),
            # No two incarnations of real processes have one name; those of two worlds would.
            "b": SimulatedCluster(snapshot, seed=2, prepare=lambda world: world._counts.update(ho2=50, ho1=50, ho3=50)),
        }
        self.doors = {name: cluster.world.client("http") for name, cluster in self.clusters.items()}
        self.sides = {name: InItsWorld(cluster) for name, cluster in self.clusters.items()}
        for name in "ab":
            self.map.put(Cell(name, "", "", ""))
        self.map.list_people("a", ["alice", "bob"])

    def ask(self, cell: str, who: str, text: str, input_id: str, session: str = "") -> TurnResult:
        """A turn of this person, as a door asks for it."""
        session_id = session or IDS[who]
        start = StartSession(session_id=session_id, principal=who)
        turn = ProcessTurn(session_id=session_id, input_id=input_id, text=text, start=start)
        bus, world = self.doors[cell], self.clusters[cell].world
        with bus.on_behalf_of(who):
            return world.run(bus.request("host", turn, expect=TurnResult, timeout_s=60, key=session_id))

    def move(self, target: str, *, calls: int = 10_000, wait_s: float = 20) -> Move | None:
        """Alice moves, by a command of its own that makes at most so many calls; None: it was killed."""
        InItsWorld.left = calls
        cells = CellMap(self.path)
        try:
            return driven(move(cells, cells.begin("alice", target, 1), self.sides, wait_s=wait_s, now_us=lambda: 2))
        except Killed:
            return None
        finally:
            InItsWorld.left = 10_000
            cells.close()

    def journal(self, cell: str, session: str = IDS[ALICE]) -> list[Any]:
        return [entry for entry in self.clusters[cell].entries() if entry.stream == f"session/{session}"]


def driven(work: Any) -> Any:
    """What a coroutine gives that never waits itself: each call runs in the world that it is about."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    """Two of them, and their map."""
    found = Cells(tmp_path)
    yield found
    found.map.close()
    for cluster in found.clusters.values():
        cluster.world.close()


def lines_of(cells: Cells, cell: str) -> tuple[list[Any], int]:
    """What HO3 there has of alice: her lines, and how many events of hers count."""
    operator, world = cells.clusters[cell].world.client("operator"), cells.clusters[cell].world
    world.run(asyncio.sleep(60))  # each world has a clock of its own, and what is still to come does not count
    asked = ReadOverlays(agent_id="ADMIN", principal=ALICE)
    found = world.run(operator.request("ho3", asked, expect=Overlays, timeout_s=30))
    counted = ReadSignals(agent_id="ADMIN", principal=ALICE)
    signals = world.run(operator.request("ho3", counted, expect=Signals, timeout_s=30))
    return found.overlays, sum(one.count for one in signals.signals)


def as_written(entries: list[Any]) -> list[Any]:
    """What their writers wrote."""
    return [(*entry[:12], [*entry.bodies]) for entry in entries]


@contextmanager
def unchanged(cells: Cells) -> Iterator[None]:
    """Bob's journal is the same afterwards, and nowhere else."""
    before = as_written(cells.journal("a", IDS[BOB]))
    yield
    assert as_written(cells.journal("a", IDS[BOB])) == before and not cells.journal("b", IDS[BOB])


def begun(cells: Cells) -> None:
    """Two sessions of alice, one of them ended, and one of bob."""
    assert cells.ask("a", ALICE, QUESTION, "in-1").outcome == "success"
    assert cells.ask("a", BOB, "hello there", "in-1").outcome == "success"
    assert cells.ask("a", ALICE, "hello there", "in-1", SECOND).outcome == "success"
    world = cells.clusters["a"].world
    end = EndSession(session_id=SECOND, principal=ALICE)
    world.run(cells.doors["a"].request("host", end, expect=SessionClosed, timeout_s=30, key=SECOND))


def where(cells: Cells) -> tuple[str, bool]:
    """In which cell alice is, and whether she moves."""
    cell, is_moving = cells.map.place("alice")
    return cell.name, is_moving


def is_at(cells: Cells, cell: str, other: str, asked: str = QUESTION) -> None:
    """Alice goes on there, with what was said before, and is told at the other one where she is."""
    assert where(cells) == (cell, False) and cells.map.moves() == []
    said = cells.ask(cell, ALICE, "what did I ask before?", f"in-{cell}-{len(cells.journal(cell))}")
    assert said.outcome == "success" and asked in said.response
    there = cells.ask(other, ALICE, "and here?", "in-elsewhere")
    assert there.outcome == "error" and "cell" in there.response
    assert cells.ask(cell, ALICE, "and that one?", "in-2", SECOND).outcome == "error"
    for name, cluster in cells.clusters.items():
        entries = cluster.entries()
        assert max(Counter(entry.submission_id for entry in entries).values()) == 1, name
        assert not [entry for entry in entries if entry.event_type == "WRITE_CONFLICT"]
        check_record(entries)


def test_a_move_and_the_way_back(cells: Cells):
    """Every entry of the sessions stands there as it was written, behind it the move; then the same the other way."""
    begun(cells)
    with unchanged(cells):
        before = as_written(cells.journal("a"))
        of_session = [entry for entry in cells.clusters["a"].entries() if entry.provenance.session_id == IDS[ALICE]]
        assert cells.move("b").step == "done"
        there = cells.journal("b")
        assert as_written(there)[: len(before)] == before
        assert [entry.event_type for entry in there[len(before) :]] == ["SessionLeft", "SessionArrived"]
        ids = {entry.submission_id for entry in cells.clusters["b"].entries()}
        assert {entry.submission_id for entry in of_session} <= ids
        again = cells.ask("b", ALICE, QUESTION, "in-1")
        assert again.outcome == "success" and len(cells.journal("b")) == len(there) + 1, (
            "answered before: TookOver alone"
        )
        is_at(cells, "b", "a")
        assert cells.move("a").step == "done"
        is_at(cells, "a", "b", "what did I ask before?")


@pytest.mark.parametrize("calls", range(0, 26, 5))
def test_a_move_that_is_killed_goes_on(cells: Cells, calls: int):
    """After any of its calls, and again after any of the next ones: the person is in one place, and nothing twice."""
    begun(cells)
    with unchanged(cells):
        tries = 0
        while cells.move("b", calls=calls + tries) is None:
            where, is_moving = cells.map.place("alice")
            assert is_moving or where.name == "b"
            tries += 1
        is_at(cells, "b", "a")


@pytest.mark.parametrize("role", ["ledger", "ho2", BROKER])
@pytest.mark.parametrize("cell", ["a", "b"])
def test_a_move_beside_a_death(cells: Cells, cell: str, role: str):
    """A cell loses a process in the middle of it: at worst the move stops with a fault, and goes on when asked again."""
    begun(cells)
    with unchanged(cells):
        assert cells.move("b", calls=9) is None
        cluster = cells.clusters[cell]
        cluster.strike(role, after_s=0.001, back_after_s=1)
        for _ in range(5):
            try:
                if cells.move("b") is not None:
                    break
            except RuntimeFault as fault:
                assert fault.retryable, fault  # noqa: PT017
        is_at(cells, "b", "a")


def test_a_run_that_is_not_over_keeps_its_person(cells: Cells):
    """It is paused, and so for ever: the move turns back within its time, and nothing is changed but that it was tried."""
    begun(cells)
    world, operator = cells.clusters["a"].world, cells.clusters["a"].world.client("operator")
    tries = count()

    async def held() -> bool:
        hold = HostCommand(command_id=f"hold-{next(tries)}", issued_at=format_iso(operator.now()), command=Pause())
        asking = SessionCommand(session_id=IDS[ALICE], command=hold)
        return (await operator.request("ho2", asking, expect=CommandVerdict, timeout_s=5)).outcome == "applied"

    async def paused() -> None:
        async with asyncio.TaskGroup() as group:
            start = StartSession(session_id=IDS[ALICE], principal=ALICE)
            turn = ProcessTurn(session_id=IDS[ALICE], input_id="in-9", text=QUESTION, start=start)
            group.create_task(cells.doors["a"].request("host", turn, expect=TurnResult, timeout_s=5, key=IDS[ALICE]))
            while not await held():
                pass

    world.run(paused())
    with pytest.raises(RuntimeFault, match="run_active"):
        cells.move("b", wait_s=3)
    assert where(cells) == ("a", False) and not cells.map.moves() and not cells.journal("b")


def test_what_was_learned_of_a_person_moves_with_them(cells: Cells):
    """Her wish, and that another one was switched off; bob's stay, and the cell where she came from lacks nothing."""
    begun(cells)
    assert cells.ask("a", ALICE, "always answer in one line", "in-2").outcome == "success"
    assert cells.ask("a", BOB, "always answer in French", "in-2").outcome == "success"
    before = lines_of(cells, "a")
    assert before[0]
    assert cells.move("b").step == "done"
    assert lines_of(cells, "b") == before
    overlays = [entry for entry in cells.clusters["b"].entries() if entry.stream == "overlays"]
    assert {entry.provenance.session_id for entry in overlays} <= {"", IDS[ALICE]}
    cells.clusters["b"].world.kill(cells.clusters["b"].oldest("ho3"))
    cells.clusters["b"].start("ho3")
    cells.clusters["b"].world.run(cells.clusters["b"].world.settled())
    assert lines_of(cells, "b") == before
