"""What every client of sessions can do, however it reaches them: over HTTP, or over the bus of a cluster here."""

from __future__ import annotations

import asyncio
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import aclosing
from functools import wraps
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Self, TypeVar

from msgspec import ValidationError, convert, field

from hobus.bus.messages.base import Record, describe_fault
from hobus.bus.messages.given_history import GivenMessage, tell_history
from hobus.bus.messages.session import CommandVerdict, ProcessTurn, SessionConfig, SessionView, TurnResult
from hobus.launch.sessions.client_errors import RequestError, as_hobus_errors
from hobus.launch.sessions.summary import SessionRow

P = ParamSpec("P")
T = TypeVar("T")


class Piece(Record):
    """One event of a turn while it is answered: delta, reset, waiting; then result, with the TurnResult."""

    kind: str
    text: str = ""
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    result: TurnResult | None = None


class Event(Record):
    """One event of a session: `sequence` is where to go on after it."""

    sequence: int
    kind: str
    data: dict[str, Any]


def make_schema(output: type[Any] | dict[str, Any], about: str) -> dict[str, Any]:
    """Return the JSON Schema of answers that are this class (pydantic, dataclass, TypedDict), or keep this schema.

    Raises RequestError, which begins with `about`.
    """
    from pydantic import TypeAdapter  # noqa: PLC0415 - few questions need it

    try:
        if isinstance(output, dict):
            json.dumps(output, allow_nan=False)
            return output
        schema = TypeAdapter(output).json_schema()
    except Exception as error:  # noqa: BLE001 - pydantic's own kinds, and what annotations raise
        raise RequestError("invalid_input", f"{about} {output!r} has no JSON Schema: {error}") from None
    if schema.get("type") != "object":
        raise RequestError("invalid_input", f"{about} {output!r} is no object; give it as the field of a class")
    return schema


class Question(NamedTuple):
    """One message as a program asks it; without an input id it gets a new one."""

    text: str
    session_id: str | None
    input_id: str | None
    output_schema: type[Any] | dict[str, Any] | None
    template: str | None = None
    messages: Sequence[Mapping[str, str]] | None = None
    model: str | None = None

    @property
    def said(self) -> list[GivenMessage]:
        """Return the conversation that it goes on from, the question last. Raises RequestError for an invalid one."""
        if self.text:
            raise RequestError("invalid_input", "messages: in place of a text")
        try:
            return convert([dict(one) for one in self.messages or ()], list[GivenMessage])
        except ValidationError as error:
            raise RequestError("invalid_input", f"messages: {describe_fault(error)}") from None

    @property
    def overrides(self) -> dict[str, Any]:
        """Return what it asks of its run, field by field. Raises RequestError."""
        form = None if self.output_schema is None else make_schema(self.output_schema, "output_schema:")
        given = {"output_schema": form, "attention_template": self.template, "model": self.model}
        return {name: value for name, value in given.items() if value is not None}

    def turn(
        self, input_id: str, *, session_id: str | None = None, agent_id: str | None = None, stream: bool = False
    ) -> ProcessTurn:
        """Return the turn as it is sent over the bus, and checked before HTTP. Raises ValidationError, RequestError."""
        return ProcessTurn(
            session_id=session_id,
            agent_id=agent_id,
            input_id=input_id,
            text=self.text if self.messages is None else tell_history(self.said),
            run_overrides=SessionConfig(**self.overrides) if self.overrides else None,
            stream=stream,
        ).checked()


