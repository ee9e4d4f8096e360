"""What is no message, though it has characters."""

from __future__ import annotations

import pytest

from hobus.bus.text import is_blank


@pytest.mark.parametrize("text", ["", " \n\t", "\0", "\u200b", "\ufeff\u2060", "\u00a0\u2028\u3000", "\x07\x1b"])
def test_what_nobody_can_see_is_blank(text: str):
    assert is_blank(text) and is_blank(text * 3)


@pytest.mark.parametrize(
    "text", ["a", "\u200ba\u200b", ".", "0", "\u0301", "👍", "\U0010fffd", "\U0001fae9", " \0?", "\ud800"]
)
def test_one_sign_is_enough(text: str):
    """Also a mark, one for private use, and one that is newer than the interpreter."""
    assert not is_blank(text)
