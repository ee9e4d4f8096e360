"""Records on a process's own disk: torn tails, damage, hand-over, a full disk."""

from __future__ import annotations

import asyncio

import pytest

from hobus.bus.errors import LedgerError, MessageTooLarge
from hobus.bus.messages.ledger import Ack, WriteEntry
from hobus.bus.promise import Promise
from hobus.bus.sim.disk import SimDisk, SimMedium
from hobus.bus.spool import RecordKeeper, Spool, pack_spool_frame, parse

PATH = "host.spool"
START = b"\0" * 32


def entry(number: int) -> WriteEntry:
    return WriteEntry(
        parents=[],
        submission_id=f"E:{number}",
        stream="governance",
        event_type="E",
        at_us=number,
        bodies=[b"x" * number],
    )


def framed(count: int) -> tuple[bytes, list[int]]:
    """The bytes of `count` frames, and where each ends."""
    data, chain, ends = b"", START, [0]
    for number in range(count):
        one, chain = pack_spool_frame(entry(number), chain)
        data += one
        ends.append(len(data))
    return data, ends


def test_a_file_torn_at_any_byte_gives_its_whole_frames_and_no_damage():
    data, ends = framed(3)
    for size in range(len(data) + 1):
        content = parse(data[:size])
        whole = max(index for index, end in enumerate(ends) if end <= size)
        assert (len(content.entries), content.end, content.is_damaged) == (whole, ends[whole], False)


def test_a_flipped_bit_anywhere_is_never_read_as_a_record():
    """Whatever byte changes, what is read is a true prefix of what was written."""
    data, _ends = framed(3)
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x10
        content = parse(bytes(changed))
        assert list(content.entries) == [entry(number) for number in range(len(content.entries))]
        assert len(content.entries) < 3


@pytest.mark.parametrize("count", [1, 3])
def test_a_flipped_bit_is_damage_and_never_a_torn_tail(count):
    """Wherever it stands, in the last frame too: what stands there was whole, and is set aside."""
    data, _ends = framed(count)
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        assert parse(bytes(changed)).is_damaged, bit


def test_what_a_user_wrote_makes_no_torn_frame_look_like_damage():
    """A text that holds the frame's own magic, or a whole frame, cut at every byte."""
    inner, _chain = pack_spool_frame(entry(3), START)
    told = entry(1)._replace(bodies=[b"HSP6 " + inner + b" HSP6", inner])
    data, _chain = pack_spool_frame(told, START)
    for size in range(len(data)):
        assert not parse(data[:size]).is_damaged, size


def test_a_frame_whose_bytes_never_arrived_is_set_aside():
    """Only the size of the file had reached the device: nobody was told that this append had happened."""
    data, ends = framed(2)
    content = parse(data[: ends[1]] + bytes(len(data) - ends[1]))
    assert (len(content.entries), content.is_damaged) == (1, True)


def test_frames_in_another_order_are_damage():
    """The chain ties each frame to those before it."""
    data, ends = framed(3)
    swapped = data[: ends[1]] + data[ends[2] :] + data[ends[1] : ends[2]]
    content = parse(swapped)
    assert len(content.entries) == 1 and content.is_damaged


def test_what_was_appended_is_there_after_a_power_cut():
    medium = SimMedium(1 << 20)
    spool = Spool(SimDisk(medium), PATH)
    assert spool.open() == []
    spool.append([entry(1), entry(2)])
    medium.crash()
    again = Spool(SimDisk(medium), PATH)
    assert again.open() == [entry(1), entry(2)]
    again.append([entry(2), entry(3)])
    third = Spool(SimDisk(medium), PATH)
    assert third.open() == [entry(1), entry(2), entry(3)]


def test_a_torn_tail_is_cut_off_and_written_over():
    medium = SimMedium(1 << 20)
    Spool(SimDisk(medium), PATH).append([entry(1)])
    handle = SimDisk(medium).open(PATH)
    whole = handle.size()
    handle.append(b"HSP6\0\0")
    spool = Spool(SimDisk(medium), PATH)
    assert spool.open() == [entry(1)] and handle.size() == whole
    spool.append([entry(2)])
    assert Spool(SimDisk(medium), PATH).open() == [entry(1), entry(2)]


def test_a_damaged_file_is_set_aside_and_its_good_part_kept():
    medium = SimMedium(1 << 20)
    disk = SimDisk(medium)
    Spool(disk, PATH).append([entry(1), entry(2), entry(3)])
    first, _chain = pack_spool_frame(entry(1), START)
    disk.open(PATH).write_at(len(first) + 60, b"\xff\xff")
    spool = Spool(disk, PATH)
    assert spool.open() == [entry(1)]
    assert disk.exists(f"{PATH}.damaged-1")
    assert Spool(disk, PATH).open() == [entry(1)]


