"""Where the sockets of one cluster lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hobus.bus.lanes import LANES
from hobus.launch.cluster.home import Home

if TYPE_CHECKING:
    from hobus.config.snapshot import Snapshot

BOUND_BY = {"broker": ("broker", "tap"), **{service: (service,) for service in LANES}}
"""Role -> the sockets that its process makes."""


def socket_of(sockets: Path, name: str) -> Path:
    """The file of a socket."""
    return sockets / f"{name}.sock"


@dataclass(frozen=True, slots=True)
class Place:
    """One cluster on this machine: its home, its sockets, its configuration."""

    home: Home
    sockets: Path
    snapshot: Snapshot
    listening: int | None = None
    """Of an HTTP door: the descriptor of the socket that it accepts from."""

    @property
    def client_timeout_s(self) -> float:
        """How long a client waits for an answer (launcher.client_timeout_ms)."""
        return self.snapshot.config.launcher.client_timeout_ms / 1000

    @property
    def broker(self) -> str:
        """Address of the broker."""
        return self.lane("broker")

    @property
    def tap(self) -> str:
        """Address of the tap."""
        return self.lane("tap")

    def lane(self, service: str) -> str:
        """Address of a service's own socket."""
        return f"ipc://{socket_of(self.sockets, service)}"
