"""Turns that were asked for from a page: each goes on whoever watches, and its answer is told while it is written.

What counts is the record; pieces are kept as long as the turn is under way, for browsers that come meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from starlette.requests import Request
from starlette.responses import Response

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import Message
from hobus.bus.messages.session import ProcessTurn
from hobus.launch.cli.answer_view import Provisional
from hobus.launch.cli.web import limits
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError, UsageFault
from hobus.launch.http.sse import PING, make_frame, make_stream
from hobus.launch.sessions.watched_turn import answer_of


class PageTalk:
    """One turn under way."""

    def __init__(self, place: Place, turn: ProcessTurn, when_over: Callable[[], None]) -> None:
        self.turn = turn
        self._when_over = when_over
        self.is_over = False
        self.is_lost = False  # over, and nothing of it in the record: only this console knows its text
        self.fault = ""
        self._place = place
        self._seen = Provisional()
        self._news = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def frames(self) -> AsyncGenerator[str]:
        """Yield `text` as it grows, `anew` where it is another one, `over` at its end."""
        sent = ""
        while True:
            news, text = self._news, self._seen.text
            if text.startswith(sent) and text != sent:
                yield make_frame({"text": text[len(sent) :]}, event="text")
            elif text != sent or not text:
                yield make_frame({"text": text, "notice": self._seen.notice}, event="anew")
            sent = text
            if self.is_over:
                yield make_frame({"fault": self.fault}, event="over")
                return
            try:
                async with asyncio.timeout(limits.PING_S):
                    await news.wait()
            except TimeoutError:
                yield PING

    async def _run(self) -> None:
        timeout_s = self._place.snapshot.config.host.turn_timeout_ms / 1000
        try:
            result = await answer_of(
                self._place, self.turn, timeout_s=timeout_s, on_stream=self._hear, waits_for_its_turn=True
            )
            self.fault = result.response if result.outcome == "error" else ""
            self.is_lost = bool(self.fault) and result.run_id is None
        except (RuntimeFault, CommandError) as fault:
            self.fault, self.is_lost = str(fault), True
        finally:
            self.is_over = True
            self._when_over()
            self._tell()

    def _hear(self, message: Message) -> None:
        self._seen.take(message)
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


class Talks:
    """The newest turns of this console."""

    def __init__(self) -> None:
        self._talks: dict[str, PageTalk] = {}

    def begin(self, place: Place, turn: ProcessTurn, when_over: Callable[[], None]) -> None:
        """Ask the turn. Raises CommandError where too many are under way."""
        over = [name for name, one in self._talks.items() if one.is_over]
        for name in over[: max(0, len(self._talks) - limits.TALKS_MAX + 1)]:
            del self._talks[name]
        if len(self._talks) >= limits.TALKS_MAX:
            raise CommandError("this console already runs its maximum number of turns")
        self._talks[turn.input_id] = PageTalk(place, turn, when_over)

    def of_session(self, session_id: str) -> PageTalk | None:
        return next((one for one in reversed(self._talks.values()) if one.turn.session_id == session_id), None)

    async def stream(self, request: Request) -> Response:
        talk = self._talks.get(request.path_params["input_id"])
        if talk is None:
            raise UsageFault("no such turn is under way from this console", code="not_found")
        return make_stream(talk.frames())

    async def close(self) -> None:
        """Stop waiting; the turns go on."""
        tasks = [one.task for one in self._talks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


TALKS = Talks()
"""Of this process, which serves one console."""
