"""A home whose disk has no byte left: who dies then is started again, however often, and all is well once there is room."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from bench.builders import write_config
from bench.cluster import cluster_in, eventually
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.launch.cluster.client import connect_bus
from hobus.launch.sessions.turns import process_turn
from hobus.launch.sessions.watched_turn import ROLE as DOOR
from tests.process.small_disk import small_disk

pytestmark = pytest.mark.process

FULL_S = 15.0
"""In which a process that cannot start is tried so often that any other one had been given up."""
DEADLINE_S = 30.0
ROLES = ("ledger/1", "ho1/1", "ho2/1", "host/1")
BUDGET = 3
"""Crashes after which any other process is given up."""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", "48m") as directory:
        yield directory


def test_who_dies_while_the_disk_is_full_is_there_again_once_there_is_room(small: Path) -> None:
    """No token could be written for them, as often as others are given up; then they run, and a turn is answered."""
    cluster = cluster_in(small / "home")
    try:
        small_ledger = ("ledger.segment_bytes", 4 << 20), ("ledger.reserve_bytes", 1 << 20)
        cluster.up(settings={**dict(small_ledger), "launcher.crash_budget": BUDGET})
        fill(small / "filler")
        for actor in ROLES:
            cluster.kill(actor)
        time.sleep(FULL_S)  # the run file cannot be written either: nothing tells how often they were tried
        (small / "filler").unlink()
        eventually(lambda: max(cluster.row(actor).restarts for actor in ROLES) > BUDGET)  # some may have found a byte
        eventually(lambda: all(row.state == "ready" for row in cluster.run().children))
        assert cluster.ask("is the ledger intact?")["outcome"] == "success"
        cluster.verify()
    finally:
        cluster.end()


def test_what_was_answered_is_told_again_while_not_a_byte_is_left(small: Path) -> None:
    """The ledger lives on without room for its index, too, and answers from what it has, whoever lost the session."""
    cluster = cluster_in(small / "home")

    async def asked() -> list[TurnResult]:
        async with connect_bus(place, DOOR, timeout_s=DEADLINE_S) as bus:

            async def ask(turn: ProcessTurn) -> TurnResult:
                return await process_turn(bus, turn, timeout_s=DEADLINE_S)

            first = await ask(ProcessTurn(input_id="in-1", text="hello"))
            fill(small / "filler")
            refused = await ask(ProcessTurn(session_id=first.session_id, input_id="in-2", text="x" * 900_000))
            return [first, refused, await ask(ProcessTurn(session_id=first.session_id, input_id="in-1", text="hello"))]

    try:
        small_ledger = ("ledger.segment_bytes", 4 << 20), ("ledger.reserve_bytes", 1 << 20)
        cluster.up("--config", str(write_config(small / "config.json", *small_ledger)))
        place = cluster.place
        first, refused, again = asyncio.run(asked())
        assert (first.outcome, refused.code) == ("success", "disk_full")
        assert (again.outcome, again.response, again.run_id) == (first.outcome, first.response, first.run_id)
        shown = next(row for row in cluster("ps", "--json").json["actors"] if row["actor"] == "ledger/1")
        assert shown["state"] == "degraded" and "the disk is full" in shown["note"]
        found = next(one for one in cluster("doctor", "--json").json["checks"] if one["check"] == "ledger/1")
        assert "degraded: the disk is full" in found["detail"]
        (small / "filler").unlink()
        assert cluster.row("ledger/1").restarts == 0
        eventually(lambda: all(row.state == "ready" for row in cluster.run().children))
        cluster.verify()
    finally:
        cluster.end()


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 9, 1):
            while is_taken(file, size):
                pass


def is_taken(file: IO[bytes], size: int) -> bool:
    """Whether there was room for so many bytes more."""
    try:
        file.write(b"x" * size)
    except OSError as error:
        return error.errno != errno.ENOSPC
    return True
