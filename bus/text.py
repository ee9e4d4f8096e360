"""Words of others: kept short, and whether they say anything. Imports nothing of hobus: it is needed at once."""

from __future__ import annotations

import unicodedata


def cut(text: str, max_chars: int) -> str:
    """Return the text, or as much as fits into `max_chars` with a mark that says how long it was."""
    if len(text) <= max_chars:
        return text
    mark = f"... ({len(text)} characters)"
    return f"{text[: max(0, max_chars - len(mark))]}{mark}"


def shorten(text: str, max_chars: int) -> str:
    """Return the text, or its beginning with `…`, in at most `max_chars`."""
    return text if len(text) <= max_chars else f"{text[: max(0, max_chars - 1)]}…"


_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
"""Controls, formats, separators. Not halves of a character, which are told as such; nor what no version of Unicode has
assigned that is known here: it may be a sign that is newer.
"""


def is_blank(text: str) -> bool:
    """Return whether nothing is to be seen: only white space, null characters or spaces without width."""
    return all(unicodedata.category(char) in _UNSEEN for char in text)
