"""Where the sockets of one cluster lie."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import UsageFault, format_next_here

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from hobus.bus.link import Link
    from hobus.bus.port import Bus
    from hobus.bus.zeromq.context import ZeroMQ
    from hobus.config.snapshot import Snapshot


def make_socket_path(sockets: Path, name: str) -> Path:
    return sockets / f"{name}.sock"


class Place(Struct, frozen=True):
    """One cluster on this machine: its home, its sockets, its configuration."""

    home: Home
    sockets: Path
    snapshot: Snapshot
    listening: int | None = None
    """Of an HTTP door: the descriptor of the socket that it accepts from."""
    connect: Callable[[str], AbstractAsyncContextManager[Bus]] | None = None
    """Connects a client in this role; None: by its sockets."""

    @property
    def client_timeout_s(self) -> float:
        """Return how long a client waits for an answer (launcher.client_timeout_ms)."""
        return self.snapshot.config.launcher.client_timeout_ms / 1000

    @property
    def broker(self) -> str:
        return self.lane("broker")

    @property
    def tap(self) -> str:
        return self.lane("tap")

    def lane(self, of: str) -> str:
        """Return the address of a service's lane, or of an executor's by its instance: the next one takes its place."""
        return f"ipc://{make_socket_path(self.sockets, of.partition('@')[0].replace('/', '-'))}"

    def links(self, zeromq: ZeroMQ, lanes: Sequence[str]) -> dict[str, Link]:
        """Make a connection to the broker and one to each of these lanes, on a running loop."""
        return {name: self.link(zeromq, name) for name in ("", *lanes)}

    def link(self, zeromq: ZeroMQ, lane: str) -> Link:
        """Make a connection to a lane, or to the broker (""), on a running loop."""
        from hobus.bus.zeromq.link import ZeroMQLink  # noqa: PLC0415 - most commands connect to nothing

        return ZeroMQLink(zeromq, self.snapshot.config.bus, self.lane(lane) if lane else self.broker)


_FORM = re.compile(r"(?P<host>\*|\[[0-9A-Fa-f:]+\]|[^\s:/]+):(?P<port>[0-9]{1,5})")
_PORT_MAX = 65_535
_EVERY_HOST = ("*", "0.0.0.0", "[::]")  # noqa: S104 - what is compared with


def split_address(address: str, *, option: str = "") -> tuple[str, int]:
    """Return host and port. Raises CommandError (usage) for anything else, named as what it was given for."""
    match = _FORM.fullmatch(address)
    if match is None or int(match["port"]) > _PORT_MAX:
        example = "up --http 127.0.0.1:0" if "--http" in option else "up --listen 127.0.0.1:0"
        hint = f"{format_next_here(example)}   (this machine alone, any free port)"
        raise UsageFault(
            f"{option}{': ' * bool(option)}{address[:200]!r} is not an address: expected HOST:PORT",
            hint="the same command with --address HOST:PORT" if option == "--address" else hint,
        )
    return match["host"], int(match["port"])


def is_every_host(address: str) -> bool:
    return split_address(address)[0] in _EVERY_HOST
