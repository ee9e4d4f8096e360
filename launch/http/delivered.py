"""What a client that cannot take anything back has been sent of an answer. Pure.

OpenAI's streams only grow. A piece that turns out to be no answer stays where it is; what comes instead begins a new
paragraph, unless it begins with the very same words: then it goes on where that stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hobus.bus.messages.base import Message
from hobus.bus.messages.streams import StreamDelta, StreamReset
from hobus.bus.streaming import Continuity

_ANEW = "\n\n"


@dataclass(slots=True)
class Delivered:
    """The words so far, and how the answer that is being written goes on from them."""

    text: str = ""  # all that was sent
    _paragraph: str = ""  # what was sent of the present try
    _draft: str = ""  # what the present try has said
    _is_whole: bool = True  # false: a piece of the present try is missing
    _source: Continuity = field(default_factory=Continuity)

    def take(self, message: Message) -> str:
        """What is to be sent on for this frame of a stream; empty for nothing."""
        if isinstance(message, StreamReset):
            self._source.forget()
            self._draft, self._is_whole = "", True
            return ""
        if not isinstance(message, StreamDelta):
            return ""
        place = self._source.place(message)
        if place == "lost":
            self._is_whole = False
        elif place == "anew":
            self._draft, self._is_whole = message.text, True
        else:
            self._draft += message.text
        return self._grown(self._draft) if self._is_whole else ""

    def finish(self, answer: str) -> str:
        """The rest, once the whole answer is there."""
        return self._grown(answer, is_last=True)

    def _grown(self, said: str, *, is_last: bool = False) -> str:
        if said.startswith(self._paragraph):
            new = said[len(self._paragraph) :]
        elif self._paragraph.startswith(said) and not is_last:
            return ""  # it is saying again what was sent before
        else:
            new = _ANEW + said
        self._paragraph = said
        self.text += new
        return new
