"""Numbers for session ids, so that an event holds four bytes and not a text. Pure; a number means nothing elsewhere."""

from __future__ import annotations


class Names:
    """Each name once, numbered as they come."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._names: list[str] = []

    def number(self, name: str) -> int:
        """This name's, from now on."""
        found = self._number_of.setdefault(name, len(self._names))
        if found == len(self._names):
            self._names.append(name)
        return found

    def __getitem__(self, number: int) -> str:
        return self._names[number]
