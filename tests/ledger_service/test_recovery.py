"""What a start makes of what a crash left."""

import sqlite3
from contextlib import closing

import pytest

from bench.ledger_drills.rig import LyingDisk, cut_power
from hobus.bus.disk import RealDisk
from hobus.bus.errors import LedgerError
from hobus.bus.record.catalog import read_body
from hobus.bus.sim.disk import SimDisk
from hobus.ledger_service import limits
from hobus.ledger_service.frame import GENESIS, VERSION
from hobus.ledger_service.opening import INDEX, open_ledger
from hobus.ledger_service.reader import read_entries
from hobus.ledger_service.recovery import recover
from hobus.ledger_service.segment import SegmentFiles, name_segment
from hobus.ledger_service.source import Damage
from hobus.ledger_service.verify import verify_directory
from tests.ledger_service.rig import (
    FailingDisk,
    SmallBus,
    in_format,
    ledger_config,
    medium,
    running,
    start,
    stored_frame,
    write,
)

FIRST = f"segments/{name_segment(0)}"


async def _filled(device, batches: int = 8, **config: int) -> list[str]:
    """A ledger with so many batches of two entries; their submission ids."""
    async with running(SimDisk(device), ledger_config(**config)) as ledger:
        names = [(f"e{number}a", f"e{number}b") for number in range(batches)]
        for pair in names:
            await ledger.write(*(write(name, body=f"body of {name}".encode()) for name in pair))
    return [name for pair in names for name in pair]


def _recovered(device) -> tuple[int, object]:
    """Head and what was removed, after a recovery without an index."""
    disk = SimDisk(device)
    found = recover(disk, SegmentFiles(disk), [])
    return found.position.last, found.removed


@pytest.mark.parametrize("batches", [2, pytest.param(12, marks=pytest.mark.slow)])
async def test_a_tear_at_every_byte_loses_nothing_but_the_batch_in_flight(batches):
    device = medium()
    await _filled(device, batches)
    content = device.files[FIRST].content
    whole = bytes(content).rstrip(b"\0")
    ends = [0]
    while ends[-1] < len(whole):
        next_frame = whole.find(b"HOBUSLG1", ends[-1] + 1)
        ends.append(next_frame if next_frame > 0 else len(whole))
    assert len(ends) == batches + 1
    for tear in range(1, len(whole)):
        content[:] = whole[:tear] + bytes(len(content) - tear)
        head, removed = _recovered(device)
        complete = sum(end <= tear for end in ends) - 1
        assert head == 2 * complete - 1
        if tear in ends:
            assert removed is None
        else:
            kept = device.files.pop(removed.kept_in).content
            assert bytes(kept) == whole[ends[complete] : tear].rstrip(b"\0")
            assert not any(content[ends[complete] :])


async def test_a_recovery_is_recorded_and_the_batch_can_be_submitted_again():
    device = medium()
    await _filled(device, batches=2)
    content = device.files[FIRST].content
    end = len(bytes(content).rstrip(b"\0"))
    content[end - 40 : end] = bytes(40)
    async with running(SimDisk(device), bus=SmallBus(instance="ledger/1@2")) as ledger:
        acks = await ledger.write(write("e1a", body=b"body of e1a"), write("e0a", body=b"body of e0a"))
        assert [(ack.outcome, ack.sequence) for ack in acks] == [("committed", 3), ("known", 0)]
        record = (await ledger.read("governance", with_bodies=True))[0]
        assert (record.sequence, record.event_type, record.submission_id, record.origin, record.reason) == (
            2, "RECOVERED", "RECOVERED:ledger/1@2/1", "ledger/1@2", "torn_batch",
        )  # fmt: skip
        facts = read_body(record)
        assert facts.file == FIRST and len(device.files[facts.kept_in].content) == facts.size_bytes


async def test_removed_bytes_are_durable_before_they_are_removed():
    """A power cut at any call of the recovery leaves them in the segment or in their own file."""
    device = medium()
    await _filled(device, batches=1)
    whole = bytes(device.files[FIRST].content)
    torn = b"HOBUSLG1 and a part of a batch"
    end = len(whole.rstrip(b"\0"))
    for fail_at in range(20):
        device.files = {name: file for name, file in device.files.items() if not name.endswith(".torn")}
        device.files[FIRST].content[:] = whole[:end] + torn + whole[end + len(torn) :]
        disk = FailingDisk(SimDisk(device))
        disk.fail_at = fail_at
        try:
            recover(disk, SegmentFiles(disk), [])
        except OSError:
            pass
        else:
            break
        device.crash()
        in_place = device.files[FIRST].content[end : end + len(torn)] == torn
        assert in_place or [bytes(f.content) for n, f in device.files.items() if n.endswith(".torn")] == [torn]
    assert fail_at >= 4
    device.crash()
    assert [bytes(f.content) for n, f in device.files.items() if n.endswith(".torn")] == [torn]


