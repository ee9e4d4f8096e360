"""A line that is typed while an answer is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.launch.cli.chat.composer import Composer


@pytest.mark.parametrize(
    ("keys", "lines", "left"),
    [
        (b"hello\r", ["hello"], ""),
        (b"one\ntwo\rthr", ["one", "two"], "thr"),
        (b"helk\x7flo\r", ["hello"], ""),
        (b"\x7f\x08x", [], "x"),
        (b"away\x15stay", [], "stay"),
        (b"one two \x17three", [], "one three"),
        (b"\x17\x17", [], ""),
        (b"a\x1b[Db\x1b[1;5Cc\x1bOHd\x1bxe", [], "abcde"),
        (b"a\x1b[20", [], "a"),
        (b"a\tb\x01\x0c", [], "a b"),
        ("größe 日本🙂\r".encode(), ["größe 日本🙂"], ""),
    ],
)
def test_keys_make_lines(keys, lines, left):
    """Return ends a line; Backspace, Ctrl-U and Ctrl-W take back; cursor keys and other controls leave nothing."""
    composer = Composer()
    assert composer.feed(keys) == lines
    assert composer.text == left and composer.taken() == left and composer.text == ""


@given(st.binary(max_size=60), st.integers(1, 7))
def test_how_the_bytes_come_does_not_matter(keys, size):
    """A letter or a key that arrives in parts is the same letter or key."""
    whole, parts = Composer(), Composer()
    lines = [line for at in range(0, len(keys), size) for line in parts.feed(keys[at : at + size])]
    assert lines == whole.feed(keys) and (parts.text, parts.is_left) == (whole.text, whole.is_left)


def test_ctrl_d_leaves_only_where_nothing_is_typed():
    """As in a shell."""
    typed, empty = Composer(), Composer()
    typed.feed(b"text\x04")
    empty.feed(b"text\r\x04")
    assert not typed.is_left and typed.text == "text" and empty.is_left
