"""An answer while it is being written: who watches it, what was said so far, and when that is taken back. Pure.

A piece continues what was said if it is the next one of the same delivery and call; piece 0 begins anew; any other is
behind a hole, and everything behind a hole is dropped: the reply says all of it. So whoever relays pieces, and whoever
shows them, needs no promise of the bus about them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal

from msgspec import Struct, field

from hobus.bus.messages.base import Message
from hobus.bus.messages.streams import StreamDelta, StreamReset, StreamWaiting, Waits

Listener = Callable[[Message], None]
Reason = Literal["retry", "tools", "take_over", "degraded", "rejected", "steered", "thought"]
Place = Literal["next", "anew", "lost"]


class Continuity(Struct):
    """Where the next piece belongs."""

    step: str = ""
    attempt: int = 0
    index: int = 0
    is_whole: bool = False  # false: nothing was begun, or a piece is missing

    def place(self, delta: StreamDelta) -> Place:
        """Return how this piece stands to those before it, and count it as one of them."""
        is_same = (delta.step, delta.attempt) == (self.step, self.attempt)
        if self.is_whole and is_same and delta.index == self.index:
            self.index += 1
            return "next"
        self.step, self.attempt, self.index = delta.step, delta.attempt, delta.index + 1
        self.is_whole = delta.index == 0
        return "anew" if self.is_whole else "lost"

    def forget(self) -> None:
        """Forget the pieces: the next one begins anew, or is behind a hole."""
        self.is_whole = False


class Draft(Struct):
    """What was said of one answer, and who listens. Newcomers are told at once what stands."""

    run: str = ""
    step: str = ""
    attempt: int = 1
    before: Reason | None = None  # another delivery may have said something: who listens forgets that first, and why
    _waits: Waits = None
    _said: list[StreamDelta] = field(default_factory=list[StreamDelta])
    _listeners: list[Listener] = field(default_factory=list[Listener])
    _source: Continuity = field(default_factory=Continuity)

    @property
    def is_watched(self) -> bool:
        return bool(self._listeners)

    @contextmanager
    def watched(self, listener: Listener | None) -> Generator[None]:
        """Tell the listener within this context; None listens to nothing."""
        if listener is None:
            yield
            return
        self._listeners.append(listener)
        if self.before is not None:
            listener(StreamReset(run=self.run, reason=self.before))
        for delta in self._said:
            listener(delta)
        if self._waits is not None:
            listener(StreamWaiting(run=self.run, waiting=self._waits))
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def begin(self, step: str, attempt: int) -> None:
        """Begin the answer of this order; take back what was said of another one, or before."""
        self.take_back("retry")
        self.attempt = max(attempt, self.attempt) if step == self.step else attempt
        self.step = step

    def say(self, text: str) -> None:
        """Say the next piece, written here."""
        delta = StreamDelta(run=self.run, step=self.step, attempt=self.attempt, index=len(self._said), text=text)
        self._said.append(delta)
        self._tell(delta)

    def relay(self, message: Message) -> None:
        """Pass on a stream frame of whoever writes, under this draft's own numbers, or take back."""
        if isinstance(message, StreamReset):
            self.take_back(message.reason)
        elif isinstance(message, StreamWaiting):
            self.wait(message.waiting)
        elif isinstance(message, StreamDelta):
            place = self._source.place(message)
            if place != "next":
                self.take_back("retry", forget_source=False)
            if place != "lost":
                self.say(message.text)

    def repeat(self) -> None:
        """Say what stands again, from its beginning, since somebody else listens now."""
        said = "".join([delta.text for delta in self._said])
        if said:
            self.take_back("retry", forget_source=False)
            self.say(said)

    def wait(self, waits: Waits, *, place: int | None = None) -> None:
        """Set what the answer waits for now, if for anything; tell each change."""
        if waits != self._waits:
            self._waits = waits
            self._tell(StreamWaiting(run=self.run, waiting=waits, place=place))

    def take_back(self, reason: Reason, *, forget_source: bool = True) -> None:
        """Take back what was said, which is no answer; do nothing if nothing was said."""
        if forget_source:
            self._source.forget()
        if not self._said:
            return
        self._said.clear()
        self.attempt += 1
        self._tell(StreamReset(run=self.run, reason=reason))

    def _tell(self, message: Message) -> None:
        for listener in list(self._listeners):
            listener(message)