async def test_two_recoveries_at_one_place_keep_both_removed_batches():
    device = medium()
    await _filled(device, batches=1)
    content = device.files[FIRST].content
    end = len(bytes(content).rstrip(b"\0"))
    for torn in (b"HOBUSLG1 one", b"HOBUSLG1 another"):
        content[end : end + len(torn)] = torn
        _recovered(device)
    kept = [bytes(file.content) for name, file in sorted(device.files.items()) if name.endswith(".torn")]
    assert kept == [b"HOBUSLG1 one", b"HOBUSLG1 another"]


@pytest.mark.parametrize(("batches", "bits"), [(2, 1), pytest.param(4, 8, marks=pytest.mark.slow)])
async def test_a_flipped_bit_anywhere_refuses_the_start_naming_the_place(batches, bits):
    """Every byte of every batch, the last one included: nothing is accepted, nothing is cut off."""
    device = medium()
    await _filled(device, batches)
    content = device.files[FIRST].content
    for case in range(len(bytes(content).rstrip(b"\0")) * bits):
        byte, bit = case // bits, case % 8 if bits == 8 else case % 7
        content[byte] ^= 1 << bit
        with pytest.raises(LedgerError) as refused:
            _recovered(device)
        assert refused.value.code == "damaged"
        assert refused.value.facts["file"] == FIRST and refused.value.facts["byte"] <= byte
        content[byte] ^= 1 << bit
    assert _recovered(device) == (2 * batches - 1, None)
    assert not any(name.endswith(".torn") for name in device.files)


async def test_a_stray_bit_in_the_zeros_is_set_aside():
    device = medium()
    await _filled(device, batches=1)
    device.files[FIRST].content[-100] = 4
    head, removed = _recovered(device)
    assert (head, removed.kind, removed.byte) == (1, "stray", len(bytes(device.files[FIRST].content).rstrip(b"\0")))


async def test_nothing_is_acknowledged_from_a_page_cache_that_lies():
    """After a failed sync the bytes read back fine and are not on the device: the last batch is written and synced again."""
    files = {}
    disk = LyingDisk(files)
    ledger = await start(disk)
    await ledger.write(write("a"))
    disk.fail_next_sync = True
    with pytest.raises(LedgerError):
        await ledger.write(write("b"))
    ledger.service.stop()
    ledger = await start(LyingDisk(files))
    assert (await ledger.write(write("b")))[0].outcome == "known"
    ledger.service.stop()
    cut_power(files)
    async with running(LyingDisk(files)) as ledger:
        assert [entry.submission_id for entry in await ledger.all()] == ["a", "b"]


@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power cut"])
@pytest.mark.parametrize(
    ("batches", "torn_bytes"),
    [(6, None), (6, 100), *(pytest.param(12, torn, marks=pytest.mark.slow) for torn in (None, 1, 100, 700))],
)
async def test_a_crash_at_every_write_and_sync_loses_nothing_acknowledged(
    monkeypatch: pytest.MonkeyPatch, power_cut, batches, torn_bytes
):
    """Start, batches, rotation, recovery itself: whatever call fails, acknowledged entries stand and numbers go on."""
    monkeypatch.setattr(limits, "ZERO_FILL_CHUNK_BYTES", 512)
    config = ledger_config(segment_bytes=150 * batches)
    device = medium()
    disk = FailingDisk(SimDisk(device))
    await _write_until_it_fails(disk, config, batches)
    calls = len(disk.calls)
    assert calls > 2.5 * batches and sum(name.endswith(".seg") for name in device.files) >= 3
    for fail_at in range(calls):
        device = medium()
        disk = FailingDisk(SimDisk(device))
        disk.fail_at, disk.torn_bytes = fail_at, torn_bytes
        acked = await _write_until_it_fails(disk, config, batches)
        assert acked.pop("fenced", True)
        if power_cut:
            device.crash()
        async with running(SimDisk(device), config, SmallBus(instance="ledger/1@2")) as ledger:
            found = {entry.submission_id: entry for entry in await ledger.all(with_bodies=True)}
            assert [entry.sequence for entry in found.values()] == list(range(len(found)))
            for name, sequence in acked.items():
                assert found[name].sequence == sequence and found[name].bodies == [name.encode() * 30]
            again = await ledger.write(*(write(f"e{n}", body=f"e{n}".encode() * 30) for n in range(batches)))
            assert all(ack.outcome == ("known" if ack.submission_id in found else "committed") for ack in again)


