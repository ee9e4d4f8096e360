"""The offline verifier finds every fault, and finds none where there is none."""

import shutil

import pytest

from bus.disk import RealDisk
from bus.messages.base import pack
from ledger_service.entry import decode_entry, encode_entry
from ledger_service.frame import GENESIS, build_frame, read_frame, read_header
from ledger_service.segment import segment_name
from ledger_service.verify import verify_directory
from tests.ledger_service.rig import SmallBus, SteppedClock, ledger_config, running, start, write

CONFIG = ledger_config(segment_bytes=4_096, zero_fill_chunk_bytes=2_048)


async def _ledger(path, batches: int = 6, config=CONFIG) -> None:
    async with running(RealDisk(path), config) as ledger:
        for number in range(batches):
            await ledger.write(*(write(f"e{number}{part}", bodies=[b"b" * 40, b"c" * number]) for part in "ab"))


async def test_an_undamaged_ledger_is_whole(tmp_path):
    """Counts, head and chain are those of the ledger; progress tells how far it is."""
    await _ledger(tmp_path)
    steps = []
    report = verify_directory(tmp_path, steps.append)
    assert report.ok and report.fault is None and report.tail == "clean"
    assert (report.entries, report.head) == (12, 11) and report.segments == len(list((tmp_path / "segments").iterdir()))
    assert steps == [2, 4, 6, 8, 10, 12]
    async with running(RealDisk(tmp_path), CONFIG) as ledger:
        assert report.chain == (await ledger.all())[-1].chain.hex()


async def test_an_empty_ledger_is_whole_and_no_ledger_is_a_fault(tmp_path):
    """A directory without segments is not a verified ledger."""
    async with running(RealDisk(tmp_path / "new")):
        pass
    report = verify_directory(tmp_path / "new")
    assert report.ok and (report.entries, report.head, report.chain) == (0, -1, GENESIS.hex())
    report = verify_directory(tmp_path / "nothing")
    assert not report.ok and report.fault is not None and "no ledger" in report.fault.what


@pytest.mark.timeout(600)
@pytest.mark.parametrize("bits", [1, pytest.param(8, marks=pytest.mark.slow)])
async def test_a_flipped_bit_in_every_byte_is_a_fault(tmp_path, bits):
    """Headers, entries, bodies, padding, zeros: none is accepted, and the place named is in the damaged batch."""
    await _ledger(
        tmp_path, batches=6 if bits == 8 else 4, config=ledger_config(segment_bytes=2_048, zero_fill_chunk_bytes=512)
    )
    for path in sorted((tmp_path / "segments").iterdir()):
        whole = path.read_bytes()
        with path.open("r+b") as file:
            for case in range(len(whole) * bits):
                byte, bit = case // bits, case % 8 if bits == 8 else case % 7
                file.seek(byte)
                file.write(bytes([whole[byte] ^ 1 << bit]))
                file.flush()
                report = verify_directory(tmp_path)
                assert not report.ok and report.fault is not None, (path.name, byte, bit)
                assert report.fault.file == f"segments/{path.name}" and report.fault.byte <= byte
                file.seek(byte)
                file.write(whole[byte : byte + 1])
                file.flush()
    assert verify_directory(tmp_path).ok


async def test_a_torn_tail_is_told_from_a_fault_until_it_is_recovered(tmp_path):
    """What a crash leaves after the last batch is no fault; the same with a batch behind it is."""
    await _ledger(tmp_path, batches=2, config=ledger_config())
    path = tmp_path / "segments" / segment_name(0)
    content = path.read_bytes()
    end = len(content.rstrip(b"\0"))
    path.write_bytes(content[: end - 9] + bytes(len(content) - end + 9))
    report = verify_directory(tmp_path)
    assert report.ok and report.entries == 2 and report.tail.startswith("in flight or torn")
    path.write_bytes(content[: end // 2] + bytes(20) + content[end // 2 + 20 :])
    assert not verify_directory(tmp_path).ok


async def test_missing_exchanged_and_alien_segments_are_faults(tmp_path):
    """The chain runs over all files, and each is named by its first entry."""
    await _ledger(tmp_path, batches=30)
    folder = tmp_path / "segments"
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) >= 4
    for name in names[:-1]:
        (folder / name).rename(tmp_path / "aside")
        report = verify_directory(tmp_path)
        assert not report.ok and report.fault.file == f"segments/{name}" and "missing" in report.fault.what
        (tmp_path / "aside").rename(folder / name)
    kept = (folder / names[1]).read_bytes()
    shutil.copy(folder / names[2], folder / names[1])
    assert not verify_directory(tmp_path).ok
    (folder / names[1]).write_bytes(kept)
    assert verify_directory(tmp_path).ok
    (folder / segment_name(999_999)).write_bytes(bytes(64))
    assert not verify_directory(tmp_path).ok


def _rewritten(data: bytes, change) -> bytes:
    """The first batch with changed entries and bodies, CRCs and chain made right again."""
    header = read_header(data)
    frame = read_frame(data[: header.frame_bytes], header)
    entries, bodies = change(list(frame.entries), [(body.salt, body.data) for body in frame.bodies])
    return build_frame(0, GENESIS, entries, bodies).data


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda entries, bodies: (entries, [(bodies[0][0], b"x" * 40), *bodies[1:]]), "a body is not"),
        (lambda entries, bodies: (entries, [(bytes(16), bodies[0][1]), *bodies[1:]]), "a body is not"),
        (lambda entries, bodies: (entries, bodies[:-1]), "a body is not"),
        (lambda entries, bodies: (entries, [*bodies, bodies[0]]), "no entry names"),
        (lambda entries, bodies: ([entries[0], pack([1, 2])], bodies), "not an entry"),
        (
            lambda entries, bodies: (
                [entries[0], encode_entry(decode_entry(entries[1])._replace(ledger_at_us=3))],
                bodies,
            ),
            "ledger time goes back",
        ),
    ],
)
async def test_a_forger_who_mends_every_crc_is_still_caught(tmp_path, change, what):
    """Bodies are held by their salted hashes, entries by their form and order."""
    await _ledger(tmp_path, batches=1)
    path = tmp_path / "segments" / segment_name(0)
    data = path.read_bytes()
    forged = _rewritten(data, change)
    path.write_bytes(forged + bytes(max(0, len(data) - len(forged))))
    report = verify_directory(tmp_path)
    assert not report.ok and what in report.fault.what and report.fault.sequence is not None


async def test_an_edited_entry_breaks_the_chain_of_the_next_batch(tmp_path):
    """Mending the batch's own CRCs does not help while others follow."""
    await _ledger(tmp_path, batches=2)
    path = tmp_path / "segments" / segment_name(0)
    data = path.read_bytes()

    def change(entries, bodies):
        return [encode_entry(decode_entry(entries[0])._replace(decision="X")), entries[1]], bodies

    first = read_header(data).frame_bytes
    forged = _rewritten(data, change)
    path.write_bytes(forged + data[first:])
    report = verify_directory(tmp_path)
    assert not report.ok and report.entries == 2 and report.fault.byte == len(forged)


async def test_it_works_beside_a_running_writer(tmp_path):
    """Between any two commits, and across rotation, everything acknowledged is verified."""
    ledger = await start(RealDisk(tmp_path), CONFIG, SmallBus(SteppedClock()))
    for number in range(30):
        await ledger.write(write(f"e{number}", body=bytes(300)))
        report = verify_directory(tmp_path)
        assert report.ok and report.entries == number + 1 and report.tail == "clean"
    await ledger.service.drain()
