"""The ledger in a process of its own, killed at any moment."""

import asyncio
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bus.disk import RealDisk
from bus.errors import LedgerError
from ledger_service.opening import open_ledger
from ledger_service.reader import read_entries
from ledger_service.service import LedgerService
from ledger_service.verify import verify_directory
from tests.process.ledger_writer import CONFIG, ProcessBus, entry

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]


def _writer(directory: Path, incarnation: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.process.ledger_writer", str(directory), str(incarnation)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready -1\n"
    return process


def _kill(process: subprocess.Popen[str]) -> dict[str, int]:
    """What it had acknowledged when it died."""
    process.send_signal(signal.SIGKILL)
    output, _ = process.communicate()
    whole = output[: output.rfind("\n") + 1]
    return {name: int(sequence) for name, sequence in (line.split() for line in whole.splitlines())}


@pytest.mark.parametrize("kills", [8, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.timeout(600)
def test_kill_dash_nine_loses_nothing_acknowledged(tmp_path, kills):
    """Each acknowledged entry is there under its number with its body; numbers have no gap; verify is clean."""
    moments = random.Random(kills)
    acknowledged: dict[str, int] = {}
    for incarnation in range(kills):
        process = _writer(tmp_path, incarnation)
        time.sleep(moments.uniform(0.0, 0.25))
        beside = verify_directory(tmp_path)
        acknowledged |= _kill(process)
        assert beside.ok, beside.fault
        report = verify_directory(tmp_path)
        assert report.ok, report.fault
    found = {one.submission_id: one for one in read_entries(tmp_path, with_bodies=True)}
    assert [one.sequence for one in found.values()] == list(range(len(found)))
    assert len(acknowledged) > kills
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
    process = _writer(tmp_path, 1)
    try:
        with pytest.raises(LedgerError, match="another process writes this ledger"):
            open_ledger(RealDisk(tmp_path), CONFIG)
    finally:
        _kill(process)
    opening = open_ledger(RealDisk(tmp_path), CONFIG)
    for _ in opening.catch_up():
        pass
    opening.close()
