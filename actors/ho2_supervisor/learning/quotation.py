"""Whether a place of a text stands in quotation marks, whatever a language takes for them. Pure.

Which mark begins and which ends a quotation differs by language, writer and keyboard, so that no list of pairs is
right. Two readings are taken (every other mark ends one; a mark's neighbours say which it is), and what one of them
calls quoted is quoted: in doubt somebody's own words are not counted as theirs, never the other way round.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

from hobus.actors.ho2_supervisor.learning.marks import CLOSING, OPENING, QUOTATION_MARKS

_MARK = re.compile(r"\"{3,}|`+|'{2,}|[" + QUOTATION_MARKS + "]")
_SINGLE = "'"
"""An apostrophe too: counted only where it cannot be one."""
_ELIDED = re.compile(r"(?<!\S)'(?:tis|twas|twere|till?|cause|cuz|em|bout|round|n|\d\d(?:'?s)?)\b")
"""An apostrophe that begins a word; a quotation might begin so, too."""
_INCHES = ('"', "''")
_BEFORE_OPENING = "([{<—–-/=:\0" + QUOTATION_MARKS  # noqa: RUF001 - as it is typed
_BEHIND_CLOSING = ".,;:!?…)]}"


class _After(NamedTuple):
    """How a text stands behind one of its marks."""

    is_odd: bool = False
    depth: int = 0
    single_depth: int = 0
    has_single: bool = False
    """A quotation in single marks began somewhere."""
    brackets: int = 0


class Quotations:
    """Those of one text, its marks `alike`, in lower case."""

    def __init__(self, text: str) -> None:
        self._places: list[int] = []
        self._states = [_After()]
        self._last_single = self._last_unopened = -1
        for found in _MARK.finditer(text):
            before, behind = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
            if found[0] == _SINGLE and _is_word(before) and _is_word(behind):
                continue
            self._places.append(found.start())
            if _ELIDED.match(text, found.start()):
                self._states.append(self._states[-1]._replace(has_single=True))
            elif found[0] in (OPENING, CLOSING):
                self._states.append(self._after_bracket(found))
            else:
                self._states.append(self._after(found, before or " ", behind or " "))

    def _after_bracket(self, found: re.Match[str]) -> _After:
        last = self._states[-1]
        if found[0] == CLOSING and last.brackets == 0:
            self._last_unopened = found.start()
        return last._replace(brackets=max(0, last.brackets + (1 if found[0] == OPENING else -1)))

    def _after(self, found: re.Match[str], before: str, behind: str) -> _After:
        last = self._states[-1]
        may_open = before.isspace() or before in _BEFORE_OPENING
        is_any_open = last.is_odd or last.depth > 0
        if found[0] in _INCHES and before.isdigit() and not (is_any_open or _is_word(behind)):
            return last
        is_opening = may_open and not (behind.isspace() or behind in _BEHIND_CLOSING)
        change = 1 if is_opening else 0 if before.isspace() else -1
        if found[0] == _SINGLE and (is_opening or not may_open):
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
        is_in_brackets = state.brackets > 0 or self._last_unopened >= end
        return state.is_odd or state.depth > 0 or state.single_depth > 0 or is_between_singles or is_in_brackets


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"
