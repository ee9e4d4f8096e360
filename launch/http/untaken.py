"""What a client's stream has not taken yet: pieces of one text that follow each other are one, however slowly it reads.

So a reader that takes a byte a second costs the text it has not read, no more, and misses nothing of it.
"""

from __future__ import annotations

import asyncio
from collections import deque

from hobus.bus.messages.base import Message
from hobus.bus.messages.streams import StreamDelta
from hobus.bus.streaming import Continuity


class Untaken:
    """Messages of one turn, in order."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._source = Continuity()
        self._change = asyncio.Event()
        self._is_ended = False
        self._told = 0  # position of the last piece that was taken

    def add(self, message: Message) -> None:
        """One more."""
        last = self._messages[-1] if self._messages else None
        place = self._source.place(message) if isinstance(message, StreamDelta) else "anew"
        if place == "lost":
            return  # the answer says all of it
        if place == "next" and isinstance(last, StreamDelta) and isinstance(message, StreamDelta):
            self._messages[-1] = last.model_copy(update={"text": last.text + message.text})
        else:
            self._messages.append(message)
        self._change.set()

    def end(self) -> None:
        """No more."""
        self._is_ended = True
        self._change.set()

    async def take(self) -> Message | None:
        """The next one, once there is one; None when all was taken. Pieces are numbered as they are taken."""
        while not self._messages:
            if self._is_ended:
                return None
            self._change.clear()
            await self._change.wait()
        message = self._messages.popleft()
        if not isinstance(message, StreamDelta):
            return message
        self._told = self._told + 1 if message.index else 0  # 0: it begins anew, also under the same attempt
        return message.model_copy(update={"index": self._told})
