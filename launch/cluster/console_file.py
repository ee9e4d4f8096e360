"""Where the console of a home serves, for the HTTP door to lead browsers there. Its process writes and removes it."""

from __future__ import annotations

import os
from contextlib import suppress

from hobus.launch.cluster import identity
from hobus.launch.cluster.home import Home


def tell(home: Home, address: str) -> None:
    """This process serves it at `host:port` from now on. Raises OSError."""
    home.console.write_text(f"{address} {os.getpid()} {identity.start_mark(os.getpid())}\n", encoding="ascii")


def told(home: Home) -> str:
    """`host:port` of the console that was begun last, if its process lives; else empty."""
    with suppress(OSError, ValueError):
        address, pid, mark = home.console.read_text(encoding="ascii").split()
        return address if identity.is_alive(int(pid), mark) else ""
    return ""


def withdraw(home: Home, address: str) -> None:
    """It serves no more."""
    if told(home) == address:
        home.console.unlink(missing_ok=True)
