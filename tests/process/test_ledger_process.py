"""The ledger in a process of its own, killed at any moment."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import pytest

from hobus.bus.disk import RealDisk
from hobus.bus.errors import LedgerError
from hobus.ledger_service.opening import open_ledger
from hobus.ledger_service.reader import read_entries
from hobus.ledger_service.service import LedgerService
from hobus.ledger_service.verify import verify_directory
from tests.process.ledger_writer import CONFIG, ProcessBus, entry

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
KILLS = 20
"""Of one record, which is verified twice for each of them."""


class Writers:
    """One process after the other that writes to the ledger in this directory."""

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-m", "tests.process.ledger_writer", str(directory)]
        self._parent = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._pid = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
        self._parent.communicate()  # without another line it ends

    def start(self, incarnation: int) -> None:
        assert self._parent.stdin is not None
        self._parent.stdin.write(f"{incarnation}\n")
        self._parent.stdin.flush()
        word, number = self._line()
        assert word == "ready"
        self._pid = number

    def kill(self) -> dict[str, int]:
        """Submission id -> sequence: what it had acknowledged when it died."""
        os.kill(self._pid, signal.SIGKILL)
        self._pid = 0
        acknowledged: dict[str, int] = {}
        while (line := self._line())[0] != "dead":
            acknowledged[line[0]] = line[1]
        return acknowledged

    def _line(self) -> tuple[str, int]:
        assert self._parent.stdout is not None
        word, number = self._parent.stdout.readline().split()
        return word, int(number)


@pytest.mark.parametrize("seed", range(5))
def test_kill_dash_nine_loses_nothing_acknowledged(tmp_path, seed):
    """Each acknowledged entry is there under its number with its body; numbers have no gap; verify is clean."""
    moments = random.Random(seed)
    acknowledged: dict[str, int] = {}
    with Writers(tmp_path) as writers:
        for incarnation in range(KILLS):
            writers.start(incarnation)
            time.sleep(moments.uniform(0.0, 0.2))
            beside = verify_directory(tmp_path)
            acknowledged |= writers.kill()
            assert beside.ok, beside.fault
            report = verify_directory(tmp_path)
            assert report.ok, report.fault
    found = {one.submission_id: one for one in read_entries(tmp_path, with_bodies=True)}
    assert [one.sequence for one in found.values()] == list(range(len(found)))
    assert len(acknowledged) > KILLS
    for name, sequence in acknowledged.items():
        assert found[name].sequence == sequence and found[name].bodies == entry(name).bodies
    asyncio.run(_resubmit(tmp_path, acknowledged))


async def _resubmit(directory: Path, acknowledged: dict[str, int]) -> None:
    """Everything acknowledged is known, for ever, under its first number."""
    service = LedgerService(RealDisk(directory), CONFIG)
    await service.start(ProcessBus("last"))
    for name, sequence in acknowledged.items():
        (ack,) = await service.append([entry(name)], "ho1/x@1")
        assert (ack.outcome, ack.sequence) == ("known", sequence)
    await service.drain()


def test_a_second_process_is_refused_while_the_first_lives(tmp_path):
    """The lock is the process's: it is free as soon as that one is dead, however it died."""
    with Writers(tmp_path) as writers:
        writers.start(1)
        with pytest.raises(LedgerError, match="another process writes this ledger"):
            open_ledger(RealDisk(tmp_path), CONFIG)
        writers.kill()
    opening = open_ledger(RealDisk(tmp_path), CONFIG)
    for _ in opening.catch_up():
        pass
    opening.close()
