"""While a turn is waited for: its journal is followed, and what somebody types is heard at once."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from hobus.bus.errors import RuntimeFault
from hobus.launch.cli.chat.composer import Composer
from hobus.launch.cli.chat.outcome import failed
from hobus.launch.cli.chat.piped import PipedLines
from hobus.launch.cli.chat.run_commands import is_run_command
from hobus.launch.cli.chat.said import Said, Sayings
from hobus.launch.cli.chat.showing import View
from hobus.launch.cli.chat.slash import told_meanwhile
from hobus.launch.cli.chat.talk import Talk
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError
from hobus.launch.console.output import is_terminal
from hobus.launch.sessions.following import follow
from hobus.launch.sessions.notifications import Noticed, in_chat, in_shell

_DIM = "bright_black"
_READ_AT_ONCE = 4096
_LATER = "it is kept, and sent when this turn is over"
_FOR_LATER = frozenset({"/wait", "/new", "/end", "/quit"})


class Meanwhile:
    """What goes on beside one waiting. `keyboard` or `pipe` is where lines come from; None: from nowhere."""

    def __init__(
        self,
        talk: Talk,
        view: View,
        *,
        keyboard: int | None = None,
        pipe: tuple[int, PipedLines] | None = None,
        is_fresh: bool = True,
    ) -> None:
        self._talk = talk
        self._view = view
        self._keyboard = keyboard
        self._pipe = pipe
        self._is_fresh = is_fresh  # nobody has seen anything of the turn yet
        self._composer = Composer()
        self._is_news = asyncio.Event()
        self.codes: list[int] = []  # of commands that failed

    @property
    def sayings(self) -> Sayings:
        """Of this chat."""
        return self._talk.sayings

    async def follow(self, place: Place, session_id: str, input_id: str) -> None:
        """Tells of pauses, approvals, steers and take-overs, whoever is behind them."""
        # Who pipes lines in may have no more of them: a shell lets the turn go on from anywhere.
        says = in_shell if self._keyboard is None else in_chat
        noticed = Noticed(session_id, says=says, own=self._talk.own_commands)
        await follow(place, session_id, input_id if self._is_fresh else "", noticed, self._view.tell)

    async def listen(self, _place: Place, _session_id: str, _input_id: str) -> None:
        """Reads what is typed, or what a pipe brings for the turn that runs."""
        try:
            if self._keyboard is not None:
                await self._listen_to_keyboard(self._keyboard)
            elif self._pipe is not None:
                await self._listen_to_pipe(*self._pipe)
        finally:
            self.sayings.begun = self._composer.taken()

    async def hear(self, place: Place, session_id: str, input_id: str) -> None:
        """One line after the other, as far as they can be heard before the turn is over."""
        while True:
            while not self.sayings.lines:
                self._is_news.clear()
                await self._is_news.wait()
            if not await self._heard(self.sayings.lines[0], place, session_id, input_id):
                return
            self.sayings.lines.popleft()

    # --- where lines come from ----------------------------------------------------------------------------------------

    async def _listen_to_keyboard(self, descriptor: int) -> None:
        while not self._composer.is_left:
            await readable(descriptor)
            data = os.read(descriptor, _READ_AT_ONCE)
            for line in self._composer.feed(data):
                self._add(line)
            self._view.show_typed(self._composer.text)
            if not data or self._composer.is_left:  # nothing: Ctrl-D, where lines come whole
                self.sayings.is_left = True
                return

    async def _listen_to_pipe(self, descriptor: int, lines: PipedLines) -> None:
        """Commands for this turn are taken; the first line that is none of them waits for its own turn."""
        while True:
            while ahead := lines.ahead:
                if ahead[0] is None or not is_run_command(ahead[0]):
                    return
                self._add(lines.take() or "")
            if lines.is_over:
                return
            await readable(descriptor)
            lines.read_more()

    def _add(self, line: str) -> None:
        if line.strip():
            self.sayings.add(line)
            self._is_news.set()

    # --- what becomes of them -----------------------------------------------------------------------------------------

    async def _heard(self, said: Said, place: Place, session_id: str, input_id: str) -> bool:
        """Whether nothing of it is left to be done after the turn."""
        if said.text in _FOR_LATER:
            return False
        if self._keyboard is not None:
            self._view.tell([(f"you> {said.text}", "")])
        try:
            if said.is_run_command or said.is_message:
                await self._talk.is_active(place, session_id, input_id)
                self._view.tell(await self._talk.commanded(place, session_id, said))
            else:
                self._view.tell(await told_meanwhile(said.text.split()[0], self._talk))
        except (RuntimeFault, CommandError) as error:
            self.codes.append(error.exit_code if isinstance(error, CommandError) else 1)
            self._view.tell([*failed(error), *([(_LATER, _DIM)] if said.is_message else [])])
            return not said.is_message
        return True


def keyboard() -> int | None:
    """Standard input, where somebody types."""
    return sys.stdin.fileno() if is_terminal(sys.stdin) else None


async def readable(descriptor: int) -> None:
    """There is something to read, or the end; of a file always."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, _once(ready))
    except OSError:  # a file, which no loop can watch
        return
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _once(ready: asyncio.Future[None]) -> Callable[[], None]:
    def arrived() -> None:
        if not ready.done():
            ready.set_result(None)

    return arrived
