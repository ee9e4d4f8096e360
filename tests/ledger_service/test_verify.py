"""The offline verifier finds every fault, and finds none where there is none."""

import random
import shutil
from dataclasses import replace
from itertools import product

import pytest

from hobus.bus.disk import RealDisk
from hobus.bus.errors import LedgerError
from hobus.bus.messages.base import pack
from hobus.bus.record.entry import decode_stored, encode_stored
from hobus.ledger_service import limits
from hobus.ledger_service.frame import GENESIS, read_frame, read_header
from hobus.ledger_service.index import Index
from hobus.ledger_service.opening import INDEX, open_ledger
from hobus.ledger_service.reader import read_entries
from hobus.ledger_service.segment import name_segment
from hobus.ledger_service.verify import Verifier, is_ledger, verify_directory
from tests.ledger_service.rig import SmallBus, SteppedClock, ledger_config, running, start, stored_frame, write

CONFIG = ledger_config(segment_bytes=4_096)

ONE_SEGMENT = ledger_config()


async def _ledger(path, batches: int = 6, config=CONFIG) -> None:
    async with running(RealDisk(path), config) as ledger:
        for number in range(batches):
            await ledger.write(*(write(f"e{number}{part}", bodies=[b"b" * 40, b"c" * number]) for part in "ab"))


async def test_an_undamaged_ledger_is_whole(memory_path):
    await _ledger(memory_path)
    steps = []
    report = verify_directory(memory_path, steps.append)
    assert report.ok and report.fault is None and report.tail == "clean"
    assert (report.entries, report.head) == (12, 11) and report.segments == len(
        list((memory_path / "segments").iterdir())
    )
    assert steps == [2, 4, 6, 8, 10, 12]
    async with running(RealDisk(memory_path), CONFIG) as ledger:
        assert report.chain == (await ledger.all())[-1].chain.hex()


async def test_an_empty_ledger_is_whole_and_no_ledger_is_a_fault(memory_path):
    async with running(RealDisk(memory_path / "new")):
        pass
    report = verify_directory(memory_path / "new")
    assert report.ok and (report.entries, report.head, report.chain) == (0, -1, GENESIS.hex())
    report = verify_directory(memory_path / "nothing")
    assert not report.ok and report.fault is not None and "no ledger" in report.fault.what


@pytest.mark.parametrize("every", [23, pytest.param(1, marks=pytest.mark.slow)])
async def test_a_flipped_bit_of_any_byte_is_a_fault(monkeypatch: pytest.MonkeyPatch, memory_path, every):
    """Headers, entries, bodies, padding: none is accepted; behind the last batch it is told and left to recovery.

    One bit of a byte; every bit: `python -m bench.ledger_drills`.
    """
    monkeypatch.setattr(limits, "ZERO_FILL_CHUNK_BYTES", 512)
    await _ledger(memory_path, batches=4, config=ledger_config(segment_bytes=2_048))
    paths = sorted((memory_path / "segments").iterdir())
    for path in paths:
        whole = path.read_bytes()
        committed = len(whole.rstrip(b"\0")) if path == paths[-1] else len(whole)
        with path.open("r+b") as file:
            for byte in range(0, len(whole), every):
                bit = byte % 7
                file.seek(byte)
                file.write(bytes([whole[byte] ^ 1 << bit]))
                file.flush()
                report = verify_directory(memory_path)
                assert report.ok == (byte >= committed), (path.name, byte, bit)
                if report.fault is None:
                    assert report.tail.startswith(f"torn ({byte + 1 - committed} bytes after the last whole batch")
                else:
                    assert report.fault.file == f"segments/{path.name}" and report.fault.byte <= byte
                file.seek(byte)
                file.write(whole[byte : byte + 1])
                file.flush()
    assert verify_directory(memory_path).ok


