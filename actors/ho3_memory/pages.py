"""Answers that could be large come in pages: so many rows and ids, and where to go on. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from hobus.bus.messages.memory import Accumulator

T = TypeVar("T")


def page_of(rows: Iterable[T], units_max: int, ids_in: Callable[[T], int]) -> tuple[list[T], bool]:
    """The first rows that have so many lines and ids together, at least one; and whether there are more."""
    page: list[T] = []
    units = 0
    for row in rows:
        units += 1 + ids_in(row)
        if page and units > units_max:
            return page, True
        page.append(row)
    return page, False


def place_of_signal(found: Accumulator) -> str:
    """Where a signal of a principal stands among all: in order of both. A space stands in neither."""
    return f"{found.signal_id} {found.principal}"
