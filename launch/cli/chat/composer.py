"""A line that is typed while an answer is written: what its keys make of it. Pure.

As small as a line editor may be: letters, Backspace, Ctrl-U, Ctrl-W, Return; keys that move a cursor do nothing.
"""

from __future__ import annotations

import codecs

_RETURN = "\r\n"
_BACKSPACE = "\x08\x7f"
_CTRL_D, _CTRL_U, _CTRL_W, _TAB = "\x04", "\x15", "\x17", "\t"
_ESCAPE = "\x1b"
_BEGINS_SEQUENCE = "[O"


class Composer:
    """The line so far; `feed` gives the lines that Return ended."""

    def __init__(self) -> None:
        self.text = ""
        self.is_left = False  # Ctrl-D on an empty line: whoever types wants to leave
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._sequence = ""  # an escape sequence that is not whole yet

    def feed(self, data: bytes) -> list[str]:
        """Bytes of the keyboard; the lines that they complete."""
        return [line for key in self._decode(data) if (line := self._pressed(key)) is not None]

    def taken(self) -> str:
        """What stands in the line, which is empty from now on."""
        text, self.text = self.text, ""
        return text

    def _pressed(self, key: str) -> str | None:
        if self._sequence:
            self._in_sequence(key)
        elif key in _RETURN:
            return self.taken()
        elif key in _BACKSPACE:
            self.text = self.text[:-1]
        elif key == _CTRL_U:
            self.text = ""
        elif key == _CTRL_W:
            self.text = self.text.rstrip()[: -len(self.text.split()[-1])] if self.text.split() else ""
        elif key == _CTRL_D:
            self.is_left = self.is_left or not self.text
        elif key == _ESCAPE:
            self._sequence = key
        elif key == _TAB:
            self.text += " "
        elif key.isprintable() or not key.isascii():
            self.text += key
        return None

    def _in_sequence(self, key: str) -> None:
        """Cursor keys and the like: swallowed to their last letter."""
        self._sequence += key
        is_second = len(self._sequence) == len(_ESCAPE) + 1
        if (is_second and key not in _BEGINS_SEQUENCE) or (not is_second and "\x40" <= key <= "\x7e"):
            self._sequence = ""
