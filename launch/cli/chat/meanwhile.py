"""While a turn is waited for: its journal is followed, and what is typed is heard at once."""

from __future__ import annotations

from hobus.bus.errors import RuntimeFault
from hobus.launch.cli.answer_view import AnswerView
from hobus.launch.cli.chat.slash import LEAVING, run_slash
from hobus.launch.cli.chat.talk import Other, Talk, TypedLine
from hobus.launch.cli.outcome import render_fault
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError
from hobus.launch.sessions.notifications import Noticed, describe_in_chat, describe_in_shell, follow

_DIM = "bright_black"
_LATER = "it is kept, and sent when this turn is over"
_FOR_LATER = LEAVING | {"/wait", "/new", "/end"}


class Meanwhile:
    """What goes on beside one waiting; `is_piped`: its lines come from nobody who types."""

    def __init__(self, talk: Talk, view: AnswerView, *, is_piped: bool = False, is_fresh: bool = True) -> None:
        self._talk = talk
        self._view = view
        self._is_piped = is_piped
        self._is_fresh = is_fresh  # nobody has seen anything of the turn yet

    @property
    def others(self) -> tuple[Other, ...]:
        return (self._follow,) if self._is_piped else (self._follow, self._hear)

    async def _follow(self, place: Place, session_id: str, input_id: str) -> None:
        """Tell of pauses, approvals, steers and take-overs, whoever is behind them."""
        says, talk = describe_in_shell if self._is_piped else describe_in_chat, self._talk
        noticed = Noticed(session_id, says=says, own=talk.own_commands, shown=talk.shown_calls)
        await follow(place, session_id, input_id if self._is_fresh else "", noticed, self._view.tell)

    async def _hear(self, place: Place, session_id: str, input_id: str) -> None:
        """Hear one line after the other, as far as possible before the turn is over."""
        sayings = self._talk.sayings
        while await self._heard(await sayings.first(), place, session_id, input_id):
            sayings.lines.popleft()

    async def _heard(self, said: TypedLine, place: Place, session_id: str, input_id: str) -> bool:
        """Return whether nothing of the line is left to be done after the turn."""
        if said.text in _FOR_LATER:
            return False
        try:
            if said.is_run_command or said.is_message:
                await self._talk.is_active(place, session_id, input_id)
                self._view.tell(await self._talk.send_command(place, session_id, said))
            else:
                self._view.tell(await run_slash(said.text, self._talk))
        except (RuntimeFault, CommandError) as error:
            self._view.tell([*render_fault(error), *([(_LATER, _DIM)] if said.is_message else [])])
            return not said.is_message
        return True
