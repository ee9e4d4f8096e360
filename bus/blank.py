"""Whether a message says anything."""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
"""Controls, formats, separators. Not halves of a character, which are told as such; nor what no version of Unicode has
assigned that is known here: it may be a sign that is newer.
"""


def is_blank(text: str) -> bool:
    """Nothing in it is to be seen, as where it is white space, a null character or a space of no width alone."""
    return all(unicodedata.category(char) in _UNSEEN for char in text)
