"""The addresses of the HTTP doors and of the console: sockets at which the launcher listens, and others accept.

So an address is this cluster's alone, from its start to its end, and a connection that comes while a door is started
anew waits in the system for it instead of being refused. Nobody listens while no door is there or on its way.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import socket

import structlog

from hobus.launch.cluster.endpoints import split_address
from hobus.launch.cluster.home import Home
from hobus.launch.launcher import children
from hobus.launch.limits import CONSOLE_PAUSE_S

_log = structlog.get_logger()
_HERE = frozenset({"localhost", "127.0.0.1", "[::1]"})


class DoorSocket:
    """A door's socket, bound when it is first asked for; its address stands in `<home>/run/http`."""

    def __init__(self, home: Home, listen: str) -> None:
        self._home = home
        self._listen = listen
        self._bound: socket.socket | None = None

    def descriptor(self) -> int:
        """Listen from now on; where any port was asked for, at the one that it had before. Raises OSError."""
        if self._bound is None:
            host, port = split_address(self._home.bound(http=True) or self._listen)
            self._bound = bind_socket(host, port)
            self._home.http.write_text(f"{host}:{self._bound.getsockname()[1]}", encoding="ascii")
        return self._bound.fileno()

    def close(self) -> None:
        if self._bound is not None:
            self._bound.close()
            self._bound = None


class ConsoleSocket:
    """The console's socket, where doors listen at this machine alone: whoever opens a page there begins its process.

    Until then nothing of it is loaded; it ends with the cluster. Its address stands in `<home>/run/console`.
    """

    def __init__(self, home: Home, doors_listen: str) -> None:
        self._home = home
        is_for_here = bool(doors_listen) and split_address(doors_listen)[0] in _HERE
        self._is_offered = is_for_here and importlib.util.find_spec("jinja2") is not None
        self._bound: socket.socket | None = None
        self._pid = 0
        self._alive: int | None = None
        """The writing end of a pipe by which the process knows that this one lives."""

    def listen(self) -> None:
        """Listen from now on, where there is to be a console. Raises OSError."""
        if self._is_offered:
            self._bound = bind_socket("127.0.0.1", 0)
            self._home.offered_console.write_text(f"127.0.0.1:{self._bound.getsockname()[1]}", encoding="ascii")
            self._watch()

    def close(self) -> None:
        """Close: who connects is refused; the process ends."""
        if self._bound is None:
            return
        if self._pid:
            os.kill(self._pid, signal.SIGTERM)
        else:
            asyncio.get_running_loop().remove_reader(self._bound)
        self._end_pipe()
        self._bound.close()
        self._bound = None

    def _watch(self) -> None:
        if self._bound is not None:
            asyncio.get_running_loop().add_reader(self._bound, self._begin)

    def _begin(self) -> None:
        if self._bound is None:
            return
        asyncio.get_running_loop().remove_reader(self._bound)
        alive, self._alive = os.pipe()
        given = (str(self._home.root), str(self._bound.fileno()), str(alive))
        try:
            with self._home.log("console").open("ab") as log:
                argv = children.make_python_command("hobus.launch.cli.web.serving", *given)
                self._pid = children.start(argv, self._bound.fileno(), alive, output=log.fileno())
            children.watch_exit(self._pid, self._on_end)
        except OSError as error:
            _log.warning("console_not_started", reason=str(error))
            self._listen_again()
        finally:
            os.close(alive)

    def _on_end(self) -> None:
        _log.warning("console_ended", how=children.reap(self._pid))
        self._listen_again()

    def _listen_again(self) -> None:
        self._pid = 0
        self._end_pipe()
        asyncio.get_running_loop().call_later(CONSOLE_PAUSE_S, self._watch)

    def _end_pipe(self) -> None:
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens there, where nobody else does. Raises OSError."""
    wanted = "0.0.0.0" if host == "*" else host.strip("[]")  # noqa: S104 - only where it was configured
    family, kind, protocol, _, where = socket.getaddrinfo(wanted, port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
        bound.listen(socket.SOMAXCONN)
        bound.setblocking(False)  # noqa: FBT003 - positional only
    except OSError:
        bound.close()
        raise
    return bound
