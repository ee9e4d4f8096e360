"""Rows that are rewritten in place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hobus.launch.cli.chat.region import Region
from tests.launch.cli.chat.terminal import Terminal

ROWS = st.lists(st.text(alphabet="ab", max_size=4), max_size=4)


@given(st.lists(ROWS, max_size=10))
def test_whatever_was_shown_before_the_newest_rows_stand_and_nothing_else(states):
    """Below what the terminal held; and what is kept stays."""
    terminal, region = Terminal(columns=10, rows=5), Region()
    terminal.write("before\n")
    for rows in states:
        terminal.write(region.show(rows))
        assert terminal.seen == _trimmed(["before", *rows])
    terminal.write(region.keep() + "after")
    kept = states[-1] if states else []
    assert terminal.seen == ["before", *kept, "after"]


def test_a_row_that_grows_is_not_written_again():
    """Only what is new goes to the terminal."""
    region = Region()
    assert region.show(["one"]) == "one"
    assert region.show(["one two"]) == " two"
    assert region.show(["one two", "three"]) == "\nthree"
    assert region.show(["one two", "three"]) == ""


def _trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines
