"""What of a stored batch is masked."""

from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from hobus.ledger_service.mask import ALIGNMENT, MASK_BYTES, SECTOR_BYTES, align, apply_mask, mask_of, unmask

SECTORS_MAX = 20
WORDS = st.integers(0, SECTORS_MAX * SECTOR_BYTES // ALIGNMENT)
MASK = st.binary(min_size=MASK_BYTES, max_size=MASK_BYTES).map(mask_of)


def _plainly(data: bytes, at: int, mask: bytes, start: int, end: int) -> bytes:
    """The definition, byte by byte."""
    share_at = SECTOR_BYTES - MASK_BYTES
    return bytes(
        byte ^ mask[(at + number) % SECTOR_BYTES - share_at]
        if start <= number < end and (at + number) % SECTOR_BYTES >= share_at
        else byte
        for number, byte in enumerate(data)
    )


@given(st.randoms(use_true_random=False), WORDS, st.tuples(WORDS, WORDS), st.integers(0, 10**6), MASK)
@example(Random(1), SECTORS_MAX * 64, (0, SECTORS_MAX * 64), 0, bytes(range(1, 17)))
def test_the_last_sixteen_bytes_of_each_sector_are_masked_and_nothing_else(draw, size, ends, at, mask):
    start, end = sorted(min(end, size) for end in ends)
    data, at = draw.randbytes(size * ALIGNMENT), at * ALIGNMENT
    buffer = bytearray(data)
    apply_mask(buffer, at, mask, start=start * ALIGNMENT, end=end * ALIGNMENT)
    assert buffer == _plainly(data, at, mask, start * ALIGNMENT, end * ALIGNMENT)
    apply_mask(buffer, at, mask, start=start * ALIGNMENT, end=end * ALIGNMENT)
    assert buffer == data


@given(st.integers(0, 3 * SECTOR_BYTES), st.integers(0, 2 * SECTOR_BYTES), MASK)
def test_a_part_of_a_batch_is_unmasked_wherever_it_lies(at, size, mask):
    whole = bytes(8 * SECTOR_BYTES)
    stored = _plainly(whole, 0, mask, 0, len(whole))
    begin, wanted = align(at, size)
    assert unmask(stored[begin : begin + wanted], begin, mask)[at - begin : at - begin + size] == bytes(size)
