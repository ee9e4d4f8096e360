"""Tables of a terminal: whole rows that fit its width, whatever stands in them."""

from __future__ import annotations

import io

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hobus.launch.console import output
from hobus.launch.console.output import make_harmless
from hobus.launch.console.terminal import CUT, cut_last_rows, fold, make_table_lines

PS = ("ACTOR", "STATE", "PID", "UP", "RESTARTS", "RSS", "NOTE")
ROWS = [
    ("launcher", "ready", "26196", "3.7 s", "-", "49 M", ""),
    (
        "ho1/日本語",
        "backoff(3, next try 1.2 s)",
        "26197",
        "3.7 s",
        "3",
        "50 M",
        "exit 1: No module named zmq 🙂 and more of it",
    ),
]
SPARE = ("RSS", "RESTARTS", "PID")


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Without colours, unless a test asks for them."""
    monkeypatch.setenv("NO_COLOR", "1")


def lines(columns: int, rows=ROWS, headings=PS, spare=SPARE) -> list[str]:
    """The table in so many columns."""
    return make_table_lines(headings, rows, coloured=1, spare=spare, columns=columns)


def test_a_wide_terminal_shows_everything_in_one_row_each():
    """Wide characters take two cells, so the columns stand below each other."""
    assert lines(140) == [
        "ACTOR       STATE                       PID    UP     RESTARTS  RSS   NOTE",
        "launcher    ready                       26196  3.7 s  -         49 M",
        "ho1/日本語  backoff(3, next try 1.2 s)  26197  3.7 s  3         50 M  exit 1: No module named zmq 🙂 and more of it",
    ]


def test_a_narrower_one_breaks_what_is_wide():
    """At spaces, within its own column."""
    assert lines(100)[2:] == [
        "ho1/日本語  backoff(3, next try 1.2 s)  26197  3.7 s  3         50 M  exit 1: No module named zmq 🙂",
        "                                                                      and more of it",
    ]


def test_what_is_spare_is_left_out_where_nothing_else_helps_and_that_is_said():
    """The first of it first, no more of it than must be."""
    shown = lines(56)
    assert shown[0].split() == ["ACTOR", "STATE", "PID", "UP", "NOTE"]
    assert "too narrow here for RSS, RESTARTS;" in " ".join(shown[-2:])
    assert not any("49 M" in line for line in shown) and any("26196" in line for line in shown)


def test_a_terminal_of_twenty_columns_gets_a_line_per_cell():
    """Nothing is lost."""
    text = " ".join(lines(20))
    for row in ROWS:
        for cell in row:
            assert "".join(cell.split()) in "".join(text.split())


@given(
    st.lists(st.lists(st.text(alphabet="ab 日🙂é", max_size=40), min_size=4, max_size=4), min_size=1, max_size=4),
    st.integers(16, 140),
)
def test_no_row_is_wider_than_the_terminal_and_no_character_is_lost(rows, columns):
    """Whatever stands in the cells, where nothing is spare."""
    rows = [[" ".join(cell.split()) for cell in row] for row in rows]
    shown = lines(columns, rows, headings=("A", "B", "C", "D"), spare=())
    assert max(map(cell_len, shown)) <= columns
    given_chars = sorted(char for row in rows for cell in row for char in cell if char != " ")
    seen_chars = sorted(char for line in shown for char in line if char not in " ABCD")
    assert seen_chars == given_chars


def test_a_cell_commands_no_terminal_and_a_state_has_its_colour(monkeypatch):
    """Escapes are gone before the table is laid out; the only codes are those of the colours."""
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(output, "is_terminal", lambda _stream: True)
    monkeypatch.setattr(output, "measure_window", lambda: (40, 24))
    said: list[str] = []
    monkeypatch.setattr(output, "say", lambda *parts: said.append(output.join_styled(*parts)))
    output.print_table(
        ("ACTOR", "STATE"), [("\x1b]8;;http://x\x07a\x1b[2J\n\u202eb", "ready"), ("c", "failed \x1b[32m")], coloured=1
    )
    screen = pyte.Screen(40, 10)
    pyte.Stream(screen).feed("\r\n".join(said))
    assert [row.rstrip() for row in screen.display[:3]] == [
        "ACTOR                   STATE", "\ufffd]8;;http://x\ufffda\ufffd[2J\ufffd\ufffdb  ready",
        "c                       failed \ufffd[32m",
    ]  # fmt: skip
    assert screen.buffer[1][24].fg == "green" and screen.buffer[2][24].fg == "red"
    assert screen.buffer[0][0].bold and not screen.buffer[1][0].bold
    assert set("".join(said).split("\x1b[")[1:]) and all(
        code.partition("m")[0] in ("0", "1", "31", "32") for code in "".join(said).split("\x1b[")[1:]
    )


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [20, 30, 60, 80])
def test_prose_is_broken_between_words_and_stands_below_its_beginning(monkeypatch, columns):
    """No word is cut that fits; nothing is lost; a pipe gets the line as it is."""
    text = "the model's answer for 1.3.1 is recorded: 1,063 + 25 tokens, 日本語, $0, 1 ms, stop"
    seen = Screen()
    monkeypatch.setattr("sys.stdout", seen)
    monkeypatch.setattr(output, "measure_window", lambda: (columns, 40))
    output.say_prose("  454 ms  ", text)
    rows = seen.getvalue().splitlines()
    if columns < 30:
        assert rows == [f"  454 ms  {text}"], "there is no room beside what it begins with"
        return
    assert rows[0].startswith("  454 ms  the ") and all(cell_len(row) <= columns for row in rows)
    assert all(row.startswith(" " * 10) for row in rows[1:]) and (len(rows) > 1) == (columns < 100)
    assert " ".join(row[10:] for row in rows) == text
    monkeypatch.setattr("sys.stdout", piped := io.StringIO())
    output.say_prose("  454 ms  ", text)
    assert piped.getvalue() == f"  454 ms  {text}\n"


# --- rows of a text ---------------------------------------------------------------------------------------------------

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
    assert fold(text, 8) == rows


@given(TEXTS, st.integers(2, 12))
def test_no_row_is_wider_than_the_screen_and_nothing_but_spaces_is_lost(text, width):
    """Whatever the text is made of."""
    shown = make_harmless(text)
    rows = fold(shown, width)
    assert all(cell_len(row) <= width for row in rows)
    assert "".join("".join(rows).split()) == "".join(shown.split())


@given(TEXTS, st.integers(2, 12), st.integers(1, 6))
def test_the_last_rows_are_the_end_of_all_rows(text, width, rows_max):
    """Not more than fit, and a mark where something is left out."""
    rows, last = fold(make_harmless(text), width), cut_last_rows(make_harmless(text), width, rows_max)
    if len(rows) <= rows_max:
        assert last == rows
    else:
        assert last == [CUT, *rows[len(rows) - rows_max + 1 :]]


@given(st.text(max_size=50))
def test_no_control_character_reaches_a_terminal(text):
    """An answer cannot move the cursor, recolour the screen, turn text around or name the window."""
    shown = make_harmless(text)
    assert all(one == "\n" or not (ord(one) < 0x20 or 0x7F <= ord(one) < 0xA0) for one in shown)
    shown.encode()


def test_what_is_replaced_is_seen_to_be():
    """An escape leaves a mark; a tab becomes spaces; a carriage return a new line."""
    assert make_harmless("a\x1b[31mb\tc\r\nd\re") == "a\N{REPLACEMENT CHARACTER}[31mb    c\nd\ne"
    assert make_harmless("x\u202ey") == "xy"
