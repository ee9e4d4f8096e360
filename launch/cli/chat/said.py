"""Lines that were typed or piped in, in their order, each of which counts once."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from hobus.bus.clock import SystemClock
from hobus.launch.cli.chat.run_commands import is_command, is_run_command


@dataclass(slots=True)
class Said:
    """One line; its command id makes it count once, however often it has to be sent."""

    line: str
    command_id: str
    is_sent: bool = False  # it may have been heard: it is sent again as the same command

    @property
    def text(self) -> str:
        """The line without what surrounds it."""
        return self.line.strip()

    @property
    def is_message(self) -> bool:
        """Whether it is for the agent, and begins a turn."""
        return not is_command(self.line)

    @property
    def is_run_command(self) -> bool:
        """Whether it acts on the turn that runs."""
        return is_run_command(self.line)


def said(line: str) -> Said:
    """The line, with an id of its own."""
    return Said(line, f"chat-{SystemClock().new_id()}")


class Sayings:
    """What was said and not heard yet, in its order."""

    def __init__(self) -> None:
        self.lines: deque[Said] = deque()
        self._is_news = asyncio.Event()

    def add(self, line: str) -> None:
        """One more; blank ones are none."""
        if line.strip():
            self.lines.append(said(line))
            self._is_news.set()

    async def first(self) -> Said:
        """The one to be heard next, which stays; waits for it."""
        while not self.lines:
            self._is_news.clear()
            await self._is_news.wait()
        return self.lines[0]
