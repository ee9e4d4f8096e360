"""The HTTP server of a door: uvicorn on a socket that several doors share, with bounds on what a connection may do.

Doors of one cluster accept from the same socket, which is the launcher's (`launch/launcher/listening.py`): whoever has
time takes the next connection, and one that dies leaves the others at work.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeAlias

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from hobus.config.sections.processes import HttpConfig
from hobus.launch.http import limits
from hobus.launch.http.problems import Problem, as_bytes, make_head_too_large

_ACCEPTS_AT_ONCE = 8
"""More would leave none of a crowd to the other doors."""
_TOO_MANY = Problem(
    503, "too_many_connections", "this door has as many connections as it may (http.connections_max)",
    headers={"retry-after": "1"},
)  # fmt: skip
_MALFORMED = Problem(400, "malformed_request", "this is no HTTP request")
_TOO_SLOW = Problem(408, "too_slow", "the head of the request did not come in time")


Shed: TypeAlias = Callable[[bytes], bytes]
"""What a request with an equal head is answered, given its body, without being read; empty: it is to be read."""
SHED = "hobus.shed"
"""Where the application that refused a request for want of room puts a Shed into its scope."""


class Bounded(H11Protocol):
    """The protocol of uvicorn, which waits for ever and takes any number of connections, with bounds.

    Whoever is not let in is told why and gets an end of stream; the connection goes when he closes it, or soon after:
    closed at once, with something of his unread, it would be reset, and the answer lost.
    """

    bounds: ClassVar[HttpConfig]
    head_timeout_ms: ClassVar[int]
    leaving: ClassVar[set[Bounded]]
    """Those that were told no and have not closed yet; they count for themselves."""
    idle: ClassVar[dict[Bounded, None]]
    """Those that have no whole request under way, the longest first; whose body comes is idle once it was refused."""
    sheds: ClassVar[dict[bytes, Shed]]
    """By head: whoever sends thousands of requests while there is no room costs a look into a table for each."""
    _head: bytes = b""
    """Of the request under way, where all of it came in one piece."""
    _timer: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Refuse one connection more than too many: the one that has asked for nothing for longest, else this one.

        Else somebody who opens thousands, or keeps them open, would keep out everybody who asks at once.
        """
        super().connection_made(transport)
        if len(self.connections) - len(self.leaving) > self.bounds.connections_max:
            refused = next((one for one in self.idle if one.is_idle), self)
            refused.turn_away(_TOO_MANY)
            if refused is self:
                return
        self.idle[self] = None
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Give a request so long to be there, from its first byte or from the connection's beginning."""
        if self in self.leaving or self._shed(data):
            return
        super().data_received(data)
        if self in self.leaving or self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE:
            self._expect_head()
        else:
            self._forget_head()
        self._note_idle()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request; uvicorn does so in another shape, and not where an answer has begun."""
        del msg
        is_long = len(self.conn.trailing_data[0]) > limits.HEAD_MAX_BYTES
        self.turn_away(make_head_too_large() if is_long else _MALFORMED)

    def on_response_complete(self) -> None:
        """Set the timer of the next request, which may have begun already."""
        if self._head and (shed := self.scope.get(SHED)):
            if len(self.sheds) >= limits.SHEDS_MAX:
                self.sheds.clear()
            self.sheds[self._head] = shed
        super().on_response_complete()
        self._note_idle()
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._expect_head()

    def pause_writing(self) -> None:
        """Give a client that does not read what was sent so long to go on."""
        self.flow.pause_writing()
        self._stuck = self.loop.call_later(limits.WRITE_TIMEOUT_MS / 1000, self.transport.abort)

    def resume_writing(self) -> None:
        self._forget_stuck()
        self.flow.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the timers of this connection."""
        self.leaving.discard(self)
        self.idle.pop(self, None)
        self._forget_head()
        self._forget_stuck()
        super().connection_lost(exc)

    def turn_away(self, problem: Problem) -> None:
        """Tell it no, and let it go."""
        self.idle.pop(self, None)
        has_begun = self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE)
        if has_begun or len(self.leaving) >= limits.REFUSALS_MAX:
            self.transport.abort()
            return
        self.leaving.add(self)
        self._forget_head()
        self.transport.write(as_bytes(problem))
        self.transport.write_eof()
        self._timer = self.loop.call_later(self.head_timeout_ms / 1000, self.transport.abort)

    def _shed(self, data: bytes) -> bool:
        """Refuse a whole request as its like was refused a moment ago; return whether it was."""
        is_first = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        self._head, _, body = data.partition(b"\r\n\r\n") if is_first else (b"", b"", b"")
        shed = self.sheds.get(self._head)
        if shed is None or not (told := shed(body)):
            return False
        self.transport.write(told)
        self.transport.close()
        return True

    @property
    def is_idle(self) -> bool:
        """Whether it has no request under way, or owes the rest of one that is answered."""
        return not self.cycle or self.cycle.response_complete or self.cycle.response_started

    def _note_idle(self) -> None:
        has_one = self.cycle and not self.cycle.response_complete
        if has_one and self.conn.their_state is not h11.SEND_BODY:
            self.idle.pop(self, None)
        elif self not in self.leaving and not self.transport.is_closing():
            self.idle.setdefault(self)

    def _expect_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.head_timeout_ms / 1000, self._on_timeout)

    def _forget_head(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget_stuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _on_timeout(self) -> None:
        self._timer = None
        if self.conn.trailing_data[0]:
            self.turn_away(_TOO_SLOW)
        else:
            self.transport.abort()  # it has asked for nothing


class DoorServer(uvicorn.Server):
    """A uvicorn server that leaves the signals to its process."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start with as many waiting connections as before: uvicorn makes its number of accepts at once theirs."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(socket.SOMAXCONN)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone: they are the process's own."""
        yield


def make_server(app: ASGIApp, config: HttpConfig, *, head_timeout_ms: int) -> DoorServer:
    """Build a server, not started; told to end, it waits for every answer, which the door may cut short."""
    settings = uvicorn.Config(
        app,
        http=type(
            "BoundedByConfig",
            (Bounded,),
            {"bounds": config, "head_timeout_ms": head_timeout_ms, "leaving": set(), "idle": {}, "sheds": {}},
        ),
        ws="none",
        loop="none",
        lifespan="off",
        backlog=_ACCEPTS_AT_ONCE,
        log_config=None,
        log_level="critical",  # what strangers do is counted, not logged; faults of handlers are logged by the guard
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=limits.HEAD_MAX_BYTES,
        timeout_keep_alive=max(1, limits.KEEP_ALIVE_MS // 1000),
    )
    return DoorServer(settings)
