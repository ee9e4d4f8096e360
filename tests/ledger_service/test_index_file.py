"""The index is read as a start would see it, and nothing on the disk changes."""

import shutil

from hobus.bus.disk import RealDisk
from hobus.ledger_service.index import read_positions
from hobus.ledger_service.opening import INDEX
from hobus.ledger_service.verify import verify_directory
from tests.ledger_service.rig import SmallBus, ledger_config, start, write

CONFIG = ledger_config()


def _bytes(path):
    return {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.is_file()}


async def test_beside_a_running_writer_the_newest_commit_is_read(memory_path):
    """It lags behind the segments until the writer brings it up; it is never ahead; no file changes."""
    bus = SmallBus()
    ledger = await start(RealDisk(memory_path), CONFIG, bus)
    for number in range(4):
        await ledger.write(write(f"e{number}"))
        before = _bytes(memory_path)
        report = verify_directory(memory_path)
        assert (report.ok, report.index) == (True, "behind")
        assert _bytes(memory_path) == before
        await bus.release()
        assert verify_directory(memory_path).index == "agrees"
        assert read_positions(memory_path)[-1].last == number
    await ledger.service.drain()


async def test_the_log_of_a_killed_writer_counts(memory_path):
    """With its index of the log, without it, or none of both: what a start would find is found."""
    bus = SmallBus()
    ledger = await start(RealDisk(memory_path / "live"), CONFIG, bus)
    for number in range(4):
        await ledger.write(write(f"e{number}"))
        await bus.release()
    shutil.copytree(memory_path / "live", memory_path / "killed")
    await ledger.service.drain()
    killed = memory_path / "killed"
    assert (killed / f"{INDEX}-wal").stat().st_size > 0
    for leaves in (f"{INDEX}-shm", None):
        before = _bytes(killed)
        assert read_positions(killed)[-1].last == 3
        assert _bytes(killed) == before
        if leaves:
            (killed / leaves).unlink()
    next((killed / "segments").iterdir()).unlink()
    report = verify_directory(killed)
    assert not report.ok and "up to 3" in report.fault.what


async def test_after_a_stop_nothing_is_made_beside_the_index(memory_path):
    ledger = await start(RealDisk(memory_path), CONFIG, SmallBus())
    await ledger.write(write("a"))
    await ledger.service.drain()
    before = _bytes(memory_path)
    assert f"{INDEX}-wal" not in before and read_positions(memory_path)[-1].last == 0
    assert _bytes(memory_path) == before and read_positions(memory_path / "elsewhere") is None
