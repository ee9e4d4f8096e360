"""One conversation from the client's side: its session, its turns, and those that nobody waited for to the end.

Lines that were typed or piped in are taken in their order, and each of them counts once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from hobus.bus import limits
from hobus.bus.clock import SystemClock
from hobus.bus.errors import VERDICT_CODES, RuntimeFault
from hobus.bus.messages.gateway import Budget, ReadBudget
from hobus.bus.messages.ids import derive_session_id
from hobus.bus.messages.session import (
    EndSession,
    FollowUp,
    ProcessTurn,
    SessionClosed,
    SessionConfig,
    SessionView,
    TurnResult,
)
from hobus.launch.cli.answer_view import AnswerView, show_end
from hobus.launch.cli.chat.run_commands import (
    is_command,
    is_run_command,
    make_refused,
    needs_held,
    parse_command,
    render_applied,
)
from hobus.launch.cli.outcome import RUN_WAITING, Line
from hobus.launch.cluster.client import ask_operator, connect_bus, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import RunFile, find_running
from hobus.launch.sessions.commands import Fences, make_host_command, read_view, send_command
from hobus.launch.sessions.notifications import Noticed, describe_in_chat, read_body_text, read_newest
from hobus.launch.sessions.summary import SessionStanding, fold_standing
from hobus.launch.sessions.turns import run_beside
from hobus.launch.sessions.watched_turn import ROLE, answer_of


@dataclass(slots=True)
class TypedLine:
    """One line; its command id makes it count once, however often it has to be sent."""

    line: str
    command_id: str
    is_sent: bool = False  # it may have been heard: it is sent again as the same command

    @property
    def text(self) -> str:
        return self.line.strip()

    @property
    def is_message(self) -> bool:
        return not is_command(self.line)

    @property
    def is_run_command(self) -> bool:
        return is_run_command(self.line)


def read_typed(line: str) -> TypedLine:
    return TypedLine(line, f"chat-{SystemClock().new_id()}")


class Sayings:
    """What was said and not heard yet, in its order."""

    def __init__(self) -> None:
        self.lines: deque[TypedLine] = deque()
        self._is_news = asyncio.Event()

    def add(self, line: str) -> None:
        if line.strip():
            self.lines.append(read_typed(line))
            self._is_news.set()

    async def first(self) -> TypedLine:
        """Wait for, and return, the line to be heard next, which stays."""
        while not self.lines:
            self._is_news.clear()
            await self._is_news.wait()
        return self.lines[0]


Other = Callable[[Place, str, str], Coroutine[Any, Any, None]]
"""Goes on beside a waiting: for the place, the session and the input that is waited for."""


class Talk:
    """Turns of one session after another. Each call opens a connection of its own and leaves nothing behind.

    So nothing stands still while a person thinks, and a cluster that was restarted meanwhile is found again.
    """

    def __init__(self, home: Home, *, agent_id: str | None, timeout_s: float | None, is_streamed: bool) -> None:
        self.home = home
        self._run: RunFile | None = None
        self._place: Place | None = None
        self._timeout_s = timeout_s
        self._is_streamed = is_streamed
        self._waited_for: str | None = None  # session of the turn that is being waited for
        self._is_active = False  # a run was seen for it
        self.agent_id = agent_id  # of new sessions, and of one that is continued; None: the configured one, or any
        self.overrides: SessionConfig | None = None  # of every message that is sent as a turn of its own
        self.session_id: str | None = None
        self.unfetched: ProcessTurn | None = None  # a turn that may go on, or be answered already
        self.follow_ups: deque[ProcessTurn] = deque()  # whose runs come, or came, after it
        self.sayings = Sayings()
        self.own_commands: set[str] = set()
        self.shown_calls: set[str] = set()  # that wait for an approval, as they were told of

    @property
    def current_session(self) -> str | None:
        """Return the session of the turn that is being waited for, else of the last one."""
        return self._waited_for or self.session_id

    def place(self) -> Place:
        """Return the cluster that runs now. Raises CommandError (not reachable) when there is none."""
        run = find_running(self.home)
        known = self._run
        if (
            self._place is None
            or known is None
            or (known.sockets, known.launcher_mark) != (run.sockets, run.launcher_mark)
        ):
            self._run, self._place = run, place_of(self.home, run)
        return self._place

    # --- turns --------------------------------------------------------------------------------------------------------

    def make_turn(self, text: str) -> ProcessTurn:
        """Return the next turn, under an input id of its own."""
        return self._make_turn(self.session_id, SystemClock().new_id(), text)

    async def answer(self, turn: ProcessTurn, view: AnswerView, others: Sequence[Other] = ()) -> TurnResult:
        """Return the turn's one answer, shown; wait for a turn of somebody else to be over.

        Interrupted or without an answer, the turn stays the unfetched one; one that was refused begins no session.
        Raises RuntimeFault, CommandError.
        """
        place = self.place()
        session_id = turn.session_id or derive_session_id(ROLE, turn.input_id)
        self._waited_for, self._is_active = session_id, False
        view.begin()
        try:
            result = await run_beside(
                self._ask_until_answered(place, turn, view),
                *(other(place, session_id, turn.input_id) for other in others),
            )
        except BaseException as error:
            view.abandon()
            if not (isinstance(error, RuntimeFault) and error.code in VERDICT_CODES):
                self.unfetched = turn
                self.session_id = session_id
            raise
        finally:
            self._waited_for = None
        show_end(view, result)
        if result.code == RUN_WAITING:
            self.unfetched = turn
        elif self.unfetched is not None and self.unfetched.input_id == turn.input_id:
            self.unfetched = None
        if turn.session_id is not None or result.outcome != "error" or result.run_id is not None:
            self.session_id = result.session_id
        return result

    async def _ask_until_answered(self, place: Place, turn: ProcessTurn, view: AnswerView) -> TurnResult:
        """Ask again where the turn stands still longer than one asking takes, unless a time was given."""
        limit_s = self._timeout_s or place.snapshot.config.host.turn_timeout_ms / 1000
        while True:
            result = await answer_of(place, turn, timeout_s=limit_s, on_stream=view.on_frame, waits_for_its_turn=True)
            if result.code != RUN_WAITING or self._timeout_s is not None:
                return result

    def _make_turn(self, session_id: str | None, input_id: str, text: str) -> ProcessTurn:
        return ProcessTurn(
            session_id=session_id, input_id=input_id, text=text, agent_id=self.agent_id, run_overrides=self.overrides,
            stream=self._is_streamed,
        )  # fmt: skip

    # --- commands -----------------------------------------------------------------------------------------------------

    async def is_active(self, place: Place, session_id: str, input_id: str) -> None:
        """Wait until the turn has begun: what is said at once would find nothing to act on."""
        clock = SystemClock()
        deadline = clock.monotonic() + place.client_timeout_s
        while not self._is_active and clock.monotonic() < deadline:
            async with connect_bus(place, "operator") as bus:
                entries = await read_newest(place, bus, session_id)
            self._is_active = bool(fold_standing(entries).input_id) or any(
                entry.submission_id.endswith(f"/{input_id}") for entry in entries
            )
            if not self._is_active:
                await asyncio.sleep(limits.RETRY_INTERVAL_MS / 1000)

    async def send_command(self, place: Place, session_id: str, said: TypedLine) -> list[Line]:
        """Return what became of a line that acts on the run, or follows up. Raises RuntimeFault, CommandError."""
        if said.is_message:
            command = FollowUp(text=said.text)
        else:
            held = (await self._read_standing(place, session_id)).held_calls() if needs_held(said.text) else ()
            command = parse_command(said.text, [one for one in held if one.call_id in self.shown_calls])
        self.own_commands.add(said.command_id)
        said.is_sent = True
        sent = make_host_command(session_id, command, Fences(), said.command_id)
        verdict = await send_command(place, session_id, sent, timeout_s=place.client_timeout_s)
        if verdict.outcome == "rejected":
            said.is_sent = False
            raise make_refused(verdict)
        if isinstance(command, FollowUp) and verdict.input_id is not None:
            self.follow_ups.append(self._make_turn(session_id, verdict.input_id, command.text))
        return [render_applied(verdict, command)]

    async def command(self, said: TypedLine) -> list[Line]:
        """Do as `commanded` in the session of the last turn, while nothing is waited for."""
        if self.session_id is None:
            return [("there is no session yet: the first message begins one", "bright_black")]
        return await self.send_command(self.place(), self.session_id, said)

    async def _read_standing(self, place: Place, session_id: str) -> SessionStanding:
        async with connect_bus(place, "operator") as bus:
            return fold_standing(await read_newest(place, bus, session_id))

    async def found(self) -> list[Line]:
        """Return how a continued session stands; a turn of it that is not over is one that `/wait` waits for."""
        session_id, place = self.session_id or "", self.place()
        noticed = Noticed(session_id, says=describe_in_chat, shown=self.shown_calls)
        async with connect_bus(place, "operator") as bus:
            noticed.catch_up(await read_newest(place, bus, session_id), input_id="")
            ref = noticed.standing.input_ref
            text = await read_body_text(bus, ref, timeout_s=place.client_timeout_s) if ref else None
        if not noticed.standing.input_id:
            return []
        if text is not None:
            self.unfetched = self._make_turn(session_id, noticed.standing.input_id, text)
        stands = noticed.describe_standing() or [("a turn of this session is at work", "yellow")]
        return [*stands, ("/wait shows its answer when it is there", "bright_black")]

    # --- the session --------------------------------------------------------------------------------------------------

    def leave_session(self) -> None:
        self.session_id = self.unfetched = None
        self.follow_ups.clear()

    async def end_session(self) -> int | None:
        """Leave and close the session; return how many turns it had, None: unknown, nor whether it is closed."""
        place, question = self.place(), EndSession(session_id=self.session_id or "")
        async with connect_bus(place, ROLE) as bus:
            closed = await bus.request("host", question, expect=SessionClosed, timeout_s=place.client_timeout_s)
        self.leave_session()
        return closed.turn_count

    async def view(self) -> SessionView:
        place = self.place()
        return await read_view(place, self.current_session or "", timeout_s=place.client_timeout_s)

    async def budget(self) -> Budget:
        return await ask_operator(self.place(), "gateway", ReadBudget(session_id=self.current_session or ""), Budget)