async def _write_until_it_fails(disk, config, batches: int) -> dict[str, int]:
    """So many batches, as far as they get; what was acknowledged."""
    acked = {}
    try:
        ledger = await start(disk, config)
    except OSError:
        return acked
    try:
        for number in range(batches):
            ack = (await ledger.write(write(f"e{number}", body=f"e{number}".encode() * 30)))[0]
            acked[ack.submission_id] = ack.sequence
    except LedgerError as fault:
        acked["fenced"] = fault.code == "fenced"
    finally:
        ledger.service.stop()
    return acked


async def test_a_missing_segment_refuses_the_start():
    device = medium()
    await _filled(device, batches=12, segment_bytes=2_048)
    segments = sorted(name for name in device.files if name.endswith(".seg"))
    assert len(segments) >= 3
    for missing in segments[:-1]:
        kept = device.files.pop(missing)
        with pytest.raises(LedgerError) as refused:
            await start(SimDisk(device))
        assert refused.value.code == "damaged"
        device.files[missing] = kept
    assert _recovered(device) == (23, None)


async def test_a_torn_end_refuses_the_start_where_an_empty_segment_follows():
    """A segment is complete before the next one begins: half a batch there is damage, not a batch in flight."""
    device = medium()
    await _filled(device, batches=12, segment_bytes=2_048)
    *_, before, last = sorted(name for name in device.files if name.endswith(".seg"))
    device.files[last].content[:] = bytes(len(device.files[last].content))
    assert _recovered(device)[1] is None
    content = device.files[before].content
    written = len(bytes(content).rstrip(b"\0"))
    content[written - 40 : written] = bytes(40)
    with pytest.raises(Damage, match="no whole batch begins here, but a later segment exists"):
        _recovered(device)


async def _on_disk(path, count: int = 40) -> None:
    async with running(RealDisk(path), ledger_config(segment_bytes=8_192)) as ledger:
        for start_at in range(0, count, 5):
            await ledger.write(*(write(f"e{number}", once=f"k{number}") for number in range(start_at, start_at + 5)))


async def _check_on_disk(path, count: int = 40) -> None:
    async with running(RealDisk(path), ledger_config(segment_bytes=8_192)) as ledger:
        acks = await ledger.write(*(write(f"e{number}", once=f"k{number}") for number in range(count)))
        assert [(ack.outcome, ack.sequence) for ack in acks] == [("known", number) for number in range(count)]
        assert (await ledger.write(write("x", once="k3")))[0].outcome == "lost"
        assert [entry.sequence for entry in await ledger.all()] == list(range(count))


async def test_a_missing_index_is_rebuilt(memory_path):
    await _on_disk(memory_path)
    for name in (INDEX, f"{INDEX}-wal", f"{INDEX}-shm"):
        (memory_path / name).unlink(missing_ok=True)
    await _check_on_disk(memory_path)


@pytest.mark.parametrize("damage", [b"not a database at all" * 300, b""], ids=["garbage", "empty"])
async def test_a_damaged_index_is_rebuilt(memory_path, damage):
    await _on_disk(memory_path)
    for name in (f"{INDEX}-wal", f"{INDEX}-shm"):
        (memory_path / name).unlink(missing_ok=True)
    (memory_path / INDEX).write_bytes(damage)
    await _check_on_disk(memory_path)


async def test_an_index_that_lost_rows_is_rebuilt(memory_path):
    await _on_disk(memory_path)
    with closing(sqlite3.connect(memory_path / INDEX)) as db:
        db.execute("DELETE FROM entries WHERE sequence = 39")
        db.commit()
    await _check_on_disk(memory_path)


def _spoil(path, name: str) -> None:
    """The first page of a table or look-up tree of the index is garbage."""
    with closing(sqlite3.connect(path / INDEX)) as db:
        ((page, size),) = db.execute(
            "SELECT rootpage, (SELECT * FROM pragma_page_size) FROM sqlite_master WHERE name = ?", (name,)
        )
    with (path / INDEX).open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


async def test_an_index_that_breaks_while_it_catches_up_is_rebuilt(memory_path):
    """A page that only the entries behind it need: the start does not fail for it again and again."""
    await _on_disk(memory_path, 5)
    old = (memory_path / INDEX).read_bytes()
    await _on_disk(memory_path, 40)
    (memory_path / INDEX).write_bytes(old)
    _spoil(memory_path, "names")
    await _check_on_disk(memory_path)


async def test_an_index_that_breaks_under_a_question_ends_the_process_and_is_rebuilt(memory_path):
    """The question fails, the next start has a whole index: it is not asked for ever of a broken one."""
    await _on_disk(memory_path)
    _spoil(memory_path, "by_submission")
    ledger = await start(RealDisk(memory_path), ledger_config(segment_bytes=8_192))
    with pytest.raises(sqlite3.DatabaseError):
        await ledger.lookup("nobody wrote this")
    assert (await ledger.service.failed).code == "fenced"
    ledger.service.stop()
    await _check_on_disk(memory_path)


