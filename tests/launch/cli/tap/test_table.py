"""The table of frames: aligned, as wide as the terminal, short names, human numbers."""

from __future__ import annotations

import pytest

from hobus.bus.messages.ids import NO_TURN, TurnRef
from hobus.launch.cli.tap.table import TapTable
from tests.launch.filters.frames import SESSION, frame

TURN = TurnRef(SESSION, 2, "in-7")


@pytest.mark.parametrize("width", [20, 30, 40, 60, 72, 80, 100, 120, 140, 200])
def test_no_line_is_wider_than_the_terminal(width):
    """Columns are left out by rank, what stays is cut; the rest is the least that tells something."""
    table = TapTable(width=width, utc=True, with_latency=True)
    long = frame(type="a.type.with.a.very.long.name", verdict="denied", code="some_long_reason", sequence=123_456)
    lines = [table.heading(0.0), table.row(frame(), TURN, 12.25), table.row(long, NO_TURN, None)]
    least = 12 + 16 + 2
    assert all(len(line) <= max(width, least) for line in lines)
    assert "TYPE" in lines[0] and "TURN" in lines[0]


def test_a_row_in_full():
    """Sequence, time, kind, type, ends, verdict, size, turn, latency, id."""
    table = TapTable(width=None, utc=True, with_latency=True)
    answer = frame(kind="reply", type="wo.receipt", sender="ho1/2@b", destination="ho2/1@a", correlation_id="WO-x")
    assert table.row(answer, TURN, 12.34).split() == [
        "1", "00:01:40.000", "reply", "wo.receipt", "ho1/2", "ho2/1", "delivered", "11", "K", "SES-1a2b3c4d-2", "12.3", "WO-x",
    ]  # fmt: skip