def test_a_file_of_another_version_is_set_aside_whole_under_a_name_that_says_so():
    disk = SimDisk(SimMedium(1 << 20))
    Spool(disk, PATH).append([entry(1)])
    disk.open(PATH).write_at(0, b"HSP4")
    size = disk.open(PATH).size()
    assert Spool(disk, PATH).open() == []
    assert disk.open(f"{PATH}.other-format-1").size() == size
    assert not disk.exists(f"{PATH}.damaged-1") and not disk.exists(PATH)


def test_the_last_entry_that_reaches_the_ledger_removes_the_file():
    disk = SimDisk(SimMedium(1 << 20))
    spool = Spool(disk, PATH)
    spool.append([entry(1), entry(2)])
    spool.forget("E:1")
    assert disk.exists(PATH) and spool.waiting == [entry(2)]
    spool.forget("E:2")
    assert not disk.exists(PATH)
    spool.append([entry(3)])
    assert Spool(disk, PATH).open() == [entry(3)]


def test_a_full_disk_keeps_nothing_half():
    medium = SimMedium(1 << 20)
    spool = Spool(SimDisk(medium), PATH)
    spool.append([entry(1)])
    medium.capacity_bytes = 0
    with pytest.raises(OSError, match="space"):
        spool.append([entry(2)])
    medium.capacity_bytes = 1 << 20
    assert spool.waiting == [entry(1)]
    spool.append([entry(3)])
    assert Spool(SimDisk(medium), PATH).open() == [entry(1), entry(3)]


class Ledger:
    """Takes writes; answers when the test says so."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.promises: list[Promise[list[Ack]]] = []
        self.is_full = False

    def submit(
        self,
        entries: list[WriteEntry],
        *,
        trace: str = "",
        urgent: bool = False,
        at_once: bool = False,
        follows: str = "",
    ) -> Promise[list[Ack]]:
        if self.is_full:
            raise LedgerError("busy", "full", retryable=True)
        self.written += [entry.submission_id for entry in entries]
        self.promises.append(Promise())
        return self.promises[-1]

    def refuse(self, fault: Exception) -> None:
        for promise in [*self.promises]:
            promise.settle(fault)

    def acknowledge(self) -> None:
        for promise in [*self.promises]:
            promise.settle([Ack(outcome="committed", sequence=1, submission_id="x")])


def keeper(ledger: Ledger, disk: SimDisk) -> RecordKeeper:
    """A keeper that spools at the next turn of the loop."""
    return RecordKeeper(ledger, Spool(disk, PATH), spool_after_s=0.0, retry_s=1000.0)


async def turns(count: int = 5) -> None:
    """Lets the loop turn a few times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_silent_ledger_makes_kept_records_spool_and_its_answer_removes_them():
    """Kept records go to disk when no ack comes, others do not; acks empty the disk."""
    ledger, disk = Ledger(), SimDisk(SimMedium(1 << 20))
    kept = keeper(ledger, disk)
    kept.submit(entry(1), keep=True)
    kept.submit(entry(2), keep=False)
    await turns()
    assert kept.spooled == 1
    ledger.acknowledge()
    await turns()
    assert kept.spooled == 0 and not disk.exists(PATH)


async def test_an_answer_in_time_spools_nothing():
    ledger, disk = Ledger(), SimDisk(SimMedium(1 << 20))
    kept = RecordKeeper(ledger, Spool(disk, PATH), spool_after_s=1000.0, retry_s=1000.0)
    kept.submit(entry(1), keep=True)
    ledger.acknowledge()
    await turns()
    assert kept.spooled == 0 and not disk.exists(PATH)


async def test_what_the_client_could_not_take_goes_in_from_disk_when_the_ledger_answers_again():
    """A full client loses nothing: the next ack brings the spooled record along, once."""
    ledger, disk = Ledger(), SimDisk(SimMedium(1 << 20))
    kept = keeper(ledger, disk)
    kept.submit(entry(1), keep=False)
    ledger.is_full = True
    kept.submit(entry(2), keep=True)
    await turns()
    assert kept.spooled == 1 and ledger.written == ["E:1"]
    ledger.is_full = False
    ledger.acknowledge()
    await turns()
    assert ledger.written == ["E:1", "E:2"]
    ledger.acknowledge()
    await turns()
    assert kept.spooled == 0