async def test_an_index_whose_schema_is_no_text_is_rebuilt(memory_path):
    await _on_disk(memory_path)
    content = (memory_path / INDEX).read_bytes()
    at = content.index(b"CREATE TABLE names")
    (memory_path / INDEX).write_bytes(content[: at + 7] + b"\xe4" + content[at + 8 :])
    await _check_on_disk(memory_path)


async def test_an_index_that_is_behind_catches_up(memory_path):
    await _on_disk(memory_path, 5)
    old = (memory_path / INDEX).read_bytes()
    await _on_disk(memory_path, 40)
    for name in (f"{INDEX}-wal", f"{INDEX}-shm"):
        (memory_path / name).unlink(missing_ok=True)
    (memory_path / INDEX).write_bytes(old)
    await _check_on_disk(memory_path)


async def test_segments_that_end_before_the_index_refuse_the_start(memory_path):
    """What the index holds was acknowledged: a torn, cut or missing end of it is damage, not a batch in flight."""
    await _on_disk(memory_path)
    last = max((memory_path / "segments").iterdir())
    content = last.read_bytes()
    end = len(content.rstrip(b"\0"))
    for changed in (content[: end - 30] + bytes(len(content) - end + 30), content[: end // 2], bytes(len(content))):
        last.write_bytes(changed)
        with pytest.raises(LedgerError) as refused:
            open_ledger(RealDisk(memory_path), ledger_config(segment_bytes=8_192))
        assert refused.value.code == "damaged" and refused.value.facts["file"].endswith(last.name)
    last.unlink()
    with pytest.raises(LedgerError, match="missing"):
        open_ledger(RealDisk(memory_path), ledger_config(segment_bytes=8_192))
    last.write_bytes(content)
    await _check_on_disk(memory_path)


async def test_another_history_than_the_indexs_refuses_the_start(memory_path):
    await _on_disk(memory_path / "one", 4)
    async with running(RealDisk(memory_path / "two"), ledger_config(segment_bytes=8_192)) as ledger:
        for number in range(4):
            await ledger.write(write(f"other{number}"))
    (memory_path / "one" / "segments" / name_segment(0)).write_bytes(
        (memory_path / "two" / "segments" / name_segment(0)).read_bytes()
    )
    with pytest.raises(LedgerError, match="damaged"):
        open_ledger(RealDisk(memory_path / "one"), ledger_config(segment_bytes=8_192))


async def test_a_second_opener_is_refused_and_the_first_goes_on(memory_path):
    first = await start(RealDisk(memory_path))
    with pytest.raises(LedgerError, match="another process writes this ledger") as refused:
        await start(RealDisk(memory_path))
    assert refused.value.code == "rejected" and str(memory_path / "lock") in refused.value.detail
    assert (await first.write(write("a")))[0].outcome == "committed"
    first.service.stop()
    async with running(RealDisk(memory_path)) as second:
        assert [entry.submission_id for entry in await second.all()] == ["a"]


def test_a_record_in_another_format_is_refused_with_one_sentence_that_says_what_to_do(memory_path):
    path = memory_path / FIRST
    path.parent.mkdir()
    path.write_bytes(in_format(1, stored_frame(0, GENESIS, [b"entry"], []).data) + bytes(4096))
    before = path.read_bytes()
    with pytest.raises(LedgerError) as refused:
        open_ledger(RealDisk(memory_path), ledger_config())
    assert refused.value.code == "other_format"
    assert (
        str(refused.value)
        == refused.value.detail
        == (
            f"{FIRST}, byte 0: the record is in format 1, and this software reads {VERSION}; move the directory `ledger` of this home "
            "away to begin a new record, and read the old one with the software that wrote it"
        )
    )
    with pytest.raises(LedgerError, match="in format 1"):
        list(read_entries(memory_path))
    report = verify_directory(memory_path)
    assert report.fault is not None and "in format 1" in report.fault.what
    assert path.read_bytes() == before


async def test_a_damaged_first_header_refuses_the_start_also_behind_later_segments(memory_path):
    """The mask of the whole ledger stands there."""
    await _on_disk(memory_path)
    first = memory_path / FIRST
    whole = first.read_bytes()
    first.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(LedgerError) as refused:
        open_ledger(RealDisk(memory_path), ledger_config(segment_bytes=8_192))
    assert (refused.value.code, refused.value.facts["file"], refused.value.facts["byte"]) == ("damaged", FIRST, 0)
    first.write_bytes(whole)
    await _check_on_disk(memory_path)


async def test_a_full_disk_refuses_the_start_with_the_figures():
    disk = FailingDisk(SimDisk(medium()))
    disk.free = 1_000
    with pytest.raises(LedgerError) as refused:
        await start(disk)
    assert refused.value.code == "disk_full"
    assert refused.value.facts == {"free_bytes": 1_000, "needed_bytes": 69_632}
    assert disk.calls == []
