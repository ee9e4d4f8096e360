"""The table of frames: aligned, as wide as the terminal, short names, human numbers."""

from __future__ import annotations

import re

import pytest

from hobus.bus.messages.ids import NO_TURN, TurnRef
from hobus.launch.cli.tap.table import Table
from tests.launch.filters.frames import SESSION, frame

TURN = TurnRef(SESSION, 2, "in-7")


@pytest.mark.parametrize("width", [20, 30, 40, 60, 72, 80, 100, 120, 140, 200])
def test_no_line_is_wider_than_the_terminal(width):
    """Columns are left out by rank, what stays is cut; the rest is the least that tells something."""
    table = Table(width=width, utc=True, with_latency=True)
    long = frame(type="a.type.with.a.very.long.name", verdict="denied", code="some_long_reason", sequence=123_456)
    lines = [table.heading(0.0), table.row(frame(), TURN, 12.25), table.row(long, NO_TURN, None)]
    least = 12 + 16 + 2
    assert all(len(line) <= max(width, least) for line in lines)
    assert "TYPE" in lines[0] and "TURN" in lines[0]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (30, "TYPE TURN"),
        (60, "TYPE FROM TO TURN"),
        (80, "KIND TYPE FROM TO VERDICT TURN"),
        (100, "SEQ TIME UTC KIND TYPE FROM TO VERDICT TURN"),
        (120, "SEQ TIME UTC KIND TYPE FROM TO VERDICT SIZE TURN"),
        (160, "SEQ TIME UTC KIND TYPE FROM TO VERDICT SIZE TURN ID"),
    ],
)
def test_a_wider_terminal_shows_more(width, columns):
    """What tells most is there first; whose turn it is of stays to the end."""
    assert Table(width=width, utc=True, with_latency=False).heading(0.0).split() == columns.split()


def test_the_heading_is_bold_and_shows_no_code_of_a_terminal(monkeypatch):
    """Each word by itself; what is seen is the same as without colours."""
    plain = Table(width=80, utc=True, with_latency=False).heading(0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    bold = Table(width=80, utc=True, with_latency=False).heading(0.0)
    assert "\x1b[1m" in bold and re.sub(r"\x1b\[[0-9;]*m", "", bold) == plain and "u001b" not in bold


def test_a_pipe_gets_everything():
    """Nothing is cut where nobody looks at columns."""
    row = Table(width=None, utc=True, with_latency=False).row(frame(message_id="m" * 200), TURN, None)
    assert "m" * 200 in row


def test_a_row_in_full():
    """Sequence, time, kind, type, ends, verdict, size, turn, latency, id."""
    table = Table(width=None, utc=True, with_latency=True)
    answer = frame(kind="reply", type="wo.receipt", sender="ho1/2@b", destination="ho2/1@a", correlation_id="WO-x")
    assert table.row(answer, TURN, 12.34).split() == [
        "1", "00:01:40.000", "reply", "wo.receipt", "ho1/2", "ho2/1", "delivered", "11", "K", "SES-1a2b3c4d-2", "12.3", "WO-x",
    ]  # fmt: skip


def test_columns_are_aligned():
    """Every row begins its columns where the heading does."""
    table = Table(width=120, utc=True, with_latency=False)
    heading, row = table.heading(0.0), table.row(frame(), TURN, None)
    for word, text in (("KIND", "request"), ("TYPE", "wo.execute"), ("FROM", "ho2/1"), ("VERDICT", "delivered")):
        assert heading.index(word) == row.index(text)


def test_a_frame_of_a_lane_is_marked():
    """It did not pass the broker."""
    row = Table(width=None, utc=True, with_latency=False).row(frame(lane="direct"), NO_TURN, None)
    assert "delivered direct" in row
