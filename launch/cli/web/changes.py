"""Who is told that a page would look otherwise now: one long poll of the record for all browsers.

A browser that is told fetches its page anew. Nothing of the record goes through here but which sessions changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
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
        self.streams = 0
        """How many are open."""
        self._followers: set[_Follower] = set()
        self._poll: asyncio.Task[None] | None = None
        self._lists_at = float("-inf")
        """When those of all sessions were told last."""
        self._lists_due: float | None = None
        """When they are told next; None: nothing has changed since."""

    async def frames(self, session_id: str, *, with_beats: bool) -> AsyncGenerator[str]:
        """Yield `changed` when the session has, "": when any has; `with_beats`: regularly. Ends with its reader."""
        self.streams += 1
        try:
            yield frame("{}", event="begun")
            async with aclosing(_beats() if with_beats else self._changes(session_id)) as told:
                async for one in told:
                    yield one
        finally:
            self.streams -= 1

    async def _changes(self, session_id: str) -> AsyncGenerator[str]:
        one = _Follower(session_id)
        self._followers.add(one)
        if self._poll is None or self._poll.done():
            self._poll = asyncio.get_running_loop().create_task(self._follow())
        try:
            while True:
                try:
                    async with asyncio.timeout(limits.PING_S):
                        await one.news.wait()
                except TimeoutError:
                    yield PING
                    continue
                one.news.clear()
                yield frame("{}", event="changed")
        finally:
            self._followers.discard(one)

    async def close(self) -> None:
        if self._poll is not None:
            self._poll.cancel()
            await asyncio.gather(self._poll, return_exceptions=True)

    async def _follow(self) -> None:
        seen, is_there = -1, True
        while self._followers:
            try:
                if seen < 0:
                    seen = await self._source.head()
                place, bus = await self._source.connection()
                wait_ms = limits.TAIL_WAIT_MS if self._lists_due is None else limits.LISTS_MS
                question = Tail(after=seen, limit=limits.TAIL_MAX, wait_ms=wait_ms)
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
        """Tell followers of these sessions; of all sessions less often and together, so that one read serves them."""
        now = self._source.clock.monotonic()
        if sessions is None or sessions:
            self._source.forget()  # who is told asks anew, and is not answered by what was read before
            self._lists_due = (
                max(now, self._lists_at + limits.LISTS_MS / 1000) if self._lists_due is None else self._lists_due
            )
        for one in self._followers:
            if one.session_id and (sessions is None or one.session_id in sessions):
                one.news.set()
        if self._lists_due is not None and self._lists_due <= now:
            self._lists_at, self._lists_due = now, None
            for one in self._followers:
                if not one.session_id:
                    one.news.set()


async def _beats() -> AsyncGenerator[str]:
    """Yield beats for pages of what stands in no record; all browsers together, so that one read serves them."""
    while True:
        await asyncio.sleep(limits.BEAT_S - asyncio.get_running_loop().time() % limits.BEAT_S)
        yield frame("{}", event="changed")