class AsyncSessions(ABC):
    """The methods of a client for programs with an event loop."""

    is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if not self.is_closed:
            self.is_closed = True
            with as_hobus_errors():
                await self._disconnect()

    @abstractmethod
    async def _disconnect(self) -> None: ...

    async def _session_named(self, given: str) -> str:
        """Return the id of a session that is named whole or by its beginning (`SES-1a2b3c4d`)."""
        return given

    @abstractmethod
    async def start(self, *, agent_id: str | None = None, model: str | None = None) -> str:
        """Start a session and return its id; `model`: `PROVIDER/MODEL` of its turns, None: the agent's."""

    async def ask(  # noqa: PLR0913 - what a question may have, each by its name
        self,
        text: str = "",
        *,
        session_id: str | None = None,
        input_id: str | None = None,
        output_schema: type[Any] | dict[str, Any] | None = None,
        template: str | None = None,
        model: str | None = None,
        messages: Sequence[Mapping[str, str]] | None = None,
    ) -> TurnResult:
        """Return the answer to one message, in a new session unless one is named.

        `messages`, in place of a text: a conversation held elsewhere, each `{"role": …, "content": …}` with a role
        system, user or assistant, the user's question last. With `output_schema`, a class or JSON Schema as
        `Agent(output=)` takes it, its `response` is the text of one such object, unless it is `refused`. `template`:
        the attention template (`ATT-…`) that fills its context. `model`: `PROVIDER/MODEL` of this turn, and of the
        session that it begins. Raises HobusError, as all methods do (`client_errors.py`): for a turn that ended in an
        error (`is_verdict`), too, and when nobody answered in time.
        """
        return await self._answer(Question(text, session_id, input_id, output_schema, template, messages, model))

    async def stream(  # noqa: PLR0913 - as `ask`
        self,
        text: str = "",
        *,
        session_id: str | None = None,
        input_id: str | None = None,
        output_schema: type[Any] | dict[str, Any] | None = None,
        template: str | None = None,
        model: str | None = None,
        messages: Sequence[Mapping[str, str]] | None = None,
    ) -> AsyncGenerator[Piece]:
        """Yield the answer while it is written; a lost connection is a reset, and what stands is told again.

        The last piece has the result. Raises what `ask` does.
        """
        async with aclosing(
            self._pieces(Question(text, session_id, input_id, output_schema, template, messages, model))
        ) as pieces:
            async for piece in pieces:
                yield piece

    @abstractmethod
    async def _answer(self, question: Question) -> TurnResult: ...

    @abstractmethod
    def _pieces(self, question: Question) -> AsyncGenerator[Piece]: ...

    @abstractmethod
    async def sessions(self, *, is_all: bool = False, limit: int | None = None) -> list[SessionRow]:
        """Return the newest sessions, how each stands, and which calls of it wait for an approval.

        `is_all`: ended ones too; `limit`: 50 unless given. Over HTTP those of the key; a key that approves sees
        everybody's of which a call waits.
        """

    @abstractmethod
    async def session(self, session_id: str) -> SessionView:
        """Return how a session stands."""

    @abstractmethod
    async def end(self, session_id: str) -> None:
        """End the session."""

    @abstractmethod
    async def command(self, session_id: str, kind: str, **fields: Any) -> CommandVerdict:
        """Send a command under one id; return what became of it: rejected is a verdict, too."""

    async def steer(self, session_id: str, text: str) -> CommandVerdict:
        """Send a word to the run that is under way."""
        return await self.command(session_id, "Steer", text=text)

    async def follow_up(self, session_id: str, text: str) -> CommandVerdict:
        """Send a message that is answered when the run is over; `input_id` of the verdict names its turn."""
        return await self.command(session_id, "FollowUp", text=text)

    async def pause(self, session_id: str) -> CommandVerdict:
        """Stop the run at its next step."""
        return await self.command(session_id, "Pause")

    async def resume(self, session_id: str) -> CommandVerdict:
        """Let the paused run go on."""
        return await self.command(session_id, "Resume")

    async def cancel(self, session_id: str, reason: str | None = None) -> CommandVerdict:
        """End the run."""
        return await self.command(session_id, "Cancel", reason=reason)

    async def approve(self, session_id: str, call_id: str) -> CommandVerdict:
        """Let a held call run."""
        return await self.command(session_id, "Approve", call_id=call_id)

    async def deny(self, session_id: str, call_id: str, reason: str | None = None) -> CommandVerdict:
        """Refuse a held call."""
        return await self.command(session_id, "Deny", call_id=call_id, reason=reason)


C = TypeVar("C", bound=AsyncSessions)


def _wait_for(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Sessions[Any], P], T]:
    """Return the client's method of that name, waited for."""

    @wraps(method)
    def call(self: Sessions[Any], *given: P.args, **named: P.kwargs) -> T:
        return self.wait_for(getattr(self.client, method.__name__)(*given, **named))

    return call


def yield_one_by_one(
    method: Callable[Concatenate[Any, P], AsyncGenerator[T]],
) -> Callable[Concatenate[Sessions[Any], P], Generator[T]]:
    """Return the client's method of that name, each of its values waited for."""

    @wraps(method)
    def call(self: Sessions[Any], *given: P.args, **named: P.kwargs) -> Generator[T]:
        values = getattr(self.client, method.__name__)(*given, **named)

        async def take_following() -> T | None:
            return await anext(values, None)

        try:
            while (one := self.wait_for(take_following())) is not None:
                yield one
        finally:
            self.wait_for(values.aclose())

    return call


class Sessions(Generic[C]):
    """A client for programs without an event loop: it runs one in a thread of its own. Any thread may call."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, C]]) -> None:
        """Open the client that `make` returns, on the thread's loop."""
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = runner.get_loop()

        def run() -> None:
            with runner:  # which waits in the end for what is still under way
                self._loop.run_forever()

        self._thread = threading.Thread(target=run, name="hobus client", daemon=True)
        self._thread.start()
        try:
            self.client = self.wait_for(make())
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._loop.is_closed() or not self._thread.is_alive():  # a fork of the process has no such thread
            return
        try:
            self.wait_for(self.client.close())
        finally:
            self._stop()

    start = _wait_for(AsyncSessions.start)
    sessions = _wait_for(AsyncSessions.sessions)
    ask = _wait_for(AsyncSessions.ask)
    stream = yield_one_by_one(AsyncSessions.stream)
    session = _wait_for(AsyncSessions.session)
    end = _wait_for(AsyncSessions.end)
    command = _wait_for(AsyncSessions.command)
    steer = _wait_for(AsyncSessions.steer)
    follow_up = _wait_for(AsyncSessions.follow_up)
    pause = _wait_for(AsyncSessions.pause)
    resume = _wait_for(AsyncSessions.resume)
    cancel = _wait_for(AsyncSessions.cancel)
    approve = _wait_for(AsyncSessions.approve)
    deny = _wait_for(AsyncSessions.deny)

    def wait_for(self, what: Coroutine[Any, Any, T]) -> T:
        """Run this coroutine on the client's loop and return its result.

        Raises RequestError if the client is closed.
        """
        if not asyncio.iscoroutine(what):
            raise RequestError("invalid_input", f"what: expected a coroutine, not a {type(what).__name__}")
        if self._loop.is_closed():
            what.close()
            raise RequestError("closed", "this client is closed; open another one")
        running = asyncio.run_coroutine_threadsafe(what, self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()  # Ctrl-C here ends it there
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
