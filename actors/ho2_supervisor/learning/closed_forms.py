"""The closed list of wishes that bind without a question, and what a wish is about. Pure.

Whether a person means what stands in their message no list of words can tell: it may be quoted, forwarded, or under
discussion. So one of these at the very beginning of a message counts at once, and all else, in whatever language, waits
for a person's yes. Nothing on the list does more than shape an answer, and the undo is told with it.
"""

from __future__ import annotations

import re

from hobus.bus.messages.given_history import find_own_words
from hobus.bus.messages.ids import normalise_words

_FORM = re.compile(
    r"(?:please )?(?:(?:from now on|in future),? )?(?:please )?(?:"
    r"(?P<language>(?:always )?(?:answer|reply|respond|write)(?: to me)?(?: only)? in (?:arabic|chinese|czech|danish"
    r"|dutch|english|finnish|french|german|greek|hebrew|hindi|italian|japanese|korean|norwegian|polish|portuguese"
    r"|russian|spanish|swedish|turkish|ukrainian))"
    r"|(?P<length>(?:always )?(?:(?:answer|reply|respond) (?:briefly|concisely|in (?:short|detail|full)"
    r"|in (?:at most )?(?:one|two|three|four|five|six|[1-9]\d?) (?:lines?|sentences?|paragraphs?|words))"
    r"|be (?:brief|concise|terse|detailed)|keep (?:your |all )?(?:answers|replies) (?:short|brief)))"
    r"|(?P<tone>(?:always )?(?:be|answer|reply) (?:casual|direct|formal|friendly|informal|polite)(?:ly)?)"
    r"|(?P<units>(?:always )?use (?:metric|imperial) units)"
    r"|(?:always|never|do not|don.t) use (?P<mark>bold|bullet points|emojis|headings|markdown|tables)"
    r"(?: in (?:your |my )?answers)?"
    r")(?:,? please)?"
)
_NAMED = re.compile(r"(?:please )?(?:from now on,? )?(?:always )?call me \S+(?: \S+)?(?:,? please)?")
_FORBIDDEN = re.compile(
    r"(?:please )?(?:from now on,? )?(?:never|do not|don.t) (?P<what>.+?)(?: any ?more)?(?:,? please)?"
)
_FILLER = re.compile(r"\b(?:please|from now on|in future|always|to me|only)\b,?")
_ANSWER = re.compile(r"^(?:reply|respond|write)\b")
_FIRST_SENTENCE = re.compile(r"[^\n.!?…]*(?:[.!?…]+(?=\s|\Z)|(?=\n|\Z))")


def counts_at_once(statement: str, message: str) -> bool:
    """Return whether the statement is on the closed list and is the first sentence that the person says now."""
    first = _FIRST_SENTENCE.match(find_own_words(message).lstrip())
    words = normalise_words(statement)
    return first is not None and normalise_words(first[0]) == words and _FORM.fullmatch(words) is not None


def find_subject(statement: str) -> str:
    """Return what a wish is about (`language`, `length`, …, `name`), of which the newest counts; empty: unknown."""
    words = normalise_words(statement)
    if _NAMED.fullmatch(words) is not None:
        return "name"  # asked for, as it may be anything, and then in the place of the one before
    found = _FORM.fullmatch(words)
    if found is None and (forbidden := _FORBIDDEN.fullmatch(words)) is not None:
        found = _FORM.fullmatch(forbidden["what"])  # what is forbidden contradicts what was wished
    return "" if found is None else found["mark"] or found.lastgroup or ""


def normalise_wish(statement: str) -> str:
    """Return a wish's words, without those that change nothing, so that a repeated wish has the same meaning."""
    words = normalise_words(statement)
    if _FORM.fullmatch(words) is None:
        return words
    return _ANSWER.sub("answer", " ".join(_FILLER.sub(" ", words).split()).strip(" ,"))


def is_told_before(statement: str, message: str) -> bool:
    """Return whether the statement stands in the client's earlier talk, and not in what the person says now."""
    words = normalise_words(statement)
    return words in normalise_words(message) and words not in normalise_words(find_own_words(message))
