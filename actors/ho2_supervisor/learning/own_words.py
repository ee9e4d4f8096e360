"""Whether a statement stands in what a person said: a model's word for it does not count. Pure.

Of a message only the person's own words count, not the history that its client gave; and of those not what they quote:
lines behind `>`, fenced blocks, text in quotation marks. What is pasted without any mark cannot be told from their own.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

from hobus.actors.ho2_supervisor.learning.quotation import QUOTATION_MARKS, Quotations
from hobus.bus.messages.given_history import own_words
from hobus.bus.messages.ids import folded

_END_MARKS = " .!?…"
_ITEM = re.compile(r"\s*(?:(?:[-*+•]|\d{1,9}[.)])\s+)*")
_FENCE = re.compile(r"(?P<sign>`{3,}|~{3,})(?P<info>.*)", re.DOTALL)
_INDENT = 4
"""By so many columns more than what it stands in a line is code, no fence."""
_LEFT_OUT = "\0"
"""In place of a quoted line, so that no statement goes on across it."""
_NEGATED = re.compile(
    r"n['’]t\b"  # noqa: RUF001 - as it is typed
    r"|\b(not|cannot|dont|doesnt|never|without|neither|nor|no (need|longer|more)|instead of|rather than|against)\b"
    r"|\b(stop|cease|quit|avoid|refuse|forbid|hate|dislike)(s|d|ed|ing|ped|ping)?\b"
)
_SENTENCE_END = re.compile(r"(?<!\b\w)\.\s|[!?…]\s|\0")
"""Not behind one letter: `e.g.` ends nothing."""


def is_said(statement: str, message: str | None) -> bool:
    """Whether these words, whatever their case and white space, are the person's own, and no "do not" goes before them.

    message None: it was erased, and nobody can say.
    """
    if message is None:
        return False
    words, said = folded(statement.strip(_END_MARKS + QUOTATION_MARKS)), folded(_unquoted(own_words(message)))
    if not words:
        return False
    quotations = Quotations(said)
    negations, ends = ([found.start() for found in one.finditer(said)] for one in (_NEGATED, _SENTENCE_END))
    for found in re.finditer(rf"(?<!\w){re.escape(words)}(?!\w)", said):
        is_quoted = quotations.is_quoted(*found.span())
        if not is_quoted and not _is_behind(negations, ends, found.start()):
            return True
    return False


def _is_behind(negations: list[int], ends: list[int], place: int) -> bool:
    """Whether one of these is in the sentence before this place, however far from it: in doubt it is meant."""
    last, end = bisect_left(negations, place), bisect_left(ends, place)
    return last > 0 and (end == 0 or negations[last - 1] > ends[end - 1])


def _unquoted(text: str) -> str:
    """The text without quoted lines and fenced blocks, also those in items of a list."""
    kept: list[str] = []
    fence: _Fence | None = None
    for line in text.expandtabs(_INDENT).splitlines():
        bare = _ITEM.sub("", line, count=1)
        if fence is not None:
            kept.append(_LEFT_OUT)
            fence = None if fence.is_closed_by(line) else fence
            continue
        found = _FENCE.match(bare)
        kept.append(_LEFT_OUT if found or bare.startswith(">") else line)
        if found and not (found["sign"].startswith("`") and "`" in found["info"]):  # that is code within a line
            before = len(line) - len(bare)
            fence = _Fence(found["sign"], before if before >= _INDENT or line[:before].strip() else 0)
    return "\n".join(kept)


class _Fence(NamedTuple):
    """What began a fenced block: only its like ends it. In doubt it goes on."""

    sign: str
    column: int  # where the item of the list begins that it stands in; 0: it stands in none

    def is_closed_by(self, line: str) -> bool:
        """The same sign at least as often, nothing behind it, and within the item of the list that it began in."""
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        return (
            len(bare) >= len(self.sign)
            and set(bare) == {self.sign[0]}
            and self.column <= indent < self.column + _INDENT
        )
