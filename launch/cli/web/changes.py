"""Who is told that a page would look otherwise now: one long poll of the record for all browsers.

A browser that is told fetches its page anew. Nothing of the record goes through here but which sessions changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import Entries, Tail
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.source import HomeSource
from hobus.launch.console.errors import CommandError
from hobus.launch.http.sse import PING, frame


@dataclass(slots=True, eq=False)
class _Follower:
    session_id: str  # "": of all
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Changes:
    """The followers of one console."""

    def __init__(self, source: HomeSource) -> None:
        self._source = source
        self._followers: set[_Follower] = set()
        self._poll: asyncio.Task[None] | None = None

    @property
    def followers(self) -> int:
        """How many there are."""
        return len(self._followers)

    async def frames(self, session_id: str, *, with_beats: bool) -> AsyncGenerator[str]:
        """`changed` each time; `with_beats`: also while nothing is recorded. Ends when its reader goes."""
        one = _Follower(session_id)
        self._followers.add(one)
        if self._poll is None or self._poll.done():
            self._poll = asyncio.get_running_loop().create_task(self._follow())
        try:
            yield frame("{}", event="begun")
            while True:
                try:
                    async with asyncio.timeout(limits.BEAT_S if with_beats else limits.PING_S):
                        await one.news.wait()
                    one.news.clear()
                except TimeoutError:
                    if not with_beats:
                        yield PING
                        continue
                yield frame("{}", event="changed")
        finally:
            self._followers.discard(one)

    async def close(self) -> None:
        """Nobody is told anything more."""
        if self._poll is not None:
            self._poll.cancel()
            await asyncio.gather(self._poll, return_exceptions=True)

    async def _follow(self) -> None:
        """Until nobody follows any more."""
        seen, is_there = -1, True
        while self._followers:
            try:
                if seen < 0:
                    seen = await self._source.head()
                place, bus = await self._source.connection()
                question = Tail(after=seen, limit=limits.TAIL_MAX, wait_ms=limits.TAIL_WAIT_MS)
                wait_s = place.client_timeout_s + limits.TAIL_WAIT_MS / 1000
                page = await bus.request("ledger", question, expect=Entries, timeout_s=wait_s)
                seen = max(seen, page.head)
                await asyncio.sleep(limits.TICK_S)  # further ones come with it, and the index follows
                changed = {entry.provenance.session_id for entry in page.entries}
                self._tell(None if page.more or not is_there else changed)
                is_there = True
            except (RuntimeFault, CommandError):
                if is_there:
                    self._tell(None)
                is_there = False
                await asyncio.sleep(limits.TICK_S)

    def _tell(self, sessions: set[str] | None) -> None:
        self._source.forget()  # who is told asks anew, and is not answered by what was read before
        for one in self._followers:
            if sessions is None or (sessions and (not one.session_id or one.session_id in sessions)):
                one.news.set()