async def test_a_torn_tail_is_told_from_a_fault_until_it_is_recovered(memory_path):
    """What a crash leaves after the last batch is no fault; the same with a batch behind it is."""
    await _ledger(memory_path, batches=2, config=ledger_config())
    (memory_path / INDEX).unlink()
    path = memory_path / "segments" / name_segment(0)
    content = path.read_bytes()
    end = len(content.rstrip(b"\0"))
    path.write_bytes(content[: end - 9] + bytes(len(content) - end + 9))
    report = verify_directory(memory_path)
    assert report.ok and report.entries == 2 and report.tail.startswith("torn (")
    assert report.index == "none"
    path.write_bytes(content[: end // 2] + bytes(20) + content[end // 2 + 20 :])
    assert not verify_directory(memory_path).ok


async def test_missing_exchanged_and_alien_segments_are_faults(memory_path):
    await _ledger(memory_path, batches=30)
    folder = memory_path / "segments"
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) >= 4
    for name in names[:-1]:
        (folder / name).rename(memory_path / "aside")
        report = verify_directory(memory_path)
        assert not report.ok and report.fault.file == f"segments/{name}" and "missing" in report.fault.what
        (memory_path / "aside").rename(folder / name)
    kept = (folder / names[1]).read_bytes()
    shutil.copy(folder / names[2], folder / names[1])
    assert not verify_directory(memory_path).ok
    (folder / names[1]).write_bytes(kept)
    assert verify_directory(memory_path).ok
    (folder / name_segment(999_999)).write_bytes(bytes(64))
    assert not verify_directory(memory_path).ok


def _rewritten(data: bytes, change) -> bytes:
    """The first batch with changed entries and bodies, CRCs and chain made right again."""
    header = read_header(data)
    frame = read_frame(data[: header.frame_bytes], header, 0)
    entries, bodies = change(list(frame.entries), [(body.salt, body.data) for body in frame.bodies])
    return stored_frame(0, GENESIS, entries, bodies, mask=header.mask).data


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
                [entries[0], encode_stored(decode_stored(entries[1])._replace(ledger_at_us=3))],
                bodies,
            ),
            "ledger time goes back",
        ),
    ],
)
async def test_a_forger_who_fixes_every_crc_is_still_caught(memory_path, change, what):
    """Bodies are held by their salted hashes, entries by their form and order."""
    await _ledger(memory_path, batches=1)
    path = memory_path / "segments" / name_segment(0)
    data = path.read_bytes()
    forged = _rewritten(data, change)
    path.write_bytes(forged + bytes(max(0, len(data) - len(forged))))
    report = verify_directory(memory_path)
    assert not report.ok and what in report.fault.what and report.fault.sequence is not None


async def test_an_edited_entry_breaks_the_chain_of_the_next_batch(memory_path):
    """Mending the batch's own CRCs does not help while others follow."""
    await _ledger(memory_path, batches=2)
    path = memory_path / "segments" / name_segment(0)
    data = path.read_bytes()

    def change(entries, bodies):
        return [encode_stored(decode_stored(entries[0])._replace(decision="X")), entries[1]], bodies

    first = read_header(data).frame_bytes
    forged = _rewritten(data, change)
    path.write_bytes(forged + data[first:])
    report = verify_directory(memory_path)
    assert not report.ok and report.entries == 2 and report.fault.byte == len(forged)


async def test_it_works_beside_a_running_writer(memory_path):
    ledger = await start(RealDisk(memory_path), CONFIG, SmallBus(SteppedClock()))
    for number in range(30):
        await ledger.write(write(f"e{number}", body=bytes(300)))
        report = verify_directory(memory_path)
        assert report.ok and report.entries == number + 1 and report.tail == "clean"
    await ledger.service.drain()


async def _one_segment(path) -> tuple[bytes, int]:
    """One segment, zeros behind; its bytes and where they end."""
    await _ledger(path, batches=8, config=ONE_SEGMENT)
    whole = (path / "segments" / name_segment(0)).read_bytes()
    return whole, len(whole.rstrip(b"\0"))


