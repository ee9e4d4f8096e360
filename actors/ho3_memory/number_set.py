"""A set of small numbers in four bytes each. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator


class NumberSet:
    """Grows by `add`; iterated in ascending order."""

    __slots__ = ("numbers",)

    def __init__(self, data: bytes = b"") -> None:
        """`data`: of `to_bytes`."""
        self.numbers = array("I", data)
        """Sorted."""

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)

    def add(self, number: int) -> None:
        """Puts the number in, once; cheapest where it is larger than all others."""
        place = self._place(number)
        if place == len(self.numbers) or self.numbers[place] != number:
            self.numbers.insert(place, number)

    def discard(self, number: int) -> None:
        """Takes the number out, if it is in."""
        place = self._place(number)
        if place < len(self.numbers) and self.numbers[place] == number:
            del self.numbers[place]

    def to_bytes(self) -> bytes:
        """For this machine alone."""
        return self.numbers.tobytes()

    def _place(self, number: int) -> int:
        numbers = self.numbers
        return len(numbers) if not numbers or numbers[-1] < number else bisect_left(numbers, number)


def united(sets: Iterable[NumberSet]) -> set[int]:
    """What is in any of them."""
    return set[int]().union(*(one.numbers for one in sets))