async def test_a_disk_that_fails_does_not_stop_the_process():
    ledger, medium = Ledger(), SimMedium(1 << 20)
    kept = keeper(ledger, SimDisk(medium))
    medium.capacity_bytes = 0
    kept.submit(entry(1), keep=True)
    await turns()
    assert kept.spooled == 0
    medium.capacity_bytes = 1 << 20
    await turns()
    assert kept.spooled == 1


async def test_what_a_full_ledger_refused_is_handed_over_again_without_another_ack():
    """A kept record that the ledger could not take goes in by itself, and its promise then has the ack."""
    ledger, disk = Ledger(), SimDisk(SimMedium(1 << 20))
    kept = RecordKeeper(ledger, Spool(disk, PATH), spool_after_s=0.0, retry_s=0.0)
    decided = kept.submit(entry(1), keep=True)
    for tries in range(2, 4):
        ledger.refuse(LedgerError("disk_full", "no space"))
        await turns()
        assert (len(ledger.written), kept.spooled, decided.done()) == (tries, 1, False)
    ledger.acknowledge()
    await turns()
    assert decided.result()[0].is_first and kept.spooled == 0 and not disk.exists(PATH)
    await turns()
    assert ledger.written == ["E:1"] * 3


async def test_what_a_full_ledger_refused_is_handed_over_ahead_of_what_is_urgent():
    """There is space again before the next try: the record must not hold a later call without an earlier one's end."""
    ledger = Ledger()
    kept = RecordKeeper(ledger, Spool(SimDisk(SimMedium(1 << 20)), PATH), spool_after_s=0.0, retry_s=1000.0)
    kept.submit(entry(1), keep=True)
    ledger.refuse(LedgerError("disk_full", "no space"))
    await turns()
    kept.submit(entry(2), keep=False, urgent=True)
    kept.submit(entry(3), keep=False, urgent=True)
    assert ledger.written == ["E:1", "E:1", "E:2", "E:3"]


async def test_what_follows_a_spooled_record_is_handed_over_behind_it():
    """A full ledger takes neither; once there is space the later one does not come first."""
    ledger = Ledger()
    kept = RecordKeeper(ledger, Spool(SimDisk(SimMedium(1 << 20)), PATH), spool_after_s=0.0, retry_s=0.0)
    kept.submit(entry(1), keep=False)
    kept.spool_now(entry(1))
    ledger.refuse(LedgerError("disk_full", "no space"))
    decided = kept.submit_and_spool(entry(2), behind="E:1")
    await turns()
    assert ledger.written == ["E:1", "E:1"] and kept.spooled == 2
    ledger.acknowledge()
    await turns()
    assert ledger.written == ["E:1", "E:1", "E:2"] and kept.spooled == 1
    ledger.acknowledge()
    await turns()
    assert decided.result()[0].is_first and kept.spooled == 0


async def test_a_record_that_waits_with_the_client_is_not_handed_over_twice():
    """The ledger is silent: the client delivers what it holds, and the timer adds nothing."""
    ledger = Ledger()
    kept = RecordKeeper(ledger, Spool(SimDisk(SimMedium(1 << 20)), PATH), spool_after_s=0.0, retry_s=0.0)
    kept.submit(entry(1), keep=True)
    kept.submit(entry(2), keep=True)
    await turns()
    kept.spool_now(entry(2))
    await turns()
    assert ledger.written == ["E:1", "E:2"] and kept.spooled == 2


async def test_a_record_over_the_limit_is_given_up_and_its_writer_told():
    """No later try can succeed: neither memory nor disk keeps it, and its promise has the fault."""
    ledger, disk = Ledger(), SimDisk(SimMedium(1 << 20))
    kept = RecordKeeper(ledger, Spool(disk, PATH), spool_after_s=0.0, retry_s=0.0)
    decided = kept.submit(entry(1), keep=True)
    await turns()
    ledger.refuse(MessageTooLarge("too_large", "9 of 8 bytes"))
    await turns()
    assert isinstance(decided.exception(), MessageTooLarge)
    assert ledger.written == ["E:1"] and kept.spooled == 0 and not disk.exists(PATH)


async def test_a_record_for_a_disk_that_fails_is_kept_in_memory():
    """`submit_and_spool` never raises for the disk; the record goes there when it can."""
    ledger, medium = Ledger(), SimMedium(1 << 20)
    kept = keeper(ledger, SimDisk(medium))
    medium.capacity_bytes = 0
    kept.submit_and_spool(entry(1))
    assert kept.spooled == 0
    medium.capacity_bytes = 1 << 20
    await turns()
    assert kept.spooled == 1
