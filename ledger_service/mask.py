"""What keeps a stored batch from looking like one that never arrived: 16 bytes of each sector are masked. Pure.

A sector that a crash kept from the device holds the zeros that were there before. So that nothing a writer can say
looks like that, the last 16 bytes of each sector of a batch's content are stored XORed with the ledger's mask: bytes
that are drawn once per ledger, stand in each header and are told to nobody. Content that gives such zeros, or reads as
a batch of its own, would have to guess them.
"""

from __future__ import annotations

from struct import Struct

MASK_BYTES = 16
SECTOR_BYTES = 512
ALIGNMENT = 8
"""Batches begin and end at such bytes of a file, so masked words never lie across their borders."""

_WORDS = Struct("=QQ")
_INSTEAD_OF_ZERO = 0xA5


def mask_of(drawn: bytes) -> bytes:
    """A mask out of 16 drawn bytes; none of its bytes is zero, so that it changes each one that it meets."""
    return bytes(byte or _INSTEAD_OF_ZERO for byte in drawn)


def apply_mask(buffer: bytearray, at: int, mask: bytes, *, start: int = 0, end: int | None = None) -> None:
    """Masks, or unmasks, what of [start, end) in the buffer is due; the buffer begins at byte `at` of the file.

    `at`, both ends and the buffer's length are multiples of 8.
    """
    words = memoryview(buffer).cast("Q")
    last = len(words) if end is None else end // ALIGNMENT
    per_sector = SECTOR_BYTES // ALIGNMENT
    first = (SECTOR_BYTES - MASK_BYTES - at) // ALIGNMENT
    for number, key in enumerate(_WORDS.unpack(mask)):
        begin = start // ALIGNMENT
        begin += (first + number - begin) % per_sector
        for word in range(begin, last, per_sector):
            words[word] ^= key


def unmasked(stored: bytes, at: int, mask: bytes) -> bytes:
    """Content as it was given; `stored` is read at any byte `at` of the file, within the content of one batch.

    It reaches from a multiple of 8 to one: `aligned` says which.
    """
    buffer = bytearray(stored)
    apply_mask(buffer, at, mask)
    return bytes(buffer)


def aligned(at: int, size: int) -> tuple[int, int]:
    """The smallest range (offset, size) of whole words around these bytes."""
    start = at // ALIGNMENT * ALIGNMENT
    return start, -(-(at + size) // ALIGNMENT) * ALIGNMENT - start