@pytest.mark.parametrize("case", ["cut", "second half zeros", "empty", "deleted", "no directory"])
async def test_what_the_index_knows_and_the_segments_lack_is_a_fault(memory_path, case):
    """Acknowledged entries are missed wherever the segments end, even if they end before the first."""
    whole, end = await _one_segment(memory_path)
    path = memory_path / "segments" / name_segment(0)
    half = end // 2
    if case == "cut":
        path.write_bytes(whole[:half])
    elif case == "second half zeros":
        path.write_bytes(whole[:half] + bytes(len(whole) - half))
    elif case == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
        if case == "no directory":
            path.parent.rmdir()
    report = verify_directory(memory_path)
    kept = report.entries
    assert (kept > 0) == case.startswith(("cut", "second")) and kept < 16
    assert not report.ok and report.index == "ahead" and report.fault.sequence == kept
    assert report.fault.file == f"segments/{name_segment(0)}" and (report.fault.byte > 0) == (kept > 0)
    assert report.fault.what == (
        f"the index knows entries up to 15; the segments {f'end at {kept - 1}' if kept else 'hold none'}: "
        f"entries {kept}..15 were acknowledged and are gone"
    )
    assert not _opens(memory_path)


async def test_a_cut_between_batches_of_any_segment_is_a_fault(memory_path):
    await _ledger(memory_path, batches=30)
    first, *_, last = sorted((memory_path / "segments").iterdir())
    whole = first.read_bytes()
    first.write_bytes(whole[: whole.rfind(b"HOBUSLG1")])
    report = verify_directory(memory_path)
    assert not report.ok and report.fault.file.endswith(first.name) and "was cut" in report.fault.what
    assert report.fault.byte == whole.rfind(b"HOBUSLG1")
    first.write_bytes(whole)
    last.unlink()
    report = verify_directory(memory_path)
    assert not report.ok and report.fault.file.endswith(last.name) and "are gone" in report.fault.what


async def test_an_index_that_is_missing_garbage_or_older_is_no_fault(memory_path):
    """It is a cache: the report says what it was worth, and no file is made or changed."""
    await _ledger(memory_path, batches=2)
    older = (memory_path / INDEX).read_bytes()
    await _ledger(memory_path, batches=8)
    assert (verify_directory(memory_path).ok, verify_directory(memory_path).index) == (True, "agrees")
    for content, said in ((older, "behind"), (b"garbage" * 999, "none"), (b"", "none"), (older[:5_000], "none")):
        (memory_path / INDEX).write_bytes(content)
        before = _files(memory_path)
        report = verify_directory(memory_path)
        assert (report.ok, report.index) == (True, said) and _files(memory_path) == before
    (memory_path / INDEX).unlink()
    assert verify_directory(memory_path).index == "none" and not (memory_path / INDEX).exists()


async def test_another_history_than_the_indexs_is_a_fault(memory_path):
    await _ledger(memory_path / "one", batches=3, config=ONE_SEGMENT)
    async with running(RealDisk(memory_path / "two"), ONE_SEGMENT) as ledger:
        await ledger.write(*(write(f"other{number}") for number in range(6)))
    (memory_path / "one" / INDEX).write_bytes((memory_path / "two" / INDEX).read_bytes())
    report = verify_directory(memory_path / "one")
    assert not report.ok and report.index == "differs" and "another history" in report.fault.what
    assert not _opens(memory_path / "one")


async def test_no_segment_and_a_directory_in_its_place_are_faults_that_name_the_path(memory_path):
    (memory_path / "segments").mkdir()
    assert not is_ledger(memory_path) and "no ledger" in verify_directory(memory_path).fault.what
    (memory_path / "segments" / name_segment(0)).mkdir()
    fault = verify_directory(memory_path).fault
    assert is_ledger(memory_path) and fault.file.endswith(name_segment(0)) and "directory" in fault.what
    with pytest.raises(LedgerError, match=name_segment(0)):
        list(read_entries(memory_path))
    assert not _opens(memory_path)


