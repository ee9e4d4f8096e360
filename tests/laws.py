"""Tables of small rows, each a single test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def of_each(rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """One test of a whole table of small rows (a tuple is several arguments); it tells every row that is wrong, and why."""
    table = [*rows]

    def tested(holds: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            assert table
            wrong: list[Exception] = []
            for row in table:
                try:
                    holds(*row if isinstance(row, tuple) else (row,))
                except Exception as fault:  # noqa: BLE001 - whatever it is, its row is told
                    fault.add_note(f"row: {row!r}")
                    wrong.append(fault)
            if wrong:
                raise ExceptionGroup(f"{len(wrong)} rows", wrong)

        test.__name__, test.__qualname__, test.__doc__ = holds.__name__, holds.__qualname__, holds.__doc__
        test.__module__ = holds.__module__
        return test

    return tested
