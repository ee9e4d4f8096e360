"""What keeps a stored batch from looking like one that never arrived: 16 bytes of each sector are masked. Pure.

A sector that a crash kept from the device holds the zeros that were there before. So that nothing a writer can say
looks like that, the last 16 bytes of each sector of a batch's content are stored XORed with the ledger's mask: bytes
that are drawn once per ledger, stand in each header and are told to nobody. Content that gives such zeros, or reads as
a batch of its own, would have to guess them.
"""

from __future__ import annotations

from struct import Struct
from sys import byteorder

MASK_BYTES = 16
SECTOR_BYTES = 512
ALIGNMENT = 8
"""Batches begin and end at such bytes of a file, so masked words never lie across their borders."""

_WORDS = Struct("=QQ")
_INSTEAD_OF_ZERO = 0xA5
_WORD_BY_WORD_MAX = 16
"""Sectors; beyond so many the words are XORed together. Only speed depends on it."""


def mask_of(drawn: bytes) -> bytes:
    """Make a mask of 16 drawn bytes; none of its bytes is zero, so that it changes each one that it meets."""
    return bytes(byte or _INSTEAD_OF_ZERO for byte in drawn)


def apply_mask(buffer: bytearray, at: int, mask: bytes, *, start: int = 0, end: int | None = None) -> None:
    """Mask, or unmask, what of [start, end) in the buffer is due; the buffer begins at byte `at` of the file.

    `at`, both ends and the buffer's length are multiples of 8.
    """
    words = memoryview(buffer).cast("Q")
    last = len(words) if end is None else end // ALIGNMENT
    per_sector = SECTOR_BYTES // ALIGNMENT
    first = (SECTOR_BYTES - MASK_BYTES - at) // ALIGNMENT
    begin = start // ALIGNMENT
    for number, key in enumerate(_WORDS.unpack(mask)):
        due = range(begin + (first + number - begin) % per_sector, last, per_sector)
        if len(due) <= _WORD_BY_WORD_MAX:
            for word in due:
                words[word] ^= key
        else:
            share = words[due.start : last : per_sector]
            share[:] = memoryview(_xor_all(share.tobytes(), key)).cast("Q")


def _xor_all(words: bytes, key: int) -> bytes:
    """XOR all words as one number: a loop over the words of 8 MB takes some fifteen times as long."""
    keys = key.to_bytes(ALIGNMENT, byteorder) * (len(words) // ALIGNMENT)
    return (int.from_bytes(words, byteorder) ^ int.from_bytes(keys, byteorder)).to_bytes(len(words), byteorder)


def unmask(stored: bytes, at: int, mask: bytes) -> memoryview:
    """Return content as it was given; `stored` is read at any byte `at` of the file, within the content of one batch.

    It reaches from a multiple of 8 to one: `aligned` says which.
    """
    buffer = bytearray(stored)
    apply_mask(buffer, at, mask)
    return memoryview(buffer)


def align(at: int, size: int) -> tuple[int, int]:
    """Return the smallest range (offset, size) of whole words around these bytes."""
    start = at // ALIGNMENT * ALIGNMENT
    return start, -(-(at + size) // ALIGNMENT) * ALIGNMENT - start
