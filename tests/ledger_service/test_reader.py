"""Reading a directory without a running ledger."""

import pytest

from bench.ledger_drills.rig import SESSION, append, ledger_config, running, start, take_over, write
from hobus.bus.disk import RealDisk
from hobus.bus.errors import LedgerError
from hobus.bus.messages.ledger import Provenance
from hobus.ledger_service.reader import EntryFilter, head_of, read_entries
from hobus.ledger_service.segment import segment_name

CONFIG = ledger_config(segment_bytes=4_096)


@pytest.fixture
async def directory(memory_path):
    """Twenty-three entries over several segments."""
    async with running(RealDisk(memory_path), CONFIG) as ledger:
        await ledger.write(take_over(1, ""), append("s1", take_over(1, "").submission_id, 1))
        for number in range(20):
            await ledger.write(write(f"e{number}", "ho2m" if number % 2 else "ho1m", body=bytes([number]) * 200))
        await ledger.write(
            write("last", event_type="WO_FAILED", provenance=Provenance(session_id="abc", work_order_id="w"))
        )
        assert len(ledger.service._ledger.files.firsts()) > 2
    return memory_path


def _numbers(*args, **kwargs) -> list[int]:
    return [entry.sequence for entry in read_entries(*args, **kwargs)]


async def test_all_entries_come_in_order_or_newest_first(directory):
    """With limits and from a place on, as the running ledger gives them."""
    assert _numbers(directory) == list(range(23))
    assert _numbers(directory, newest_first=True) == list(range(22, -1, -1))
    assert _numbers(directory, after=9, limit=3) == [10, 11, 12]
    assert _numbers(directory, after=9, newest_first=True, limit=20) == list(range(22, 9, -1))
    assert _numbers(directory, after=22) == [] and _numbers(directory, limit=0) == []
    async with running(RealDisk(directory), CONFIG) as ledger:
        assert list(read_entries(directory, with_bodies=True)) == await ledger.all(with_bodies=True)


async def test_filters_choose_entries(directory):
    """By stream, event type, session prefix (as people see it) and work order."""
    assert _numbers(directory, EntryFilter(stream="ho2m"), limit=3) == [3, 5, 7]
    assert _numbers(directory, EntryFilter(event_type="WO_FAILED")) == [22]
    assert _numbers(directory, EntryFilter(session=f"SES-{SESSION.removeprefix('session/')[:8]}")) == [0, 1]
    assert _numbers(directory, EntryFilter(session="ab")) == [22]
    assert _numbers(directory, EntryFilter(stream="ho1m", event_type="TookOver")) == []


async def test_reading_from_a_number_on(directory):
    """With bodies; nothing beyond the head."""
    (entry,) = read_entries(directory, after=6, limit=1, with_bodies=True)
    assert entry.submission_id == "e5" and entry.bodies == [bytes([5]) * 200]
    assert not list(read_entries(directory, after=22)) and head_of(directory) == 22


async def test_it_reads_beside_a_running_writer(memory_path):
    """Each acknowledged entry is seen at once; nothing is locked."""
    ledger = await start(RealDisk(memory_path), CONFIG)
    assert head_of(memory_path) == -1
    for number in range(12):
        await ledger.write(write(f"e{number}", body=bytes(400)))
        assert _numbers(memory_path) == list(range(number + 1)) and head_of(memory_path) == number
    await ledger.service.drain()


async def test_a_torn_tail_is_left_out_and_damage_is_said(directory, memory_path):
    """Whole batches only; a damaged one ends the reading with its place."""
    path = max((directory / "segments").glob("*.seg"))
    content = path.read_bytes()
    end = len(content.rstrip(b"\0"))
    path.write_bytes(content[: end - 5] + bytes(5))
    assert _numbers(directory) == list(range(22))
    path.write_bytes(content)
    first = directory / "segments" / segment_name(0)
    data = bytearray(first.read_bytes())
    data[200] ^= 1
    first.write_bytes(data)
    with pytest.raises(LedgerError, match="damaged"):
        _numbers(directory)
    assert _numbers(directory, newest_first=True, limit=3) == [22, 21, 20]


async def test_no_ledger_is_an_error_not_an_empty_list(memory_path):
    """A wrong path does not look like an empty record."""
    with pytest.raises(LedgerError, match="no ledger"):
        list(read_entries(memory_path / "elsewhere"))
