"""How many distinct keys (sessions, principals) had been seen by a time, whatever the order of arrival. Pure."""

from __future__ import annotations

from bisect import bisect_right, insort


class FirstSeen:
    """The time of each key's earliest event."""

    def __init__(self) -> None:
        self._first_of: dict[str, int] = {}
        self._firsts: list[int] = []  # those times, sorted

    def note(self, key: str, at_us: int) -> None:
        """One more event of this key."""
        known = self._first_of.get(key)
        if known is not None:
            if known <= at_us:
                return
            self._firsts.pop(bisect_right(self._firsts, known) - 1)
        self._first_of[key] = at_us
        insort(self._firsts, at_us)

    def count(self, at_us: int) -> int:
        """Distinct keys up to this time."""
        return bisect_right(self._firsts, at_us)
