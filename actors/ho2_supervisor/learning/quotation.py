"""Whether a place of a text stands in quotation marks, whatever a language takes for them. Pure.

Which mark begins and which ends a quotation differs by language, writer and keyboard, so that no list of pairs is
right. Two readings are taken (every other mark ends one; a mark's neighbours say which it is), and what one of them
calls quoted is quoted: in doubt somebody's own words are not counted as theirs, never the other way round.
"""

# ruff: noqa: RUF001 - marks as they are typed

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

QUOTATION_MARKS = "\"“”„‟«»‹›「」『』〝〞〟＂`´'’‘‚‛"
_MARK = re.compile(r"\"{3,}|`+|'{2,}|[" + QUOTATION_MARKS + "]")
_SINGLE = "'’‘‚‛"
"""Some are apostrophes too: no reading by counting."""
_BETWEEN_LETTERS = "`´" + _SINGLE
"""Between two of a word's characters these are apostrophes (don't, don´t)."""
_BEFORE_OPENING = "([{<—–-/=:\0" + QUOTATION_MARKS
_BEHIND_CLOSING = ".,;:!?…)]}"


class _After(NamedTuple):
    """How a text stands behind one of its marks."""

    is_odd: bool = False
    depth: int = 0
    single_depth: int = 0
    has_single: bool = False
    """A quotation in single marks began somewhere."""


class Quotations:
    """Those of one text."""

    def __init__(self, text: str) -> None:
        self._places: list[int] = []
        self._states = [_After()]
        self._last_single = -1
        for found in _MARK.finditer(text):
            before, behind = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
            if found[0] in _BETWEEN_LETTERS and _is_word(before) and _is_word(behind):
                continue
            self._places.append(found.start())
            self._states.append(self._after(found, before or " ", behind or " "))

    def _after(self, found: re.Match[str], before: str, behind: str) -> _After:
        last = self._states[-1]
        is_opening = (before.isspace() or before in _BEFORE_OPENING) and not (
            behind.isspace() or behind in _BEHIND_CLOSING
        )
        change = 1 if is_opening else 0 if before.isspace() else -1
        if found[0] in _SINGLE:
            if change < 0:
                self._last_single = found.start()
            return last._replace(
                single_depth=max(0, last.single_depth + change), has_single=last.has_single or is_opening
            )
        return last._replace(is_odd=not last.is_odd, depth=max(0, last.depth + change))

    def is_quoted(self, start: int, end: int) -> bool:
        """Whether what stands from start to before end begins within a quotation, also one that nothing ends."""
        state = self._states[bisect_left(self._places, start)]
        is_between_singles = state.has_single and self._last_single >= end
        return state.is_odd or state.depth > 0 or state.single_depth > 0 or is_between_singles


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"