@pytest.mark.parametrize("seeds", [2, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("segments", ["one", "several"])
@pytest.mark.parametrize("keeps", ["index", "older index", "no index"])
async def test_whole_is_what_the_ledger_opens(memory_path, keeps, segments, seeds):
    """Random tears, flips, cuts and strays: both give one verdict; only old segments are `verify`'s alone to read."""
    config = ONE_SEGMENT if segments == "one" else CONFIG
    home = memory_path / "home"
    await _ledger(home, batches=3, config=config)
    older = (home / INDEX).read_bytes()
    async with running(RealDisk(home), config) as ledger:
        for number in range(6):
            await ledger.write(write(f"later{number}", body=bytes([number + 1]) * 300))
    if keeps != "index":
        (home / INDEX).write_bytes(older)
    if keeps == "no index":
        (home / INDEX).unlink()
    names = sorted(path.name for path in (home / "segments").iterdir())
    verdicts = []
    for what, seed in product(_DAMAGE, range(seeds)):
        rng = random.Random(f"{what} {seed}")
        tried = memory_path / f"{what}{seed}"
        shutil.copytree(home, tried)
        name = rng.choice(names)
        path = tried / "segments" / name
        _damage(what, rng, path)
        ok = verify_directory(tried).ok
        if not is_ledger(tried):
            assert not ok and (what, keeps) == ("delete", "no index")  # nothing is left: a start makes a new one
            continue
        is_read_by_the_start = name == names[-1] or keeps == "no index"
        opens = _opens(tried)
        assert opens >= ok and (opens == ok or not is_read_by_the_start), (seed, name, what)
        if opens:
            report = verify_directory(tried)
            assert report.tail == "clean" or not ok, (seed, name, what)
        verdicts.append(ok)
        shutil.rmtree(tried)
    assert {True, False} == set(verdicts)


_DAMAGE = ("tear", "flip", "cut", "stray", "sector", "some strays", "delete")
"""Things that crashes, devices or people do to a file."""


def _damage(what: str, rng: random.Random, path) -> None:
    data = bytearray(path.read_bytes())
    end = len(data.rstrip(b"\0"))
    at = rng.randrange(max(1, end))
    if what == "tear":
        at = rng.choice([at, max(0, end - rng.randrange(1, 300))])
        data[at:] = bytes(len(data) - at)
    elif what == "flip":
        data[at] ^= 1 << rng.randrange(8)
    elif what == "cut":
        del data[rng.choice([at, end, rng.randrange(len(data))]) :]
    elif what == "sector":
        at -= at % 512
        data[at : at + 512] = bytes(512)
    elif len(data) > end and what != "delete":
        for _ in range(1 if what == "stray" else rng.randrange(2, 40)):
            data[rng.randrange(end, len(data))] = rng.randrange(1, 256)
    path.write_bytes(data)
    if what == "delete":
        path.unlink()


def _opens(path) -> bool:
    """Whether a start gets as far as accepting writes."""
    try:
        opening = open_ledger(RealDisk(path), CONFIG)
    except LedgerError:
        return False
    try:
        for _ in opening.catch_up():
            pass
    except LedgerError:
        return False
    finally:
        opening.close()
    return True


def _files(path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}


@pytest.mark.parametrize("tries", [24, pytest.param(131, marks=pytest.mark.slow)])
async def test_a_damaged_index_is_told_with_the_way_out(memory_path, tries):
    """A bit that makes it incomplete is a fault of that file; without it the record is whole."""
    ledger = await start(RealDisk(memory_path), ledger_config(), SmallBus())
    for number in range(3):
        await ledger.write(*(write(f"e{number}-{twin}", once=f"k{number}-{twin}") for twin in range(20)))
    await ledger.service.drain()
    path = memory_path / "index.sqlite"
    content = path.read_bytes()
    used = [at for at in range(4_096, len(content)) if content[at]]  # where nothing is, hardly anything can be damaged
    told = 0
    for at in used[:: len(used) // tries]:
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        report = verify_directory(memory_path)
        assert report.ok or (report.fault.file, report.index) == ("index.sqlite", "damaged") or report.index != "agrees"
        told += report.index == "damaged"
    assert told > tries // 4
    path.unlink()
    assert verify_directory(memory_path).ok


async def test_a_first_start_that_died_before_its_first_segment_left_no_damage(memory_path):
    """An index that knows of nothing is no record yet; one that knows of a segment is."""
    Index.open(str(memory_path / INDEX)).close()
    assert not is_ledger(memory_path)
    await _ledger(memory_path)
    shutil.rmtree(memory_path / "segments")
    assert is_ledger(memory_path) and not verify_directory(memory_path).ok


async def test_the_newest_part_alone_is_the_last_segment_and_that_the_others_are_there(memory_path):
    """Whole: as many entries and the same head as all of it. Damage in an earlier segment is left to a whole look."""
    path = memory_path / "ledger"
    path.mkdir()
    await _ledger(path, batches=30)
    segments = sorted((path / "segments").iterdir())
    assert len(segments) > 2
    whole, newest = verify_directory(path), verify_directory(path, newest=True)
    assert newest.ok and (newest.entries, newest.segments, newest.head, newest.chain) == (
        whole.entries, whole.segments, whole.head, whole.chain,
    )  # fmt: skip
    _flip(segments[0], 200)
    assert verify_directory(path, newest=True).ok and not verify_directory(path).ok
    _flip(segments[0], 200)
    _flip(segments[-1], 200)
    damaged = verify_directory(path, newest=True)
    assert damaged.fault is not None and damaged.fault.file.endswith(segments[-1].name)
    _flip(segments[-1], 200)
    segments[1].rename(memory_path / "aside")
    missing = verify_directory(path, newest=True)
    assert missing.fault is not None and "the segment is missing" in missing.fault.what


async def test_the_newest_part_of_a_record_without_an_index_is_read_by_what_it_says(memory_path):
    """The chain begins with what its first batch names; an empty ledger and none are as before."""
    path = memory_path
    await _ledger(path, batches=30)
    for file in path.glob("index.sqlite*"):
        file.unlink()
    whole, newest = verify_directory(path), verify_directory(path, newest=True)
    assert newest.ok and newest.index == "none" and newest.chain == whole.chain
    assert not verify_directory(memory_path / "nowhere", newest=True).ok


def _flip(path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


async def test_a_check_goes_on_where_the_last_one_ended(memory_path):
    verifier = Verifier()
    heads = []
    for _ in range(4):
        async with running(RealDisk(memory_path), CONFIG) as ledger:
            number = len(await ledger.all())
            await ledger.write(*(write(f"f{number}{n}", bodies=[b"x" * 700]) for n in range(3)))
        report, everything = verifier(memory_path), verify_directory(memory_path)
        assert report == replace(everything, read_from=heads[-1] + 1 if heads else 0)
        heads.append(report.head)
    assert verify_directory(memory_path).segments > 2
    assert verifier(memory_path).read_from == heads[-1] + 1
    assert Verifier()(memory_path).read_from == 0


async def test_a_check_that_goes_on_finds_what_was_changed_behind_it_and_before_it(memory_path):
    """A later batch, and a complete segment whose file is another one since; what it found damaged is read again."""
    await _ledger(memory_path, batches=12)
    verifier = Verifier()
    assert verifier(memory_path).ok
    first = memory_path / "segments" / name_segment(0)
    data = first.read_bytes()
    first.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    for _ in range(2):
        report = verifier(memory_path)
        assert not report.ok and report.fault is not None and report.fault.file.endswith(name_segment(0))
    first.write_bytes(data)
    assert verifier(memory_path).ok and verifier(memory_path).read_from == 24
    first.unlink()
    assert not verifier(memory_path).ok
