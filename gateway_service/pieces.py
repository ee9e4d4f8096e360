"""What a provider says while it answers, in frames: few, however small its pieces and however many answers are written.

A model may speak in single characters, and each frame costs every process on its way. The first piece goes out at once;
what comes before the interval is over goes out at its end. With more answers at once the interval grows, so that all of
them together stay below FRAMES_PER_S: whoever reads takes more at a time, and nothing waits in a queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hobus.bus.port import Anew, Used
from hobus.bus.streaming import Draft
from hobus.gateway_service.limits import FRAMES_PER_S


@dataclass(slots=True, eq=False)
class Pieces:
    """The pieces of one attempt; `speaking`: of all attempts that have said something and not ended."""

    draft: Draft
    now: Callable[[], float]
    speaking: set[Pieces]
    interval_s: float
    chars_left: int  # an answer beyond it cannot be recorded, so it will be none
    said_chars: int = 0  # what came so far
    used: Mapping[str, int] = field(default_factory=dict[str, int])  # by an answer that was given up
    _held: str = ""
    _due: float = field(init=False)
    _spoke_at: float = field(init=False)
    _timer: asyncio.TimerHandle | None = None
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def __post_init__(self) -> None:
        self._due = self._spoke_at = self.now()

    def add(self, text: str) -> None:
        """Take the provider's next piece; whatever it holds, it fails nothing."""
        if isinstance(text, Used):
            self.used = text.tokens
            return
        if isinstance(text, Anew):
            self._stop()
            self._held = ""
            self.draft.take_back("thought")
        room = text[: self.chars_left]
        self.chars_left -= len(room)
        self.said_chars += len(text)
        self._held += room
        now = self._spoke_at = self.now()
        self.speaking.add(self)
        if now >= self._due:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._due - now, self.flush)

    @property
    def silent_s(self) -> float:
        """Return the time since the newest piece, or since there could have been one."""
        return self.now() - self._spoke_at

    def flush(self) -> None:
        self._stop()
        held, self._held = self._held, ""
        if held:
            self.draft.say(held.encode("utf-8", "replace").decode("utf-8"))
            self._due = self.now() + max(self.interval_s, (len(self.speaking) - 1) / FRAMES_PER_S)

    def close(self) -> None:
        """End; what is held does not go out any more."""
        self._stop()
        self.speaking.discard(self)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
