"""Numbers for session ids, so that an event holds four bytes and not a text. Pure; a number means nothing elsewhere."""

from __future__ import annotations

import re
from uuid import UUID

from hobus.actors.ho3_memory.id_table import IdTable, key_of

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Names:
    """Each name once, numbered as they come; a uuid takes its sixteen bytes and ten of the table."""

    def __init__(self) -> None:
        self._table = IdTable()
        self._others: dict[int, str] = {}  # names that are no uuid
        self._last = ("", -1)

    def number(self, name: str) -> int:
        """This name's, from now on."""
        if self._last[0] != name or self._last[1] < 0:
            is_uuid = _UUID.fullmatch(name) is not None
            number = self._table.number(bytes.fromhex(name.replace("-", "")) if is_uuid else key_of(name))
            if not is_uuid:
                self._others[number] = name
            self._last = (name, number)
        return self._last[1]

    def __getitem__(self, number: int) -> str:
        other = self._others.get(number)
        return str(UUID(bytes=self._table.key(number))) if other is None else other
