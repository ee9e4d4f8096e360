"""What a model says, parted from what it only thinks, and whole characters of it: pieces in, pieces out. Pure.

Models write `<think>…</think>` before an answer. Of some a server's template writes the opening, so that the closing
comes alone; an answer that is cut in its thinking has the opening alone. A tag that is quoted, or that stands between
two words of a sentence, is text.
"""

from __future__ import annotations

import re

OPENING, CLOSING = "<think>", "</think>"
_CLOSING = re.compile(r"(?<![`'\"])</think>(?!(?<=[ \t]</think>)[ \t]+\S)")
_UNDECIDED = re.compile(r"[ \t]</think>[ \t]*\Z")
_HIGH = re.compile("[\ud800-\udbff]$")


def mended(text: str) -> str:
    """The text with no half of a character: two that belong together are one, any other is U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class SpokenText:
    """The content of an answer as it comes; `said` and `thought` hold what is decided."""

    def __init__(self, *, closes_alone: bool = False) -> None:
        """`closes_alone`: the model is known to think without an opening; nothing is told before its closing."""
        self.said: list[str] = []
        self.thought: list[str] = []
        self.has_closed_alone = False
        self._closes_alone = closes_alone
        self._state = "begin"
        self._held = ""

    def add(self, piece: str) -> str:
        """What is certainly said by now, and was not before."""
        self._held += piece
        if _HIGH.search(self._held):
            return ""
        self._held = mended(self._held)
        return self._told(is_last=False)

    def close(self) -> str:
        """The rest of it, once nothing more comes."""
        self._held = mended(self._held)
        return self._told(is_last=True)

    def _told(self, *, is_last: bool) -> str:
        if self._state == "begin":
            self._begin(is_last=is_last)
        if self._state == "thinks":
            return self._think(is_last=is_last)
        return self._say(is_last=is_last) if self._state == "says" else ""

    def _begin(self, *, is_last: bool) -> None:
        start = self._held.lstrip()
        if start.startswith(OPENING):
            self._state, self._held = "thinks", start.removeprefix(OPENING)
        elif is_last or not OPENING.startswith(start):
            self._state = "says"
            self._held = start if self.thought else self._held

    def _think(self, *, is_last: bool) -> str:
        thought, closing, rest = self._held.partition(CLOSING)
        at = len(thought) if closing or is_last else len(thought) - _beginning(thought)
        self.thought.append(thought[:at])
        self._held = rest if closing else thought[at:]
        self._state = "begin" if closing else "thinks"
        return self._told(is_last=is_last) if closing else ""

    def _say(self, *, is_last: bool) -> str:
        before = self.said[-1][-1:] if self.said else ""  # what stands before a tag decides what it is
        text = before + self._held
        found = None if self.thought else _CLOSING.search(text)
        if found is not None and (is_last or not _UNDECIDED.search(text)):
            self.thought = [*self.said, text[len(before) : found.start()]]
            self.said, self.has_closed_alone = [], True
            self._state, self._held = "begin", text[found.end() :]
            return self._told(is_last=is_last)
        if not is_last and self._closes_alone and not self.thought:
            return ""
        at = len(self._held)
        if not is_last and not self.thought:
            at = at - _beginning(self._held) if found is None else found.start() - len(before)
        told, self._held = self._held[:at], self._held[at:]
        if told:
            self.said.append(told)
        return told


def _beginning(text: str) -> int:
    """How many of its last characters may be the beginning of a closing tag."""
    begun = "<" + text.rpartition("<")[2]
    return len(begun) if text.endswith(begun) and CLOSING[:-1].startswith(begun) else 0
