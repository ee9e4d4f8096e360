"""Whether a statement stands in what a person said: a model's word for it does not count. Pure.

Of a message only the person's own words count, not the history that its client gave; and of those not what they quote
(`quoted_blocks`, `quotation`). What is pasted without any mark cannot be told from their own.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from hobus.actors.ho2_supervisor.learning.marks import QUOTATION_MARKS, alike
from hobus.actors.ho2_supervisor.learning.quotation import Quotations
from hobus.actors.ho2_supervisor.learning.quoted_blocks import LEFT_OUT, without_quoted
from hobus.bus.messages.given_history import own_words
from hobus.bus.messages.ids import folded

_END_MARKS = " .!?…"
_NEGATED = re.compile(
    r"n't\b|\b(do|does|did|is|are|was|were|ai|wo|would|should|could|ca|must|need|has|have|had)n ?t\b"
    r"|\b(not|cannot|never|without|neither|nor|nobody|hardly|rarely|seldom)\b"
    r"|\b(no (need|longer|more)|instead of|rather than|against)\b"
    r"|\b(stop|cease|quit|avoid|refuse|refrain|desist|forbid|hate|dislike)(s|d|ed|ing|ped|ping)?\b"
)
_SENTENCE_END = re.compile(
    r"\.(?<!(?<!')\b\w\.)(?<!\b[dmj]r\.)(?<!\bmrs\.)(?<!\bms\.)(?<!\bst\.)(?<!\bprof\.)\s|[!?…]\s|" + LEFT_OUT
)
"""Not behind one letter or a title: `e.g.` and `Dr.` end nothing. Each begins with its sign, which is quick to find."""
_GOES_ON = (",", ":", ";", "(", "-", "–", "—", "/", "&")  # noqa: RUF001 - as it is typed
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,9}[.)]|[A-Za-z][.)])\s")


def is_said(statement: str, message: str | None) -> bool:
    """Whether these words, whatever their case and white space, are the person's own, and no "do not" goes before them.

    message None: it was erased, and nobody can say.
    """
    if message is None:
        return False
    words = folded(alike(statement)).strip(_END_MARKS + QUOTATION_MARKS)
    said = folded(_with_paragraphs(without_quoted(alike(own_words(message)))))
    if not words or words not in said:
        return False
    quotations = Quotations(said)
    negations, ends = ([found.start() for found in one.finditer(said)] for one in (_NEGATED, _SENTENCE_END))
    for found in re.finditer(rf"(?<![^\W_]){re.escape(words)}(?![^\W_])", said):
        is_quoted = quotations.is_quoted(*found.span())
        if not is_quoted and not _is_behind(negations, ends, found.start()):
            return True
    return False


def _with_paragraphs(text: str) -> str:
    """LEFT_OUT between its paragraphs, as a sentence ends with them; not before items, or where the last goes on."""
    kept: list[str] = []
    last, is_behind_blank = "", False
    for line in text.split("\n"):
        if line.strip():
            if is_behind_blank and not (last.endswith(_GOES_ON) or _ITEM.match(line)):
                kept.append(LEFT_OUT)
            last = line.rstrip(" \t*_" + QUOTATION_MARKS)
        is_behind_blank = not line.strip()
        kept.append(line)
    return "\n".join(kept)


def _is_behind(negations: list[int], ends: list[int], place: int) -> bool:
    """Whether one of these is in the sentence before this place, however far from it: in doubt it is meant."""
    last, end = bisect_left(negations, place), bisect_left(ends, place)
    return last > 0 and (end == 0 or negations[last - 1] > ends[end - 1])
