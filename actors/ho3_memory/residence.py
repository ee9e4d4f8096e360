"""What of memory is in RAM: as much as the configuration allows, what was used last; the rest lies in the spill file.

Pure but for that file. Values have numbers, which stay; a value that is needed is fetched, and for it what was not
used for longest goes out. What goes out is written only if it is not there already. A write that fails leaves the value
in RAM; a value that cannot be read back ends this process, which starts anew from the record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import Generic, Protocol, TypeVar

from hobus.actors.ho3_memory.spill_file import SpillFile, SpillUnreadable

_NUMBER_BITS = 32
_NOWHERE = -1
_RETRY_SHARE = 8
"""After a write that failed the next one is tried once this part of the budget has come on top."""


class Spillable(ABC):
    """A value that can go out and come back; whoever has changed it says so by `is_changed`, and tells its `Values`."""

    __slots__ = ("counted_bytes", "is_changed")

    def __init__(self) -> None:
        self.counted_bytes = 0  # as its residence has it
        self.is_changed = True  # since it was written last

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """What it takes in RAM, about."""

    @abstractmethod
    def packed(self) -> bytes:
        """All of it."""


V = TypeVar("V", bound=Spillable)


class _Kind(Protocol):
    """All values of one kind."""

    def write(self, key: int, value: Spillable) -> None: ...


class Residence:
    """All values of one process, whatever their kind; the longest unused first."""

    def __init__(self, bytes_max: float = inf, file: SpillFile | None = None) -> None:
        """Without a file everything stays."""
        self._bytes_max = self._limit = bytes_max if file is not None else inf
        self._file = file
        self._kinds: list[_Kind] = []
        self.here: OrderedDict[int, Spillable] = OrderedDict()
        """The values in RAM, by key."""
        self.resident_bytes = 0
        """Of all that is in RAM, as the values estimate it."""
        self.failed_writes = 0
        """Writes of the spill file that failed."""

    @property
    def spilled_bytes(self) -> int:
        """Size of the spill file."""
        return 0 if self._file is None else self._file.size_bytes

    @property
    def fault(self) -> SpillUnreadable | None:
        """Why nothing that is here can be believed any more."""
        return None if self._file is None else self._file.fault

    @property
    def file(self) -> SpillFile:
        """Where the rest lies."""
        if self._file is None:
            raise AssertionError("a value is out, and there is nowhere it can have gone")
        return self._file

    def join(self, kind: _Kind) -> int:
        """The number of this kind of values."""
        self._kinds.append(kind)
        return len(self._kinds) - 1

    def put(self, key: int, value: Spillable) -> None:
        """This value is here, and is used now."""
        self.here[key] = value
        self.here.move_to_end(key)
        size_bytes = value.size_bytes
        self.resident_bytes += size_bytes - value.counted_bytes
        value.counted_bytes = size_bytes
        while self.resident_bytes > self._limit and len(self.here) > 1 and self._put_out():
            pass

    def _put_out(self) -> bool:
        key, value = next(iter(self.here.items()))
        if value.is_changed:
            try:
                self._kinds[key >> _NUMBER_BITS].write(key, value)
            except OSError:
                self.failed_writes += 1
                self._limit = self.resident_bytes + self._bytes_max / _RETRY_SHARE
                return False
            self._limit = self._bytes_max
        del self.here[key]
        self.resident_bytes -= value.counted_bytes
        return True

    def clear(self) -> None:
        """Nobody has anything here any more."""
        self._kinds.clear()
        self.here.clear()
        self.resident_bytes = 0
        if self._file is not None:
            self._file.clear()


class Values(Generic[V]):
    """Values of one kind, by number as they came; to be held no longer than until the next one is asked for."""

    def __init__(self, residence: Residence, unpacked: Callable[[bytes], V]) -> None:
        self._residence = residence
        self._unpacked = unpacked
        self._offsets = array("q")
        self._lengths = array("I")
        self._first_key = residence.join(self) << _NUMBER_BITS
        self._here = residence.here

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, value: V) -> int:
        """Its number."""
        self._offsets.append(_NOWHERE)
        self._lengths.append(0)
        number = len(self._offsets) - 1
        self._residence.put(self._first_key + number, value)
        return number

    def __getitem__(self, number: int) -> V:
        key = self._first_key + number
        found = self._here.get(key)
        if found is not None:
            self._here.move_to_end(key)
            return found  # pyright: ignore[reportReturnType] - of this kind, as its key says
        value = self._unpacked(self._residence.file.read(key, self._offsets[number], self._lengths[number]))
        value.is_changed = False
        self._residence.put(key, value)
        return value

    def changed(self, number: int, value: V) -> None:
        """This value, which was asked for last, has just been changed."""
        key = self._first_key + number
        if self._here.get(key) is not value:
            raise AssertionError("what was changed has gone out meanwhile: the change would be lost")
        value.is_changed = True
        self._residence.put(key, value)

    def write(self, key: int, value: Spillable) -> None:
        """The value stands in the file as it is now. Raises OSError: then it is there no more than before."""
        number, data, file = key - self._first_key, value.packed(), self._residence.file
        offset = file.write(key, data)
        if self._offsets[number] != _NOWHERE:
            file.free(self._offsets[number], self._lengths[number])
        self._offsets[number], self._lengths[number] = offset, len(data)
        value.is_changed = False
