"""While a turn is waited for: its journal is followed, and what is typed or piped in is heard at once."""

from __future__ import annotations

from hobus.bus.errors import RuntimeFault
from hobus.launch.cli.answer_view import AnswerView
from hobus.launch.cli.chat.piped import PipedLines, readable
from hobus.launch.cli.chat.run_commands import is_run_command
from hobus.launch.cli.chat.slash import LEAVING, told
from hobus.launch.cli.chat.talk import Other, Talk, TypedLine
from hobus.launch.cli.outcome import failed
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError
from hobus.launch.sessions.notifications import Noticed, follow, in_chat, in_shell

_DIM = "bright_black"
_LATER = "it is kept, and sent when this turn is over"
_FOR_LATER = LEAVING | {"/wait", "/new", "/end"}


class Meanwhile:
    """What goes on beside one waiting; `pipe` is where lines come from that nobody types."""

    def __init__(
        self, talk: Talk, view: AnswerView, *, pipe: tuple[int, PipedLines] | None = None, is_fresh: bool = True
    ) -> None:
        self._talk = talk
        self._view = view
        self._pipe = pipe
        self._is_fresh = is_fresh  # nobody has seen anything of the turn yet
        self.codes: list[int] = []  # of commands that failed

    @property
    def others(self) -> tuple[Other, ...]:
        """All of it, each of which goes on until the turn is over."""
        return (self._follow, self._hear) if self._pipe is None else (self._follow, self._hear, self._listen)

    async def _follow(self, place: Place, session_id: str, input_id: str) -> None:
        """Tells of pauses, approvals, steers and take-overs, whoever is behind them."""
        # Who pipes lines in may have no more of them: a shell lets the turn go on from anywhere.
        says, talk = in_shell if self._pipe else in_chat, self._talk
        noticed = Noticed(session_id, says=says, own=talk.own_commands, shown=talk.shown_calls)
        await follow(place, session_id, input_id if self._is_fresh else "", noticed, self._view.tell)

    async def _listen(self, _place: Place, _session_id: str, _input_id: str) -> None:
        """Commands for this turn are taken; the first line that is none of them waits for its own turn."""
        assert self._pipe is not None  # noqa: S101 - `others` asks
        descriptor, lines = self._pipe
        while True:
            while ahead := lines.ahead:
                if ahead[0] is None or not is_run_command(ahead[0]):
                    return
                self._talk.sayings.add(lines.take() or "")
            if lines.is_over:
                return
            await readable(descriptor)
            lines.read_more()

    async def _hear(self, place: Place, session_id: str, input_id: str) -> None:
        """One line after the other, as far as they can be heard before the turn is over."""
        sayings = self._talk.sayings
        while await self._heard(await sayings.first(), place, session_id, input_id):
            sayings.lines.popleft()

    async def _heard(self, said: TypedLine, place: Place, session_id: str, input_id: str) -> bool:
        """Whether nothing of it is left to be done after the turn."""
        if said.text in _FOR_LATER:
            return False
        try:
            if said.is_run_command or said.is_message:
                await self._talk.is_active(place, session_id, input_id)
                self._view.tell(await self._talk.commanded(place, session_id, said))
            else:
                self._view.tell(await told(said.text, self._talk))
        except (RuntimeFault, CommandError) as error:
            self.codes.append(error.exit_code if isinstance(error, CommandError) else 1)
            self._view.tell([*failed(error), *([(_LATER, _DIM)] if said.is_message else [])])
            return not said.is_message
        return True
