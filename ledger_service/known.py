"""What the index may hold, as a Bloom filter: whoever brings a new id or once key is not looked up on disk for it.

"Not here" is exact as soon as every hash of the index was added; "perhaps here" is for the index to answer. Two bits of
a key's own 64-bit hash stand for it, so the filter never grows: fuller, it answers less often.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable


class Known:
    """At most every key that was added, and a few others."""

    def __init__(self, size_bytes: int) -> None:
        # Of the machine's own pages: what no key came to is neither zeroed nor held.
        self._bits = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE)
        self._size = size_bytes * 8

    def add(self, hashes: Iterable[int]) -> None:
        """From now on these are perhaps here."""
        bits, size = self._bits, self._size
        for value in hashes:
            one, other = value % size, (value >> 32) % size
            bits[one >> 3] |= 1 << (one & 7)
            bits[other >> 3] |= 1 << (other & 7)

    def may_hold(self, value: int) -> bool:
        """False: it was never added."""
        one, other = value % self._size, (value >> 32) % self._size
        bits = self._bits
        return bool(bits[one >> 3] >> (one & 7) & 1 and bits[other >> 3] >> (other & 7) & 1)
