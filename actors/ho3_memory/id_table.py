"""Numbers for ids of sixteen bytes, in some twenty-five bytes each. Pure; a number means nothing elsewhere."""

from __future__ import annotations

from array import array
from hashlib import blake2b

_KEY_BYTES = 16
"""Of a uuid; and of a hash, of which no two texts have the same."""
_FEWEST = 8
_EMPTY = 0


def key_of(text: str) -> bytes:
    """A text as a key."""
    return blake2b(text.encode(), digest_size=_KEY_BYTES).digest()


class IdTable:
    """Each key once, numbered as they come: open addressing over the keys, which stand one after the other."""

    __slots__ = ("_keys", "_slots")

    def __init__(self) -> None:
        self._keys = bytearray()
        self._slots = _empty(_FEWEST)  # a number and one, where its key's hash leads

    def __len__(self) -> int:
        return len(self._keys) // _KEY_BYTES

    def key(self, number: int) -> bytes:
        """Of this number."""
        return bytes(self._keys[_KEY_BYTES * number : _KEY_BYTES * (number + 1)])

    def find(self, key: bytes) -> int | None:
        """This key's number; None: it has none yet."""
        found = self._slots[self._place(key)]
        return None if found == _EMPTY else found - 1

    def number(self, key: bytes) -> int:
        """This key's, from now on."""
        place = self._place(key)
        if (found := self._slots[place]) != _EMPTY:
            return found - 1
        self._keys += key
        self._slots[place] = len(self)
        if 3 * len(self) > 2 * len(self._slots):
            self._grow()
        return len(self) - 1

    def _place(self, key: bytes) -> int:
        """Where its number stands, or would."""
        keys, slots, last = self._keys, self._slots, len(self._slots) - 1
        place = hash(key) & last
        while (found := slots[place]) != _EMPTY and not keys.startswith(key, _KEY_BYTES * (found - 1)):
            place = (place + 1) & last
        return place

    def _grow(self) -> None:
        slots = self._slots = _empty(2 * len(self._slots))
        last = len(slots) - 1
        for number in range(len(self)):
            place = hash(self.key(number)) & last
            while slots[place] != _EMPTY:
                place = (place + 1) & last
            slots[place] = number + 1


def _empty(size: int) -> array[int]:
    return array("I", bytes(array("I").itemsize * size))
