"""A client of a cluster on this machine, over its bus: `ClusterClient`, and `AsyncClusterClient` with an event loop.

    with ClusterClient(".hobus") as client:
        answer = client.ask("is the ledger intact?")

It needs the `hobus` user of the cluster, no key and no HTTP door. A message has one input id, whatever happens on the
way, and is answered once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

from msgspec import convert

from hobus.bus.messages.base import Message
from hobus.bus.messages.session import (
    Command,
    CommandVerdict,
    EndSession,
    SessionClosed,
    SessionConfig,
    SessionReady,
    SessionView,
    StartSession,
    TurnResult,
)
from hobus.bus.messages.streams import StreamDelta, StreamReset
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus, find_cluster
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home, make_home
from hobus.launch.cluster.run_file import find_gone
from hobus.launch.console.errors import CommandError, UnreachableFault
from hobus.launch.limits import SESSIONS_LISTED_MAX
from hobus.launch.sessions.client_errors import (
    RequestError,
    check_limit,
    check_seconds,
    require_answer,
    translate_errors,
)
from hobus.launch.sessions.commands import Fences, draw_id, make_host_command, read_view, send_command
from hobus.launch.sessions.journal import FromLedger, list_rows
from hobus.launch.sessions.named import find_named_session
from hobus.launch.sessions.session_client import AsyncSessions, Piece, Question, Sessions
from hobus.launch.sessions.summary import SessionRow
from hobus.launch.sessions.turns import process_turn


@translate_errors
class AsyncClusterClient(AsyncSessions):
    """Ask the cluster of one home. Open it with `async with`, or `await AsyncClusterClient.open(home)`."""

    agent_id: str | None = None
    """Who answers in sessions that it begins, where none is named; None: `host.agent_id`."""

    def __init__(self, place: Place, bus: Bus, held: AsyncExitStack, *, timeout_s: float) -> None:
        """Hold what `open` made."""
        self._place = place
        self._bus = bus
        self._held = held
        self._timeout_s = timeout_s

    @classmethod
    async def open(cls, home: str | Path = ".hobus", *, timeout_s: float = 600.0) -> Self:
        """Connect to the cluster that runs in this home; `timeout_s` bounds each call with all its tries.

        Raises HobusError when there is none, or its broker does not answer.
        """
        return await connect(cls, make_home(Path(home)), AsyncExitStack(), timeout_s=timeout_s)

    @property
    def home(self) -> Path:
        """Return the directory that `--home` of every command takes."""
        return self._place.home.root

    async def _session_named(self, given: str) -> str:
        """Look the session up in the record, as an operator may."""
        return await find_named_session(self._place, given, called="session_id")

    async def _disconnect(self) -> None:
        await self._held.aclose()

    async def start(self, *, agent_id: str | None = None, model: str | None = None) -> str:
        """Start a session and return its id; `model`: `PROVIDER/MODEL` of its turns."""
        question = StartSession(agent_id=agent_id or self.agent_id, session_config=SessionConfig(model=model))
        ready = await self._bus.request("host", question, expect=SessionReady, timeout_s=self._timeout_s)
        return ready.session_id

    async def _answer(self, question: Question) -> TurnResult:
        return await self._ask(question, None)

    async def _pieces(self, question: Question) -> AsyncGenerator[Piece]:
        said: asyncio.Queue[Piece | None] = asyncio.Queue()
        asking = asyncio.get_running_loop().create_task(self._ask(question, said))
        asking.add_done_callback(lambda _: said.put_nowait(None))
        try:
            while (piece := await said.get()) is not None:
                yield piece
            yield Piece(kind="result", result=asking.result())
        finally:
            asking.cancel()

    async def sessions(self, *, is_all: bool = False, limit: int | None = None) -> list[SessionRow]:
        """Return the newest sessions of the cluster, whoever's."""
        check_limit(limit)
        async with connect_bus(self._place, "operator") as bus:
            journals = FromLedger(bus, timeout_s=self._timeout_s)
            return await list_rows(journals, limit or SESSIONS_LISTED_MAX, is_all=is_all)

    async def session(self, session_id: str) -> SessionView:
        """Return how a session stands."""
        return await read_view(self._place, session_id, timeout_s=self._timeout_s)

    async def end(self, session_id: str) -> None:
        """End the session."""
        question = EndSession(session_id=session_id)
        await self._bus.request("host", question, expect=SessionClosed, timeout_s=self._timeout_s)

    async def command(self, session_id: str, kind: str, **fields: Any) -> CommandVerdict:
        """Send a command under one id; return what became of it."""
        if kind not in {one.kind for one in get_args(Command)}:
            raise RequestError("invalid_input", f"kind: there is no command {str(kind)[:64]!r}")
        wanted = convert({"kind": kind, **fields}, Command)
        command = make_host_command(session_id, wanted, Fences(), draw_id("program"))
        return await send_command(self._place, session_id, command, timeout_s=self._timeout_s, role="door")

    # --- how it reaches the cluster -------------------------------------------------------------------------------

    async def _ask(self, question: Question, said: asyncio.Queue[Piece | None] | None) -> TurnResult:
        home = self._place.home
        turn = question.turn(
            question.input_id or self._bus.new_id(),
            session_id=question.session_id,
            agent_id=None if question.session_id else self.agent_id,
            stream=said is not None,
        )

        def hear(message: Message) -> None:
            assert said is not None  # noqa: S101 - told where something listens
            if isinstance(message, StreamDelta):
                said.put_nowait(Piece(kind="delta", text=message.text))
            elif isinstance(message, StreamReset):
                said.put_nowait(Piece(kind="reset", data={"reason": message.reason}))
            else:
                said.put_nowait(Piece(kind="waiting", data=message.model_dump(mode="json")))

        try:
            result = await process_turn(
                self._bus,
                turn,
                timeout_s=self._timeout_s,
                # A cluster that is simulated ends with this process alone.
                find_gone=None if self._place.connect else lambda: find_gone(home),
                on_stream=hear if said is not None else None,
            )
        except CommandError as gone:  # what becomes of the turn stands in the record
            raise UnreachableFault(f"{gone.message} (input {turn.input_id})", hint=gone.hint) from None
        return require_answer(result)


A = TypeVar("A", bound=AsyncClusterClient)


async def connect(cls: type[A], home: Home, held: AsyncExitStack, *, timeout_s: float) -> A:
    """Return a client of the cluster that runs in this home, whose end closes what is `held`; a fault does at once."""
    async with held:
        check_seconds(timeout_s)
        place = find_cluster(home)
        bus = await held.enter_async_context(connect_bus(place, "door"))
        return cls(place, bus, held.pop_all(), timeout_s=timeout_s)


class ClusterClient(Sessions[AsyncClusterClient]):
    """`AsyncClusterClient` for programs without an event loop."""

    def __init__(self, home: str | Path = ".hobus", *, timeout_s: float = 600.0) -> None:
        """Connect. Raises HobusError when no cluster runs in this home, or its broker does not answer."""
        super().__init__(lambda: AsyncClusterClient.open(home, timeout_s=timeout_s))

    @property
    def home(self) -> Path:
        """Return the directory that `--home` of every command takes."""
        return self.client.home
