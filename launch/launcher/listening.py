"""The address of the HTTP doors: one socket that the launcher listens at, and every door of the run accepts from.

So the address is this cluster's alone, from its start to its end, and a connection that comes while a door is started
anew waits in the system for it instead of being refused. Nobody listens while no door is there or on its way.
"""

from __future__ import annotations

import socket

from hobus.launch.cluster.endpoints import parts_of
from hobus.launch.cluster.home import Home


class DoorSocket:
    """Bound when it is first asked for; its address stands in `<home>/run/http`."""

    def __init__(self, home: Home, listen: str) -> None:
        self._home = home
        self._listen = listen
        self._bound: socket.socket | None = None

    def descriptor(self) -> int:
        """Listens from now on; where any port was asked for, at the one that it had before. Raises OSError."""
        if self._bound is None:
            host, port = parts_of(self._home.bound(http=True) or self._listen)
            self._bound = bound_to(host, port)
            self._home.http.write_text(f"{host}:{self._bound.getsockname()[1]}", encoding="ascii")
        return self._bound.fileno()

    def close(self) -> None:
        """Who connects is refused, and so is who waits."""
        if self._bound is not None:
            self._bound.close()
            self._bound = None


def bound_to(host: str, port: int) -> socket.socket:
    """A socket that listens there, where nobody else does. Raises OSError."""
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
