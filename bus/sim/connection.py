"""A simulated connection: what one process and one server know of each other, and the ports over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from hobus.bus.lane_server import LaneServer
from hobus.bus.link import OnFrames
from hobus.bus.sim.process import SimProcess

Direction = Literal["up", "down"]
"""up: from the process to its server; down: back."""


@dataclass(slots=True, eq=False)
class SimConnection:
    """One connection of a process to the broker ("") or to a lane."""

    routing: bytes
    server: str
    process: SimProcess
    on_frames: OnFrames | None = None
    is_open: bool = True
    link: int = 1  # counts the times that it was made; 0 while nobody is at the other end
    links_made: int = 1
    breaks: int = 0  # how often it broke; what was on its way then is lost
    closed_until: float = 0.0  # nobody can be reached before
    waiting: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    arrives_at: dict[Direction, float] = field(default_factory=lambda: {"up": 0.0, "down": 0.0})
    """When the last frame of a direction arrives; none overtakes it."""
    blocked_until: dict[Direction, float] = field(default_factory=lambda: {"up": 0.0, "down": 0.0})

    @property
    def is_reachable(self) -> bool:
        """Whether the process holds its end."""
        return self.is_open and self.process.is_alive


class Wires(Protocol):
    """What the ports below need of the network."""

    connections: dict[bytes, SimConnection]

    def to_server(self, connection: SimConnection, header: bytes, body: bytes) -> None:
        """On its way up."""
        ...

    def to_client(self, sender: str, connection: SimConnection, header: bytes, body: bytes) -> None:
        """On its way down."""
        ...

    def break_named(self, routing: bytes) -> None:
        """The server of this connection cuts it off."""
        ...


@dataclass(slots=True)
class SimLink:
    """`bus.link.Link` of a simulated process."""

    network: Wires
    connection: SimConnection

    def attach(self, on_frames: OnFrames) -> None:
        """Incoming frames go to `on_frames`."""
        self.connection.on_frames = on_frames

    def send(self, header: bytes, body: bytes) -> None:
        """On its way to the server."""
        if not self.connection.is_reachable:
            return
        if self.connection.link:
            self.network.to_server(self.connection, header, body)
        else:
            self.connection.waiting.append((header, body))

    def discard(self) -> None:
        """Frames that never left are forgotten."""
        self.connection.waiting.clear()

    def close(self) -> None:
        """Nothing arrives any more."""
        self.connection.is_open = False


@dataclass(slots=True)
class LaneEnd:
    """`bus.link.LaneTransport` of a simulated lane."""

    network: Wires
    process: SimProcess
    server: LaneServer
    is_open: bool = True

    def send(self, routing: bytes, header: bytes, body: bytes) -> bool:
        """False if nobody is connected under this routing id any more."""
        connection = self.network.connections.get(routing)
        if connection is None or not connection.is_reachable:
            return False
        self.network.to_client(self.server.instance, connection, header, body)
        return True

    def unsent(self) -> Mapping[bytes, int]:
        """Nothing: here every answer is on its way at once."""
        return {}

    def cut(self, routing: bytes, peer: str, why: str) -> None:  # noqa: ARG002 - the transport's signature
        """This connection ends; a client makes another one and says hello again."""
        self.network.break_named(routing)

    def close(self) -> None:
        """Nothing is taken or given afterwards."""
        self.is_open = False
