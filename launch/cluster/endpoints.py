"""Where the sockets of one cluster lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hobus.launch.cluster.home import Home

if TYPE_CHECKING:
    from hobus.config.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Place:
    """One cluster on this machine: its home, its sockets, its configuration."""

    home: Home
    sockets: Path
    snapshot: Snapshot

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
        return f"ipc://{self.sockets / service}.sock"
