"""Lines of a pipe."""

from __future__ import annotations

import io

import pytest

from hobus.launch.cli.commands.chat import read_lines_in


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (b"", []),
        (b"one\ntwo", ["one", "two"]),
        (b"one\r\n\n   \ntwo\n", ["one", "two"]),
        (b"12345678\n123456789\nx\n", ["12345678", None, "x"]),
        (b"1" * 200_000 + b"\nx", [None, "x"]),
        (b"123456789\r\nx", [None, "x"]),
        (b"1" * 100, [None]),
        (b"a\xffb\n", ["a\udcffb"]),
    ],
)
def test_one_line_is_one_message(given, lines):
    """Blank lines are none; one that is too long is said to be that, and the next one is read as it is."""
    assert list(read_lines_in(io.BytesIO(given), 8)) == lines
