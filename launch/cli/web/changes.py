"""Who is told that a page would look otherwise now: one long poll of the record for all browsers.

A browser that is told fetches its page anew. Nothing of the record goes through here but which sessions changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from time import process_time

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import Entries, Tail
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.source import HomeSource
from hobus.launch.console.errors import CommandError
from hobus.launch.http.sse import PING, make_frame


@dataclass(slots=True, eq=False)
class _Follower:
    of: str
    """A session; `*`: any of them; `beats`: what stands in no record, too."""
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Changes:
    """The followers of one console."""

    def __init__(self, source: HomeSource) -> None:
        self._source = source
        self._followers: set[_Follower] = set()
        self._poll: asyncio.Task[None] | None = None
        self._paced = (float("-inf"), 0.0)
        """When a pause was counted last, and the processor time that was spent until then."""
        self._hurries_until = float("-inf")

    @property
    def streams(self) -> int:
        """How many are open."""
        return len(self._followers)

    async def frames(self, of: str, *, after: int) -> AsyncGenerator[str]:
        """Yield `changed` when this session has; `*`: when any has; `beats`: regularly. Ends with its reader.

        `after`: the record's last entry when the page was made; if there is a later one, the first comes at once.
        """
        one = _Follower(of)
        self._followers.add(one)
        if self._poll is None or self._poll.done():
            self._poll = asyncio.get_running_loop().create_task(self._follow())
        try:
            yield make_frame("{}", event="begun")
            with suppress(RuntimeFault, CommandError):
                if await self._source.head() > after:
                    one.news.set()
            while True:
                try:
                    async with asyncio.timeout(limits.PING_S):
                        await one.news.wait()
                except TimeoutError:
                    yield PING
                    continue
                one.news.clear()
                yield make_frame("{}", event="changed")
        finally:
            self._followers.discard(one)

    def hurry(self) -> None:
        """Tell of changes without longer pauses for a while: somebody did something, and looks what becomes of it."""
        self._hurries_until = self._source.clock.monotonic() + limits.HURRY_S

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
                place, bus = await self._source.connection("ledger")
                question = Tail(after=seen, limit=limits.TAIL_MAX, wait_ms=limits.TAIL_WAIT_MS)
                wait_s = place.client_timeout_s + limits.TAIL_WAIT_MS / 1000
                page = await bus.request("ledger", question, expect=Entries, timeout_s=wait_s)
                seen = max(seen, page.head)
                changed = {entry.provenance.session_id for entry in page.entries}
                changed, is_there = None if page.more or not is_there else changed, True
            except (RuntimeFault, CommandError):
                changed, is_there = None if is_there else set[str](), False
            await asyncio.sleep(self._pause_s())  # further ones come with it, and the index follows
            self._tell(changed)

    def _pause_s(self) -> float:
        """Return how long nobody is told: the longer, the more processor time pages took since the pause before."""
        (before, spent_before), now, spent = self._paced, self._source.clock.monotonic(), process_time()
        self._paced = (now, spent)
        owed_s = (spent - spent_before) / limits.SHARE - (now - before)
        return limits.TICK_S if now < self._hurries_until else min(limits.PAUSE_MAX_S, max(limits.TICK_S, owed_s))

    def _tell(self, sessions: set[str] | None) -> None:
        """Tell followers of these sessions, None: of every one; those of the beats in any case."""
        if sessions is None or sessions:
            self._source.forget()  # who is told asks anew, and is not answered by what was read before
        told = {"beats", *(sessions or ()), *("*" if sessions else "")}
        for one in self._followers:
            if sessions is None or one.of in told:
                one.news.set()
