"""One turn from a client's side: checked at the edge, retried under one input id until its deadline, answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.lanes import get_role
from hobus.bus.limits import RETRY_INTERVAL_MS
from hobus.bus.messages.base import Message
from hobus.bus.messages.ids import derive_session_id, derive_turn_trace
from hobus.bus.messages.session import ProcessTurn, ReadSession, SessionView, TurnResult
from hobus.bus.messages.streams import StreamReset
from hobus.bus.port import Bus
from hobus.bus.text import is_blank
from hobus.launch.console.errors import CommandError, UsageFault
from hobus.launch.limits import JOURNAL_POLL_MS

if TYPE_CHECKING:
    from hobus.config.sections.processes import HostConfig

T = TypeVar("T")
R = TypeVar("R", bound=Message)
_RETRY_S = RETRY_INTERVAL_MS / 1000


def decode_argument(argument: str) -> str:
    """Return what somebody typed, also where the locale could not read its UTF-8 (the C locale)."""
    try:
        return argument.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:
        return argument  # `check_text` says what is wrong with it


def check_text(text: str, limits: HostConfig) -> None:
    """Check a message. Raises CommandError (usage) for an empty one or one over the limit."""
    if is_blank(text):
        raise UsageFault("the message is empty", hint="nothing was sent")
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if size_bytes > limits.prompt_max_bytes:
        raise UsageFault(
            f"the message has {size_bytes} bytes; the limit is {limits.prompt_max_bytes} (host.prompt_max_bytes)",
            hint="send a shorter one; nothing was sent",
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageFault("the message is not valid UTF-8", hint="send it as UTF-8; nothing was sent") from None


async def process_turn(  # noqa: PLR0913 - what bounds a turn, each by its name
    bus: Bus,
    turn: ProcessTurn,
    *,
    timeout_s: float,
    is_hopeless: Callable[[], bool] = lambda: False,
    find_gone: Callable[[], CommandError | None] | None = None,
    on_stream: Callable[[Message], None] | None = None,
    waits_for_its_turn: bool = False,
    when_busy: Callable[[float], None] | None = None,
) -> TurnResult:
    """Return the turn's one answer; send the same input again when the host is lost, until the deadline.

    Pieces of a streamed turn go to `on_stream`; before each further try it is told that they were none. It is also sent
    again, since nothing began for it, with `waits_for_its_turn` while another input of its session is answered; with
    `when_busy`, which is told the seconds of each pause, while the cluster takes no further turn. Raises the last fault
    when the deadline is over or when trying again cannot help; `is_hopeless` is asked before each further try, and
    all the time `find_gone`: for the error to end with, once nobody is left who could answer.
    """
    deadline = bus.clock.monotonic() + timeout_s
    while True:
        remaining_s = deadline - bus.clock.monotonic()
        if remaining_s <= 0:
            raise _make_expired(turn, timeout_s)
        try:
            # The bus gives a server time to speak beyond the deadline; whoever waits here does not.
            async with asyncio.timeout(remaining_s):
                asking = _ask(bus, turn, timeout_s=remaining_s, on_stream=on_stream)
                result = await (asking if find_gone is None else run_beside(asking, _watch_until(bus, find_gone)))
            is_busy = when_busy is not None and result.code == "busy"
            is_to_wait = is_busy or (waits_for_its_turn and result.code == "run_active")
            pause_s = (result.retry_after_ms or 0) / 1000 if is_busy else _RETRY_S
            if not is_to_wait or bus.clock.monotonic() + pause_s >= deadline:
                return result
            if when_busy is not None and is_busy:
                when_busy(pause_s)
        except TimeoutError:
            raise _make_expired(turn, timeout_s) from None
        except RuntimeFault as fault:
            pause_s = fault.pause_s(_RETRY_S, bus.clock.random())
            if not fault.retryable or is_hopeless() or bus.clock.monotonic() + pause_s >= deadline:
                raise
        if on_stream is not None:
            on_stream(StreamReset(reason="retry"))
        await bus.sleep(pause_s)


def _make_expired(turn: ProcessTurn, timeout_s: float) -> BusError:
    return BusError("expired", f"input {turn.input_id} was not answered within {timeout_s:g} s")


async def _ask(
    bus: Bus, turn: ProcessTurn, *, timeout_s: float, on_stream: Callable[[Message], None] | None
) -> TurnResult:
    """Return the answer to one request. Its trace names session and input, for whoever watches the bus."""
    session_id = turn.session_id or derive_session_id(get_role(bus.instance), turn.input_id)
    trace = derive_turn_trace(session_id, turn.input_id)
    return await bus.request("host", turn, expect=TurnResult, timeout_s=timeout_s, trace=trace, on_stream=on_stream)


async def _watch_until(bus: Bus, find_gone: Callable[[], CommandError | None]) -> NoReturn:
    while True:
        await bus.sleep(JOURNAL_POLL_MS / 1000)
        if (end := find_gone()) is not None:
            raise end


async def run_beside(waited_for: Coroutine[Any, Any, T], *others: Coroutine[Any, Any, None]) -> T:
    """Return what the first one gives; the others go on until then. Raises the RuntimeFault or CommandError of any."""
    try:
        async with asyncio.TaskGroup() as group:
            companions = [group.create_task(other) for other in others]
            waiting = group.create_task(waited_for)
            waiting.add_done_callback(lambda _: [task.cancel() for task in companions])
        return waiting.result()
    except ExceptionGroup as faults:
        expected, unexpected = faults.split((RuntimeFault, CommandError))
        if expected is None or unexpected is not None:
            raise
        fault = expected.exceptions[0]
    raise fault  # not within the handler: its context would be the group that holds it


async def ask_view(bus: Bus, session_id: str, *, timeout_s: float) -> SessionView:
    """Return what the session's owner knows of it, asked once. Raises RuntimeFault."""
    question = ReadSession(session_id=session_id)
    return await bus.request("ho2", question, expect=SessionView, timeout_s=timeout_s, key=session_id)


async def ask_owner(bus: Bus, session_id: str, question: Message, expect: type[R], *, timeout_s: float) -> R:
    """Return the answer of the session's owner, asked again while the session moves or somebody is away.

    Raises the last fault when the time is over, or when asking again cannot help.
    """
    deadline = bus.clock.monotonic() + timeout_s
    while True:
        left_s = max(0.0, deadline - bus.clock.monotonic())
        try:
            return await bus.request("ho2", question, expect=expect, timeout_s=left_s, key=session_id, trace=session_id)
        except RuntimeFault as fault:
            wait_s = fault.pause_s(_RETRY_S, bus.clock.random())
            if not fault.retryable or bus.clock.monotonic() + wait_s >= deadline:
                raise
        await bus.sleep(wait_s)
