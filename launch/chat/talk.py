"""One conversation from the client's side: its session, its turns, and the one that nobody waited for to the end."""

from __future__ import annotations

import asyncio

from bus.clock import SystemClock
from bus.errors import VERDICT_CODES, RuntimeFault
from bus.messages.gateway import Budget, ReadBudget
from bus.messages.ids import session_id_of
from bus.messages.session import EndSession, ProcessTurn, ReadSession, SessionClosed, SessionView, TurnResult
from launch.chat.showing import View, show_end
from launch.client import connected, place_of
from launch.commands.options import running
from launch.door import ROLE, answer_of
from launch.endpoints import Place
from launch.home import Home
from launch.run_file import RunFile


class Talk:
    """Turns of one session after another. Each call opens a connection of its own and leaves nothing behind.

    So nothing stands still while a person thinks, and a cluster that was restarted meanwhile is found again.
    """

    def __init__(self, home: Home, *, session_id: str | None, timeout_s: float | None, is_streamed: bool) -> None:
        self._home = home
        self._run: RunFile | None = None
        self._place: Place | None = None
        self._timeout_s = timeout_s
        self._is_streamed = is_streamed
        self.session_id = session_id
        self.unfetched: ProcessTurn | None = None  # a turn that may go on, or be answered already

    def place(self) -> Place:
        """The cluster that runs now. Raises CommandError (not reachable) when there is none."""
        run = running(self._home)
        known = self._run
        if (
            self._place is None
            or known is None
            or (known.sockets, known.launcher_mark) != (run.sockets, run.launcher_mark)
        ):
            self._run, self._place = run, place_of(self._home, run)
        return self._place

    def turn_of(self, text: str) -> ProcessTurn:
        """The next turn, under an input id of its own."""
        return ProcessTurn(
            session_id=self.session_id, input_id=SystemClock().new_id(), text=text, stream=self._is_streamed
        )

    def answer(self, turn: ProcessTurn, view: View) -> TurnResult:
        """The turn's one answer, shown; an error's sentence is none. It waits for a turn of somebody else to be over.

        Interrupted or without an answer, the turn stays the unfetched one; one that was refused begins no session.

        Raises KeyboardInterrupt, RuntimeFault, CommandError.
        """
        place = self.place()
        limit_s = self._timeout_s or place.snapshot.config.host.turn_timeout_ms / 1000
        view.begin()
        try:
            result = asyncio.run(
                answer_of(place, turn, timeout_s=limit_s, on_stream=view.on_frame, waits_for_its_turn=True)
            )
        except BaseException as error:
            view.abandon()
            if not (isinstance(error, RuntimeFault) and error.code in VERDICT_CODES):
                self.unfetched = turn
                self.session_id = turn.session_id or session_id_of(ROLE, turn.input_id)
            raise
        show_end(view, result)
        if self.unfetched is not None and self.unfetched.input_id == turn.input_id:
            self.unfetched = None
        if turn.session_id is not None or result.outcome != "error" or result.run_id is not None:
            self.session_id = result.session_id
        return result

    def leave_session(self) -> None:
        """The next message begins a new one."""
        self.session_id = self.unfetched = None

    def end_session(self) -> int:
        """The session is closed; how many turns it had."""
        session_id = self.session_id or ""

        async def close(place: Place) -> SessionClosed:
            async with connected(place, ROLE) as bus:
                return await bus.request(
                    "host", EndSession(session_id=session_id), expect=SessionClosed, timeout_s=_client_s(place)
                )

        closed = asyncio.run(close(self.place()))
        self.leave_session()
        return closed.turn_count

    def view(self) -> SessionView:
        """What the supervisor knows of the session."""
        session_id = self.session_id or ""

        async def read(place: Place) -> SessionView:
            async with connected(place, "operator") as bus:
                return await bus.request(
                    "ho2", ReadSession(session_id=session_id), expect=SessionView, timeout_s=_client_s(place),
                    key=session_id,
                )  # fmt: skip

        return asyncio.run(read(self.place()))

    def budget(self) -> Budget:
        """What the session was allowed and used."""
        return asyncio.run(read_budget(self.place(), self.session_id or ""))


async def read_budget(place: Place, session_id: str) -> Budget:
    """The gateway's account, as an operator reads it; '' for all sessions."""
    async with connected(place, "operator") as bus:
        return await bus.request(
            "gateway", ReadBudget(session_id=session_id), expect=Budget, timeout_s=_client_s(place)
        )


def _client_s(place: Place) -> float:
    return place.snapshot.config.launcher.client_timeout_ms / 1000
