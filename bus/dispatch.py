"""What an actor is: a class with typed async handlers, found by annotation; `bus/peer.py` is the shell that drives it.

    class Memory(Actor):
        async def on_read(self, message: ReadSignals, call: Call) -> Signals: ...

Every public async method whose first parameter is annotated with a Message class and whose second is `call: Call` is
the handler of that type; a name on the wire never picks a method. One that takes no time itself is no async method and
returns a `Promise` of its reply: then it has no task. It runs where its request arrives, and whoever gives the request
up is answered without it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, get_type_hints

from msgspec import Struct

from hobus.bus.errors import BusError
from hobus.bus.messages.base import Message
from hobus.bus.messages.ids import KEY_PREFIX, LOCAL
from hobus.bus.port import Bus


def _to_nobody(_message: Message) -> None:
    """Drop a streamed part: a call outside a shell streams to nobody."""


def drop_step(_step: Callable[[], Awaitable[None]]) -> None:
    """Drop a step: a call outside a shell is answered by nobody, so nothing follows its answer."""


class Call(Struct, frozen=True):
    """What a handler knows about the request besides its message."""

    sender: str  # stamped instance, `<role>/<n>@<epoch>`
    role: str  # the sender's role
    message_id: str
    attempt: int
    key: str
    trace: str
    deadline: float | None  # on bus.clock.monotonic(); None for a post
    lane: str  # "" through the broker, else the lane's service
    stream: Callable[[Message], None] = _to_nobody
    on_attached: Callable[[Callable[[], None]], None] = lambda _step: None
    """`call.on_attached(step)`: the step runs whenever another incarnation takes the place of who asked: it has heard
    nothing of what was streamed."""
    after_reply: Callable[[Callable[[], Awaitable[None]]], None] = drop_step
    """`call.after_reply(step)`: the step runs once the reply of this handler was handed to its requester's connection,
    and not at all if the handler fails or is stopped. A fault of it is logged and changes nothing for the requester."""

    def remaining_s(self, now_monotonic: float, *, reserve_s: float = 0.0) -> float:
        """Return the seconds until the deadline less a reserve, never below zero; infinity for a post."""
        if self.deadline is None:
            return float("inf")
        return max(0.0, self.deadline - reserve_s - now_monotonic)


Handler = Callable[[Any, Call], Awaitable[Message | None]]


class Actor:
    """Base of every actor; subclasses supply handlers, and may override the life-cycle methods."""

    service: str = ""
    needs: tuple[str, ...] = ()
    """Roles of which one must have somebody who is ready, or this actor is degraded; empty: it needs nobody."""
    is_watched: bool = False
    """Whether `ready` is asked also after it was ready, at each heartbeat: it may become degraded later."""

    async def start(self, bus: Bus) -> None:
        """Begin, connected; called once. Work that readiness waits for belongs into `ready`."""

    def starting(self) -> str:
        """Return what the actor does until it is first ready, asked at each heartbeat. '': nothing to tell."""
        return ""

    async def ready(self) -> str:
        """Return '' when ready, else a short reason why degraded; asked until ready, and on if `is_watched`."""
        return ""

    async def reconfigure(self, digest: str) -> None:
        """Begin new work under the snapshot of this digest, which is in the record, from now on.

        What is in progress ends under its own. Raises RuntimeFault where it cannot: it is told again. An actor that
        goes by the configuration of its start alone does nothing here: it is started anew where that matters.
        """

    async def rest(self) -> None:
        """Take no new work from outside of the bus; return when none of it is left."""

    async def drain(self) -> None:
        """Finish what was started; bounded by the caller."""

    def counters(self) -> dict[str, int]:
        return {}


def map_handlers(actor: Actor) -> dict[str, tuple[type[Message], Handler]]:
    """Map type to (class, bound handler). Raises TypeError when two handlers claim one type."""
    return {cls.TYPE: (cls, getattr(actor, name)) for name, cls in map_handled(type(actor)).items()}


@functools.cache
def map_handled(actor: type[Actor]) -> dict[str, type[Message]]:
    """Map the name of each handler to the class of its messages. Raises TypeError when two claim one type."""
    found: dict[str, type[Message]] = {}
    for name, method in inspect.getmembers(actor, inspect.isfunction):
        if name.startswith("_") or name in ("start", "ready", "reconfigure", "rest", "drain"):
            continue
        if not inspect.iscoroutinefunction(method) and not _promises(method):
            continue
        hints = get_type_hints(method)
        parameters = list(inspect.signature(method).parameters)[1:]  # self
        if len(parameters) != 2 or hints.get(parameters[1]) is not Call:  # noqa: PLR2004 - message and call
            continue
        cls = hints.get(parameters[0])
        if not (isinstance(cls, type) and issubclass(cls, Message)):
            continue
        if any(cls.TYPE == other.TYPE for other in found.values()):
            raise TypeError(f"{actor.__name__} has two handlers for {cls.TYPE}")
        found[name] = cls
    return found


def _promises(method: Callable[..., Any]) -> bool:
    """Return whether the method's annotation says that it returns a Promise."""
    return str(method.__annotations__.get("return", "")).startswith("Promise[")


_HTTP = "http"


class SaidBy(NamedTuple):
    """Who said something: `local` or `key/<name>`; and the instance that it came from."""

    principal: str
    door: str

    def __str__(self) -> str:
        name = self.door.partition("@")[0]
        return f"{self.principal} ({name})" if name else self.principal


def name_sayer(call: Call, key: str | None) -> SaidBy:
    """Return who said a message, for the record.

    `key`: as the message names it. The HTTP door alone is believed, which has seen the key; whoever else reaches this
    bus is the operating system user of its home. Raises BusError(denied) for an HTTP door that names none.
    """
    if call.role != _HTTP:
        return SaidBy(LOCAL, call.sender)
    if not (key or "").startswith(KEY_PREFIX):
        raise BusError("denied", "an HTTP door must name the key that it speaks for")
    return SaidBy(key or "", call.sender)
