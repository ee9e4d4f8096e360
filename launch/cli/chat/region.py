"""The last rows of a terminal, rewritten in place: what is provisional stands there until it stands for good. Pure.

The cursor is always behind the last of these rows. There are never more of them than the screen has, so that each can
still be reached; none is wider than the screen, so that each is one row of the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

_TO_START_AND_CLEAR = "\r\x1b[J"


class Region:
    """Rows that are shown and may be taken back."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def show(self, rows: Sequence[str]) -> str:
        """What to write so that these rows stand in place of the ones before; only what differs is written."""
        old, new = self.rows, list(rows)
        self.rows = new
        same = 0
        while same < min(len(old), len(new)) and old[same] == new[same]:
            same += 1
        if same == len(old):
            return "\n".join(["", *new[same:]]) if old and same < len(new) else "\n".join(new[same:])
        if same == len(old) - 1 and same < len(new) and new[same].startswith(old[same]):
            return "\n".join([new[same][len(old[same]) :], *new[same + 1 :]])
        if same and same == len(new):
            same -= 1  # the cursor belongs behind the last row that stays
        up = len(old) - 1 - same
        return (f"\x1b[{up}A" if up else "") + _TO_START_AND_CLEAR + "\n".join(new[same:])

    def keep(self) -> str:
        """What to write so that the rows stand for good, and what follows begins below them."""
        kept, self.rows = bool(self.rows), []
        return "\n" if kept else ""
