"""In which form an answer is told: as it comes, in one line, or as a list; wished in the message, or learned. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from hobus.gateway_service.providers.offline.grammar import Grammar
from hobus.gateway_service.providers.offline.reading import Reading

Form = Literal["full", "brief", "list"]
FORMS: tuple[Form, ...] = ("brief", "list", "full")
_ITEM = "- "
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def form_of(reading: Reading, grammar: Grammar) -> Form:
    """After a reviewer's note all of it; else as the newest steer, the message or the surest preference wishes."""
    if reading.block("reviewer_note"):
        return "full"
    wishes = (*reversed(reading.steers()), reading.message or "", *reading.block("preferences").splitlines())
    for wish in wishes:
        if (form := wished(wish, grammar)) is not None:
            return form
    return "full"


def wished(text: str, grammar: Grammar) -> Form | None:
    """The form that a text names, if it names one."""
    normal = grammar.normal(text)
    return next((form for form in FORMS if grammar.says(form, normal)), None)


def told(paragraphs: Sequence[str], more: str, form: Form) -> str:
    """The paragraphs in that form; `more` is what a brief answer leaves out."""
    match form:
        case "brief":
            return " ".join(_in_one_line(paragraph) for paragraph in paragraphs) or more
        case "list":
            lines = [line for text in (*paragraphs, more) if text for line in _as_list(text)]
            return "\n".join(lines)
        case "full":
            *before, last = paragraphs or [""]
            return "\n\n".join([*before, f"{last} {more}".strip()])


def first_sentences(text: str) -> list[str]:
    """The first sentence of each line that is not blank."""
    return [_SENTENCE.split(line.strip())[0] for line in text.splitlines() if line.strip()]


def _in_one_line(paragraph: str) -> str:
    """A heading and its items in one line; nothing is left out."""
    head, *rest = paragraph.splitlines() or [""]
    if not rest:
        return head
    items = [line.removeprefix(_ITEM) for line in rest if line.strip()]
    return f"{head} {'; '.join(items)}."


def _as_list(paragraph: str) -> list[str]:
    """Items as they are; anything else a sentence per item."""
    if f"\n{_ITEM}" in paragraph:
        return paragraph.splitlines()
    return [_ITEM + sentence for sentence in _SENTENCE.split(paragraph.strip())]
