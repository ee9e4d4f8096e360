"""Whether a statement stands in what a person said: a model's word for it does not count. Pure.

Of a message only the person's own words count, not the history that its client gave; and of those not what they quote:
lines behind `>`, fenced blocks, text in quotation marks. What is pasted without any mark cannot be told from their own.
"""

from __future__ import annotations

import re

from hobus.bus.messages.given_history import own_words
from hobus.bus.messages.ids import folded

_END_MARKS = " .!?…"
_FENCES = ("```", "~~~")
_LEFT_OUT = "\0"
"""In place of a quoted line, so that no statement goes on across it."""
_QUOTED = re.compile(r'"[^"]{1,2000}"|“[^”]{1,2000}”|„[^“”]{1,2000}[“”]|«[^»]{1,2000}»')
_NEGATED = re.compile(r"(\b(not|never|without|stop)|n['’]t)\s+(\w+\s+)?$")  # noqa: RUF001 - as it is typed


def is_said(statement: str, message: str | None) -> bool:
    """Whether these words, whatever their case and white space, are the person's own, and not the end of a "do not".

    None: the message was erased, and nobody can say.
    """
    if message is None:
        return False
    words, said = folded(statement.strip(_END_MARKS)), folded(_unquoted(own_words(message)))
    if not words:
        return False
    quoted = [found.span() for found in _QUOTED.finditer(said)]
    for found in re.finditer(rf"(?<!\w){re.escape(words)}(?!\w)", said):
        is_quoted = any(start < found.start() and found.end() < end for start, end in quoted)
        if not is_quoted and _NEGATED.search(said[max(0, found.start() - 60) : found.start()]) is None:
            return True
    return False


def _unquoted(text: str) -> str:
    """The text without quoted lines and fenced blocks."""
    kept: list[str] = []
    is_fenced = False
    for line in text.splitlines():
        bare = line.strip()
        is_fence = bare.startswith(_FENCES)
        kept.append(_LEFT_OUT if is_fenced or is_fence or bare.startswith(">") else line)
        is_fenced ^= is_fence
    return "\n".join(kept)
