"""The session host."""

from __future__ import annotations

from hobus.actors.session_host.actor import SessionHost
from hobus.bus.disk import RealDisk
from hobus.launch.cluster.endpoints import Place
from hobus.launch.process.roles import Made


def make(place: Place) -> Made:
    """Make the client's edge, with its spool below `<home>/spool`. Raises OSError."""
    return Made(SessionHost(snapshot=place.snapshot, spool=RealDisk(place.home.spool / "host")))
