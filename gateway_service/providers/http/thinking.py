"""What a model says, parted from what it only thinks, and whole characters of it: pieces in, pieces out. Pure.

Thinking stands before an answer, or nowhere: one `<think>…</think>` at the very beginning, up to the first closing; an
answer that is cut in it has the opening alone. Of some models a server's template writes the opening, so that a closing
comes alone: it ends thinking if no opening stands anywhere before it, and it is neither in backticks or quotes nor in
the middle of a sentence; what was told before it is taken back. All else is text, tags and all: rather is a thought
shown than a word of an answer lost.
"""

from __future__ import annotations

import re

from hobus.bus.json_text import mend

OPENING, CLOSING = "<think>", "</think>"
_TAG = re.compile(r"<think>|(?<![`'\"(])</think>(?![.,;:!?)])(?!(?<=[ \t]</think>)[ \t]+\S)")
_UNDECIDED = re.compile(r"(?:[ \t]</think>[ \t]*|</think>)\Z")
_HIGH = re.compile("[\ud800-\udbff]$")


class SpokenText:
    """The content of an answer as it comes; `said` and `thought` hold what is decided."""

    def __init__(self, *, closes_alone: bool = False, thinks_first: bool = False) -> None:
        """Begin an answer.

        `closes_alone`: the model's last answer thought without an opening: nothing is told before a closing.
        `thinks_first`: every answer of the model does, as its configuration says.
        """
        self.said: list[str] = []
        self.thought: list[str] = []
        self.has_closed_alone = False
        self._closes_alone = closes_alone or thinks_first
        self._thinks_first = thinks_first
        self._state = "begin"
        self._is_settled = False  # no tag that comes is more than text
        self._backticks = 0
        self._held = ""

    def add(self, piece: str) -> str:
        """Return what is certainly said by now, and was not before."""
        tells = self._state == "says" and (self._is_settled or not self._closes_alone)
        if tells and piece and not self._held and piece.isascii() and "<" not in piece:  # nearly every piece
            self.said.append(piece)
            self._backticks += piece.count("`")
            return piece
        self._held += piece
        if _HIGH.search(self._held):
            return ""
        self._held = mend(self._held)
        return self._take_told(is_last=False)

    def close(self) -> str:
        """Return the rest, once nothing more comes."""
        self._held = mend(self._held)
        return self._take_told(is_last=True)

    def cut(self) -> None:
        """Cut a closed answer: of a model that thinks first, and did not end that, no word is told."""
        if self._thinks_first and not self._is_settled:
            self.thought, self.said = [*self.thought, *self.said], []

    def _take_told(self, *, is_last: bool) -> str:
        if self._state == "begin":
            start = self._held.lstrip()
            if start.startswith(OPENING):
                self._state, self._held = "thinks", start.removeprefix(OPENING)
            elif is_last or not OPENING.startswith(start):
                self._state = "says"
        if self._state == "thinks":
            self._think(is_last=is_last)
        if self._state == "thought":
            self._held = self._held.lstrip()
            self._state = "says" if self._held else "thought"
        return self._say(is_last=is_last) if self._state == "says" else ""

    def _think(self, *, is_last: bool) -> None:
        thought, closing, rest = self._held.partition(CLOSING)
        at = len(thought) if closing or is_last else len(thought) - _count_beginning(thought, CLOSING)
        self.thought.append(thought[:at])
        self._held = rest if closing else thought[at:]
        if closing:
            self._state, self._is_settled = "thought", True

    def _say(self, *, is_last: bool) -> str:
        at = len(self._held)
        if not self._is_settled:
            before = self.said[-1][-1:] if self.said else ""  # what stands before a tag decides what it is
            text = before + self._held
            tag = next((one for one in _TAG.finditer(text) if not self._is_code(text, one, len(before))), None)
            if tag is None:
                at -= 0 if is_last else _count_beginning(self._held, OPENING, CLOSING)
            elif tag[0] == OPENING:
                self._is_settled = True
            elif is_last or not _UNDECIDED.search(text):
                self.thought, self.said = [*self.said, text[len(before) : tag.start()]], []
                self._state, self._held = "thought", text[tag.end() :]
                self._is_settled = self.has_closed_alone = True
                return self._take_told(is_last=is_last)
            else:
                at = tag.start() - len(before)
            if self._closes_alone and not (is_last or self._is_settled):
                return ""
        told, self._held = self._held[:at], self._held[at:]
        if told:
            self.said.append(told)
            self._backticks += told.count("`")
        return told

    def _is_code(self, text: str, tag: re.Match[str], start: int) -> bool:
        """Return whether a closing stands in backticks, or in a fence of them, that are not closed before it."""
        return tag[0] == CLOSING and (self._backticks + text.count("`", start, tag.start())) % 2 == 1


def _count_beginning(text: str, *tags: str) -> int:
    """Return how many of the last characters may be the beginning of one of these tags."""
    begun = "<" + text.rpartition("<")[2]
    return len(begun) if text.endswith(begun) and any(tag[:-1].startswith(begun) for tag in tags) else 0
