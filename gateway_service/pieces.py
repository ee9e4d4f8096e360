"""What a provider says while it answers, in frames: never more than one per interval and call, however small they are.

A model may speak in single characters, and each frame costs every process on its way. The first piece goes out at once;
what comes before the interval is over goes out with the first piece after it, or with the end.
"""

from __future__ import annotations

from collections.abc import Callable

from hobus.bus.streaming import Draft


class Pieces:
    """The pieces of one attempt."""

    def __init__(self, draft: Draft, now: Callable[[], float], *, interval_s: float, chars_max: int) -> None:
        self._draft = draft
        self._now = now
        self._interval_s = interval_s
        self._chars_left = chars_max  # an answer beyond it cannot be recorded, so it will be none
        self._held = ""
        self._due = self._spoke_at = now()

    def add(self, text: str) -> None:
        """The provider's next piece; whatever it holds, it fails nothing."""
        room = text[: self._chars_left]
        self._chars_left -= len(room)
        self._held += room.encode("utf-8", "replace").decode("utf-8")
        now = self._spoke_at = self._now()
        if now >= self._due:
            self.flush()
            self._due = now + self._interval_s

    @property
    def silent_s(self) -> float:
        """Since the newest piece, or since there could have been one."""
        return self._now() - self._spoke_at

    def flush(self) -> None:
        """What is held goes out."""
        held, self._held = self._held, ""
        if held:
            self._draft.say(held)
