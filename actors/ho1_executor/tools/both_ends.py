"""What is kept of a text that people are told and that may be of any length: its beginning and its end. Pure."""

from __future__ import annotations

_LEFT_OUT = "\n[… {} bytes left out …]\n"
_LEFT_OUT_BYTES = 40


class BothEnds:
    """The beginning and the end of what comes piece by piece, `max_bytes` of UTF-8 with the mark between them."""

    def __init__(self, max_bytes: int) -> None:
        self._half = max(0, max_bytes - _LEFT_OUT_BYTES) // 2
        self._begin = bytearray()
        self._end = bytearray()
        self._left_out = 0

    def add(self, piece: bytes) -> None:
        """What comes next."""
        room = self._half - len(self._begin)
        self._begin += piece[:room]
        self._end += piece[room:]
        over = max(0, len(self._end) - self._half)
        del self._end[:over]
        self._left_out += over

    def text(self) -> str:
        """All of it, or both ends with a line between them that counts what is missing."""
        if not self._left_out:
            return (self._begin + self._end).decode("utf-8", "replace")
        ends = (part.decode("utf-8", "ignore") for part in (self._begin, self._end))
        return _LEFT_OUT.format(self._left_out).join(ends)


def both_ends(text: str, max_bytes: int) -> str:
    """The text, without its middle where it is longer; what is no Unicode stands as an escape."""
    kept = BothEnds(max_bytes)
    kept.add(text.encode("utf-8", "backslashreplace"))
    return kept.text()
