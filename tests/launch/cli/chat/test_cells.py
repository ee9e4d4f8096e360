"""Text on a terminal: nothing that commands it, and rows that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hobus.launch.cli.chat.cells import CUT, last_rows, printable, rows_of

TEXTS = st.text(alphabet=st.sampled_from("ab \n日e\u0301🙂\t-"), max_size=80)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [""]),
        ("one two three", ["one two", "three"]),
        ("a\n\nb", ["a", "", "b"]),
        ("abcdefghijkl", ["abcdefgh", "ijkl"]),
        ("日本語テスト", ["日本語テ", "スト"]),
        ("e\u0301" * 9, ["e\u0301" * 8, "e\u0301"]),
        ("  code", ["  code"]),
        ("12345678 x", ["12345678", "x"]),
    ],
)
def test_rows_break_at_spaces_and_never_inside_a_character(text, rows):
    """Eight columns; wide characters take two, combining ones none; spaces at a break are not shown."""
    assert rows_of(text, 8) == rows


@given(TEXTS, st.integers(2, 12))
def test_no_row_is_wider_than_the_screen_and_nothing_but_spaces_is_lost(text, width):
    """Whatever the text is made of."""
    shown = printable(text)
    rows = rows_of(shown, width)
    assert all(cell_len(row) <= width for row in rows)
    assert "".join("".join(rows).split()) == "".join(shown.split())


@given(TEXTS, st.integers(2, 12), st.integers(1, 6))
def test_the_last_rows_are_the_end_of_all_rows(text, width, rows_max):
    """Not more than fit, and a mark where something is left out."""
    rows, last = rows_of(printable(text), width), last_rows(printable(text), width, rows_max)
    if len(rows) <= rows_max:
        assert last == rows
    else:
        assert last == [CUT, *rows[len(rows) - rows_max + 1 :]]


@given(st.text(max_size=50))
def test_no_control_character_reaches_a_terminal(text):
    """An answer cannot move the cursor, recolour the screen, turn text around or name the window."""
    shown = printable(text)
    assert all(one == "\n" or not (ord(one) < 0x20 or 0x7F <= ord(one) < 0xA0) for one in shown)
    shown.encode()


def test_what_is_replaced_is_seen_to_be():
    """An escape leaves a mark; a tab becomes spaces; a carriage return a new line."""
    assert printable("a\x1b[31mb\tc\r\nd\re") == "a\N{REPLACEMENT CHARACTER}[31mb    c\nd\ne"
    assert printable("x\u202ey") == "xy"
