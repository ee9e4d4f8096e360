"""One turn for a client of the door: a session turn like any other, asked for as `hobus ask` does it.

Who can come back for the answer (an idempotency key, an input id) lets the turn go on when the connection is lost; for
who cannot, nobody could ever hear it: the run is leased, and cancelled as soon as the client has gone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import Message
from hobus.bus.messages.ids import KEY_PREFIX, format_iso
from hobus.bus.messages.session import (
    CallResult,
    Cancel,
    CommandVerdict,
    HostCommand,
    ProcessTurn,
    SessionCommand,
    SessionConfig,
    StartSession,
    TurnResult,
)
from hobus.bus.messages.streams import StreamReset
from hobus.config.sections.processes import HostConfig
from hobus.launch.http import limits
from hobus.launch.http.context import Door
from hobus.launch.http.limits import TIMEOUT_MAX_S
from hobus.launch.http.problems import Problem, convert_error, convert_result
from hobus.launch.http.sse import ClientGone, Gone, run_until_gone
from hobus.launch.sessions.images import GivenImage, keep_images
from hobus.launch.sessions.turns import ask_owner, ask_view, process_turn
from hobus.launch.sessions.which import complete_session_id

T = TypeVar("T")
Pieces = AsyncGenerator[Message | TurnResult | Problem | None]
"""What a turn says, at last its result, or the problem that it ended in; None for a silence."""
_KEY_MAX_CHARS = 200
TIMEOUT_HEADERS = ("x-hobus-timeout", "x-stainless-read-timeout")


@dataclass(frozen=True, slots=True)
class AskedTurn:
    """What a client asks, its session known."""

    api: str
    principal: str
    session_id: str
    input_id: str
    text: str
    comes_back: bool  # it can ask for the same answer again
    overrides: SessionConfig | None
    arrived: float  # on the bus's monotonic clock
    timeout_s: float
    results: tuple[CallResult, ...] = ()  # of open calls, in place of a text
    agent_id: str | None = None  # whose session it has to be; None: whoever's it is
    images: tuple[GivenImage, ...] = ()
    start: StartSession | None = None  # of a turn that begins its session

    @property
    def wants_form(self) -> bool:
        """Return whether a program reads the answer: it has to have a form of the client's."""
        return self.overrides is not None and self.overrides.output_schema is not None

    def turn(self, *, stream: bool) -> ProcessTurn:
        return ProcessTurn(
            session_id=self.session_id, input_id=self.input_id, text=self.text, results=list(self.results),
            agent_id=self.agent_id, run_overrides=self.overrides, stream=stream, lease=not self.comes_back,
            files=[image.in_session(self.session_id) for image in self.images], start=self.start,
        )  # fmt: skip


_MADE = re.compile("key-[0-9a-f]{40}")


def choose_input_id(key: str | None, drawn: str) -> tuple[str, bool]:
    """Return the input id behind an Idempotency-Key, and whether there was one. Raises Problem for one too long.

    An id as this door makes them is that input's: whoever asks again may do so by the `input_id` that an error named.
    """
    if key is None:
        return drawn, False
    if complete_session_id(key) == key or _MADE.fullmatch(key):  # a drawn one is a UUID, as a session's
        return key, True
    if not key or len(key) > _KEY_MAX_CHARS:
        raise Problem(400, "invalid_input", f"Idempotency-Key: 1 to {_KEY_MAX_CHARS} characters")
    return f"key-{sha256(key.encode('utf-8', 'replace')).hexdigest()[:40]}", True


def choose_timeout(headers: Mapping[str, str], config: HostConfig) -> float:
    """Return the client's own time-out in seconds, as hobus' or OpenAI's client names it; else the configuration's.

    Raises Problem for what is no number above zero; more than a day is a day.
    """
    given = next((headers[name] for name in TIMEOUT_HEADERS if name in headers), None)
    if given is None:
        return config.turn_timeout_ms / 1000
    try:
        timeout_s = float(given)
    except ValueError:
        timeout_s = 0.0
    if not timeout_s > 0:  # also where it is no number
        raise Problem(400, "invalid_input", f"{TIMEOUT_HEADERS[0]}: a number of seconds above zero")
    return min(timeout_s, TIMEOUT_MAX_S)


def make_session_start(
    principal: str, session_id: str, *, agent_id: str | None, config: SessionConfig | None = None
) -> StartSession:
    return StartSession(
        session_id=session_id, agent_id=agent_id, session_config=config or SessionConfig(),
        principal=f"{KEY_PREFIX}{principal}",
    )  # fmt: skip


