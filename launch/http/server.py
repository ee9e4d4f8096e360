"""The HTTP server of a door: uvicorn on a port that several doors share, with bounds on what a connection may do.

Doors of one cluster bind the same port with SO_REUSEPORT: the kernel gives each new connection to one of them, and one
that dies leaves the others at work. Which port it is, when any free one was asked for, stands in `<home>/run/door`.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, ClassVar

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from config.schema import HttpConfig
from launch.home import Home
from launch.listen import parts_of


def bind(home: Home, listen: str) -> tuple[socket.socket, str]:
    """A listening socket, and its address with the port that it has; the same one for every door of this run.

    Raises OSError.
    """
    host, port = parts_of(listen)
    wanted = "0.0.0.0" if host == "*" else host.strip("[]")  # noqa: S104 - only where it was configured
    with home.http.open("a+", encoding="ascii") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)  # one door draws the port, the others read it
        file.seek(0)
        known = file.read().strip()
        if not port and known:
            port = parts_of(known)[1]
        family, kind, protocol, _, where = socket.getaddrinfo(wanted, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            bound.bind(where)
            bound.listen(socket.SOMAXCONN)
            bound.setblocking(False)  # noqa: FBT003 - positional only
        except OSError:
            bound.close()
            raise
        address = f"{host}:{bound.getsockname()[1]}"
        if known != address:
            file.truncate(0)
            file.write(address)
            file.flush()
    return bound, address


class Bounded(H11Protocol):
    """The protocol of uvicorn, which waits for a request for ever and takes any number of connections, with bounds."""

    bounds: ClassVar[HttpConfig]
    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """One connection too many is closed at once."""
        super().connection_made(transport)
        if len(self.connections) > self.bounds.connections_max:
            transport.abort()
        else:
            self._expect_head()

    def data_received(self, data: bytes) -> None:
        """From its first byte, or from the connection's beginning, a request has so long to be there."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._expect_head()
        else:
            self._forget()

    def on_response_complete(self) -> None:
        """The next request may have begun already."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for."""
        self._forget()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(self.bounds.head_timeout_ms / 1000, self._too_late)

    def _forget(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _too_late(self) -> None:
        self._head = None
        self.transport.abort()


class HttpServer(uvicorn.Server):
    """One that leaves the signals to its process."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """They are the process's own."""
        yield


def make_server(app: ASGIApp, config: HttpConfig, *, drain_s: float) -> HttpServer:
    """A server that is not started."""
    settings = uvicorn.Config(
        app,
        http=type("BoundedByConfig", (Bounded,), {"bounds": config}),
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=config.head_max_bytes,
        timeout_keep_alive=max(1, config.keep_alive_ms // 1000),
        timeout_graceful_shutdown=max(1, round(drain_s)),
    )
    return HttpServer(settings)
