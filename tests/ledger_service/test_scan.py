"""A torn last batch is told from damage."""

import random

import pytest

from hobus.ledger_service.frame import GENESIS, HEADER_BYTES
from hobus.ledger_service.mask import SECTOR_BYTES
from hobus.ledger_service.scan import Damage, SegmentTail, Whole, read_next_whole
from hobus.ledger_service.source import Source
from tests.ledger_service.rig import MASK, stored_frame

pytestmark = pytest.mark.slow

SALT = bytes(range(1, 17))


def _source(data: bytes) -> Source:
    return Source("x.seg", lambda offset, size: data[offset : offset + size], lambda: len(data))


def _frames(count: int, body_bytes: int = 900) -> list[bytes]:
    chain, frames = GENESIS, []
    for number in range(count):
        noise = random.Random(number)
        entries = [noise.randbytes(60).replace(b"\0", b"z") for _ in range(2)]
        body = noise.randbytes(body_bytes).replace(b"\0", b"b")
        built = stored_frame(number * 2, chain, entries, [(SALT, body)], at=sum(map(len, frames)))
        chain = built.chains[-1]
        frames.append(bytes(built.data))
    return frames


def _walk(data: bytes) -> tuple[int, SegmentTail]:
    """Number of whole frames, and the tail."""
    source = _source(data)
    at, sequence, chain, count = 0, 0, GENESIS, 0
    while isinstance(found := read_next_whole(source, at, sequence, chain), Whole):
        at, sequence, chain, count = found.end, sequence + 2, found.chains[-1], count + 1
    return count, found


FRAMES = _frames(3)
START = len(FRAMES[0]) + len(FRAMES[1])
WHOLE = b"".join(FRAMES)
ZEROS = bytes(2048)


def test_whole_frames_then_zeros_are_clean():
    assert _walk(WHOLE + ZEROS) == (3, SegmentTail("clean", len(WHOLE), len(WHOLE)))
    assert _walk(WHOLE) == (3, SegmentTail("clean", len(WHOLE), len(WHOLE)))


@pytest.mark.parametrize("fill", [ZEROS, b""], ids=["zero-filled", "cut"])
def test_a_tear_at_every_byte_of_the_last_batch_is_torn(fill):
    for end in range(START + 1, len(WHOLE)):
        data = WHOLE[:end] + (bytes(len(WHOLE) - end) + fill if fill else b"")
        count, tail = _walk(data)
        assert (count, tail.kind, tail.at) == (2, "torn", START), end
        assert START < tail.end <= end


