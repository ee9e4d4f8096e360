"""One page of an answer about many: rows in order of their keys, as many as fit. Plain rules.

A page begins behind the key that the page before ended with, so that rows that come and go between two pages change
nothing about the others: whoever is there all the time is read exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from hobus.bus.messages.base import Record, pack

R = TypeVar("R", bound=Record)


def page_of(keys: Iterable[str], row: Callable[[str], R], *, after: str, max_bytes: int) -> tuple[list[R], str]:
    """The rows behind `after`, at least one, and where the next page begins ('' if this is the last one)."""
    found: list[R] = []
    size, last = 0, ""
    for key in sorted(key for key in keys if key > after):
        record = row(key)
        size += len(pack(record.model_dump()))
        if found and size > max_bytes:
            return found, last
        found.append(record)
        last = key
    return found, ""