async def ask_turn(door: Door, asked: AskedTurn, gone: Gone) -> TurnResult:
    """Return the turn's one answer. Raises Problem, also for the error that it ended in, and RuntimeFault.

    ClientGone where nobody is left to be answered: whoever cannot come back is not waited for.
    """
    work = asyncio.ensure_future(_answer(door, asked, None))
    try:
        result = await (asyncio.shield(work) if asked.comes_back else run_until_gone(asyncio.shield(work), gone))
    except (asyncio.CancelledError, ClientGone):
        if not work.done():
            _leave(door, asked, work)
        raise
    return _require_answer(result)


async def _pieces(door: Door, asked: AskedTurn) -> AsyncGenerator[Message | TurnResult | None]:
    """Yield the frames of the turn's stream, then its result; None after a silence of `limits.PING_MS`.

    Raises RuntimeFault. Closing it early is the client going away.
    """
    said: asyncio.Queue[Message | None] = asyncio.Queue()
    is_first = True
    work = asyncio.get_running_loop().create_task(_answer(door, asked, said.put_nowait))
    work.add_done_callback(lambda _: said.put_nowait(None))
    try:
        while True:
            try:
                async with asyncio.timeout(limits.PING_MS / 1000):
                    message = await said.get()
            except TimeoutError:
                yield None
                continue
            if message is None:
                break
            if is_first:
                if isinstance(message, StreamReset):
                    continue  # what is asked again before it said anything has taken nothing back
                is_first = False
                door.metrics.first_pieces.labels(asked.api).observe(door.bus.clock.monotonic() - asked.arrived)
            yield message
        yield work.result()
    finally:
        if not work.done():
            _leave(door, asked, work)


async def begin_stream(door: Door, asked: AskedTurn, gone: Gone) -> Pieces:
    """Return the pieces, once there is a first one, or a silence: what is known before that is told as its status.

    Raises Problem, RuntimeFault; ClientGone where nobody is left to be answered.
    """
    source = _pieces(door, asked)
    first = await run_until_gone(anext(source), gone)
    if isinstance(first, TurnResult):
        _require_answer(first)
    return _go_on(first, source)


def _require_answer(result: TurnResult) -> TurnResult:
    if (problem := convert_result(result)) is not None:
        raise problem
    return result


async def _go_on(first: Message | TurnResult | None, source: AsyncGenerator[Message | TurnResult | None]) -> Pieces:
    try:
        async with aclosing(source):
            yield first
            async for piece in source:
                yield (convert_result(piece) or piece) if isinstance(piece, TurnResult) else piece
    except (RuntimeFault, Problem) as error:
        yield convert_error(error)


async def _answer(door: Door, asked: AskedTurn, heard: Callable[[Message], None] | None) -> TurnResult:
    with door.turn_under_way():
        await keep_images(door.bus, asked.session_id, asked.images, timeout_s=door.timeout_s)
        result = await process_turn(
            door.bus,
            asked.turn(stream=heard is not None),
            timeout_s=asked.timeout_s,
            on_stream=heard,
        )
    elapsed_s = door.bus.clock.monotonic() - asked.arrived
    door.metrics.turns.labels(asked.api, result.outcome).observe(elapsed_s)
    return result


def _leave(door: Door, asked: AskedTurn, work: asyncio.Future[T]) -> None:
    """Let the turn of a client that has gone go on if the client can come back for it, else cancel it."""
    if asked.comes_back:
        door.run_aside(_to_its_end(work))
        return
    work.cancel()
    if not door.closing.is_set():
        door.run_aside(_cancel(door, asked))


async def _to_its_end(work: Awaitable[T]) -> None:
    with suppress(Problem):
        await work


async def _cancel(door: Door, asked: AskedTurn) -> None:
    """Cancel the run of this input, and no other one; it may be over already. Raises RuntimeFault."""
    session_id = asked.session_id
    where = await ask_view(door.bus, session_id, timeout_s=door.timeout_s)
    if where.active_input_id != asked.input_id or where.run is None:
        return
    command = HostCommand(
        command_id=f"http-gone-{asked.input_id}"[:100],
        target_run_id=where.run.run_id,
        issued_at=format_iso(door.bus.now()),
        command=Cancel(reason="the client has gone"),
    )
    await send_command(door, asked.principal, session_id, command)


async def send_command(door: Door, principal: str, session_id: str, command: HostCommand) -> CommandVerdict:
    """Return the verdict; send again under its id while the session moves or somebody is away. Raises RuntimeFault."""
    question = SessionCommand(session_id=session_id, command=command, principal=f"{KEY_PREFIX}{principal}")
    return await ask_owner(door.bus, session_id, question, CommandVerdict, timeout_s=door.timeout_s)