def test_any_missing_sectors_of_the_last_batch_are_torn():
    """Sectors of one write land in any order: every subset of them that is not all of them is a legal crash."""
    sectors = range(START // SECTOR_BYTES, (len(WHOLE) - 1) // SECTOR_BYTES + 1)
    assert len(sectors) >= 3
    for subset in range(1, 2 ** len(sectors)):
        data = bytearray(WHOLE + ZEROS)
        for number, sector in enumerate(sectors):
            if subset >> number & 1:
                start, end = max(START, sector * SECTOR_BYTES), (sector + 1) * SECTOR_BYTES
                data[start:end] = bytes(end - start)
        count, tail = _walk(bytes(data))
        assert count == 2 and tail.kind == ("clean" if subset == 2 ** len(sectors) - 1 else "torn"), subset


def test_a_flipped_bit_is_damage_wherever_it_is():
    """Also in the last batch: a device does not tear a write that way."""
    for byte in range(len(WHOLE)):
        data = bytearray(WHOLE + ZEROS)
        data[byte] ^= 1 << byte % 8
        with pytest.raises(Damage) as damage:
            _walk(bytes(data))
        assert damage.value.file == "x.seg"
        assert damage.value.byte <= byte


def test_a_missing_sector_before_a_good_batch_is_damage():
    """Only the last batch can have been in flight."""
    for sector in range(START // SECTOR_BYTES):
        data = bytearray(WHOLE + ZEROS)
        data[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES] = bytes(SECTOR_BYTES)
        with pytest.raises(Damage):
            _walk(bytes(data))


def test_a_batch_that_does_not_continue_the_chain_is_damage():
    first, second, third = FRAMES
    alien = bytes(stored_frame(4, bytes(31) + b"\1", [b"alien"], []).data)
    for data in (first + third, first + first + second, second + first + third, first + second + alien):
        with pytest.raises(Damage):
            _walk(data + ZEROS)


def test_a_few_bytes_beyond_the_end_are_strays_not_a_write():
    """A bit that flipped in the zeros is told from a batch that was torn after its first bytes."""
    for distance in (0, 5, HEADER_BYTES - 1, 300, 2000):
        data = bytearray(WHOLE + ZEROS)
        data[len(WHOLE) + distance] = 0x20
        count, tail = _walk(bytes(data))
        assert (count, tail.kind) == (3, "stray"), distance


ZERO_BODY = [(SALT, bytes(1900))]
HIDING = {
    "body": ([b"entry" * 30], ZERO_BODY),
    "many bodies": ([b"entry" * 30], [(SALT, bytes(300)) for _ in range(6)]),
    "entry": ([bytes(1900), bytes(600)], []),  # an entry of thousands of empty bodies has such a run
    "all": ([bytes(700), bytes(1)], [(bytes(16), bytes(1100)), (bytes(16), b"")]),
}
"""Entries and bodies that are zeros wherever a writer can have zeros."""


@pytest.mark.parametrize("every", [43, pytest.param(9, marks=pytest.mark.slow)])
@pytest.mark.parametrize("at", [0, 392, 504])
@pytest.mark.parametrize("what", HIDING)
def test_a_flipped_bit_of_a_batch_of_zeros_is_damage(what, at, every):
    """No content looks like a sector that never arrived, wherever the batch lies; `bench.ledger_drills`: every bit."""
    entries, bodies = HIDING[what]
    frame = stored_frame(0, GENESIS, entries, bodies, at=at).data
    before = b"\x11" * at
    data = bytearray(before + frame + ZEROS)
    source = Source("x.seg", lambda offset, size: bytes(data[offset : offset + size]), lambda: len(data), MASK)
    header, end = (at + HEADER_BYTES) * 8, (at + len(frame)) * 8
    for bit in (*range(at * 8, header, 9), *range(header, end, every)):
        data[bit // 8] ^= 1 << bit % 8
        source.refresh()
        with pytest.raises(Damage):
            read_next_whole(source, at, 0, GENESIS)
        data[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", HIDING)
def test_a_torn_batch_of_zeros_is_torn(what, every):
    entries, bodies = HIDING[what]
    frame = bytes(stored_frame(0, GENESIS, entries, bodies, at=8).data)
    stored = bytes(8) + frame
    ends = (*range(9, HEADER_BYTES + 16), *range(HEADER_BYTES + 16, len(stored), every))
    states = [stored[:end] + bytes(len(stored) - end) for end in ends]
    sectors = range(0, len(stored), SECTOR_BYTES)
    for subset in range(1, 2 ** len(sectors) - 1):
        kept = bytearray(stored)
        for number, start in enumerate(sectors):
            if subset >> number & 1:
                kept[start : start + SECTOR_BYTES] = bytes(len(kept[start : start + SECTOR_BYTES]))
        states.append(bytes(kept))
    for state in states:
        tail = read_next_whole(_source(state + ZEROS), 8, 0, GENESIS)
        assert isinstance(tail, SegmentTail) and tail.kind in ("torn", "stray")
        assert tail.end == len(state.rstrip(b"\0"))


def test_a_body_that_reads_as_a_batch_does_not_make_a_torn_one_look_damaged():
    """A batch whose header never arrived, with a forged batch in its body: what was torn is set aside, not refused."""
    forged = bytes(stored_frame(900, GENESIS, [b"forged"], [], mask=bytes(range(1, 17))).data)
    first = stored_frame(0, GENESIS, [b"first"], [])
    at = len(first.data)
    second = stored_frame(1, first.chains[-1], [b"second"], [(SALT, bytes(7) + (forged + bytes(8)) * 20)], at=at)
    stored = bytearray(first.data + second.data)
    lost = slice(at, SECTOR_BYTES)
    stored[lost] = bytes(SECTOR_BYTES - at)
    source = _source(bytes(stored + ZEROS))
    whole = read_next_whole(source, 0, 0, GENESIS)
    assert isinstance(whole, Whole)
    tail = read_next_whole(source, whole.end, 1, whole.chains[-1])
    assert isinstance(tail, SegmentTail) and tail.kind == "torn"


def test_a_batch_of_another_ledger_is_damage():
    first = stored_frame(0, GENESIS, [b"first"], [])
    at = len(first.data)
    alien = stored_frame(1, first.chains[-1], [b"second"], [], at=at, mask=bytes(range(1, 17)))
    source = _source(bytes(first.data + alien.data + ZEROS))
    whole = read_next_whole(source, 0, 0, GENESIS)
    assert isinstance(whole, Whole)
    with pytest.raises(Damage, match="another ledger"):
        read_next_whole(source, whole.end, 1, whole.chains[-1])
